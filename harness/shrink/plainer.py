"""Simplify values and the schedule. All changes are tried at once, and by halves if that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve, fields

from harness.faults import Ask, Knobs, Script, Timing, Write
from harness.script.checks import is_sound
from harness.script.constants import Drawn
from harness.shrink.trials import Item, Trials

Change: TypeAlias = Callable[[Script], Script]

REGULAR: Final = Timing(delay_us_min=1_000, delay_us_max=1_000, fsync_us_min=1_000, fsync_us_max=1_000)
"""Every message and every fsync takes one millisecond, so messages arrive in the order of their sending."""

LEAST: Final = {"down_ms": 10, "for_ms": 10, "acts": 1, "nth": 1}
"""The least values of fields of a fault."""


def adopt(script: Script, changes: Sequence[Change], trials: Trials) -> Script:
    """Apply the changes with which the script still fails: all, or else those of each half."""
    made = script
    for change in changes:
        made = change(made)
    if made == script or not changes:
        return script
    if trials.fails(made):
        return made
    if len(changes) == 1:
        return script
    middle = len(changes) // 2
    return adopt(adopt(script, changes[:middle], trials), changes[middle:], trials)


# -- timing and knobs ------------------------------------------------------------------------------------


def calm(script: Script, trials: Trials) -> Script:
    """Set timing, knobs and constants to their defaults as a whole, if the script still fails."""
    usual = evolve(Knobs(), counter_max=script.knobs.counter_max)
    for made in (
        evolve(script, timing=Timing(), knobs=usual, constants=(), observers=0),
        evolve(script, timing=Timing(), knobs=usual, constants=()),
        evolve(script, constants=()),
        evolve(script, timing=Timing()),
        evolve(script, knobs=usual),
    ):
        if made != script and is_sound(made) and trials.fails(made):
            return made
    return script


def settled(script: Script, trials: Trials) -> Script:
    """Set the remaining timing, knobs and constants to their defaults one by one."""
    changes = [
        _setting(place, attribute.name, getattr(usual, attribute.name))
        for place, usual in (("timing", Timing()), ("knobs", Knobs()))
        for attribute in fields(type(usual))
        if getattr(getattr(script, place), attribute.name) != getattr(usual, attribute.name)
    ]
    changes += [_without(each) for each in script.constants]
    alone = evolve(script, observers=0)
    if alone != script and is_sound(alone):  # no item names an observer
        changes.append(lambda it: evolve(it, observers=0))
    return adopt(script, changes, trials)


def regular(script: Script, trials: Trials) -> Script:
    """Make the schedule regular, or the part of it with which the script still fails."""
    whole = evolve(script, timing=REGULAR)
    if whole == script or trials.fails(whole):
        return whole
    changes: list[Change] = [
        lambda it: evolve(it, timing=evolve(it.timing, fsync_us_min=1_000, fsync_us_max=1_000)),
        lambda it: evolve(it, timing=evolve(it.timing, delay_us_min=1_000, delay_us_max=1_000)),
    ]
    return adopt(script, changes, trials)


def _setting(place: str, name: str, value: object) -> Change:
    def change(script: Script) -> Script:
        return _evolved(script, place, evolve(getattr(script, place), **{name: value}))

    return change


def _without(constant: Drawn) -> Change:
    return lambda it: evolve(it, constants=tuple(each for each in it.constants if each != constant))


def _evolved(script: Script, place: str, value: Any) -> Script:
    changed: dict[str, Any] = {place: value}
    return evolve(script, **changed)


# -- values ----------------------------------------------------------------------------------------------


def plain(script: Script, trials: Trials) -> Script:
    script = adopt(script, [_of_item("ops", number, _small) for number in range(len(script.ops))], trials)
    script = adopt(script, [_of_item("faults", number, _brief) for number in range(len(script.faults))], trials)
    return adopt(script, [_at_round_times(100), _at_round_times(10)], trials)


def _of_item(place: str, number: int, change: Callable[[Any], Any]) -> Change:
    def made(script: Script) -> Script:
        items = getattr(script, place)
        return _evolved(script, place, (*items[:number], change(items[number]), *items[number + 1 :]))

    return made


def _small(op: Item) -> Item:
    if isinstance(op, Write):
        return evolve(op, count=1, size=0)
    if isinstance(op, Ask):
        return evolve(op, steps=tuple(evolve(step, size=min(step.size, 1)) for step in op.steps))
    return op


def _brief(fault: Item) -> Item:
    briefly: dict[str, Any] = {name: least for name, least in LEAST.items() if getattr(fault, name, 0) > least}
    return evolve(fault, **briefly)


def _at_round_times(step_ms: int) -> Change:
    """Move everything to a later round time, which keeps the order."""

    def later(at: int) -> int:
        return -(-at // step_ms) * step_ms

    def change(script: Script) -> Script:
        faults = tuple(evolve(fault, at=later(fault.at)) for fault in script.faults)
        ops = tuple(evolve(op, at=later(op.at)) for op in script.ops)
        return evolve(script, length_ms=later(script.length_ms), faults=faults, ops=ops)

    return change
