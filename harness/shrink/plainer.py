"""Values made plain, and the schedule made regular. Many changes are tried at once, and taken apart if that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve, fields

from harness.faults import Ask, Knobs, Script, Timing, Write
from harness.script.checks import is_sound
from harness.shrink.items import Item
from harness.shrink.trials import Trials

Change: TypeAlias = Callable[[Script], Script]

REGULAR: Final = Timing(delay_us_min=1_000, delay_us_max=1_000, fsync_us_min=1_000, fsync_us_max=1_000)
"""Every word takes a millisecond, and so does every fsync: nothing overtakes anything."""

BRIEFLY: Final = {"down_ms": 10, "for_ms": 10, "acts": 1, "nth": 1}
"""The least of what a fault may say of itself; it is kept where the failure survives it."""


def adopt(script: Script, changes: Sequence[Change], trials: Trials) -> Script:
    """As many of the changes as the failure survives: all, or else those of each half."""
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


# -- speed and settings --------------------------------------------------------------------------------


def calm(script: Script, trials: Trials) -> Script:
    """The usual world, or as much of it as the failure survives at first sight."""
    usual = evolve(Knobs(), counter_max=script.knobs.counter_max)
    for made in (
        evolve(script, timing=Timing(), knobs=usual, observers=0),
        evolve(script, timing=Timing(), knobs=usual),
        evolve(script, timing=Timing()),
        evolve(script, knobs=usual),
    ):
        if made != script and is_sound(made) and trials.fails(made):
            return made
    return script


def settled(script: Script, trials: Trials) -> Script:
    """Setting by setting, those that calming as a whole did not bring back to what is usual."""
    changes = [*_fields_of("timing", script.timing, Timing()), *_fields_of("knobs", script.knobs, Knobs())]
    alone = evolve(script, observers=0)
    if alone != script and is_sound(alone):  # nothing that is left is about one of them
        changes.append(lambda it: evolve(it, observers=0))
    return adopt(script, changes, trials)


def regular(script: Script, trials: Trials) -> Script:
    """One schedule among all: the regular one, or the usual one with what can be regular in it."""
    whole = evolve(script, timing=REGULAR)
    if whole == script or trials.fails(whole):
        return whole
    return adopt(
        script,
        [
            lambda it: evolve(it, timing=evolve(it.timing, fsync_us_min=1_000, fsync_us_max=1_000)),
            lambda it: evolve(it, timing=evolve(it.timing, delay_us_min=1_000, delay_us_max=1_000)),
        ],
        trials,
    )


def _fields_of(place: str, mine: Timing | Knobs, usual: Timing | Knobs) -> Iterator[Change]:
    for attribute in fields(type(usual)):
        value = getattr(usual, attribute.name)
        if getattr(mine, attribute.name) != value:
            yield _with_field(place, attribute.name, value)


def _with_field(place: str, name: str, value: object) -> Change:
    def change(script: Script) -> Script:
        inner = evolve(getattr(script, place), **{name: value})
        return evolve(script, timing=inner) if place == "timing" else evolve(script, knobs=inner)

    return change


# -- values --------------------------------------------------------------------------------------------


def plain(script: Script, trials: Trials) -> Script:
    script = adopt(script, [_of_item("ops", number, _small) for number in range(len(script.ops))], trials)
    script = adopt(script, [_of_item("faults", number, _brief) for number in range(len(script.faults))], trials)
    return adopt(script, [_at_round_times(100), _at_round_times(10)], trials)


def _of_item(place: str, number: int, change: Callable[[Any], Any]) -> Change:
    def made(script: Script) -> Script:
        items = getattr(script, place)
        changed = (*items[:number], change(items[number]), *items[number + 1 :])
        return evolve(script, ops=changed) if place == "ops" else evolve(script, faults=changed)

    return made


def _small(op: Item) -> Item:
    if isinstance(op, Write):
        return evolve(op, count=1, size=0)
    if isinstance(op, Ask):
        return evolve(op, steps=tuple(evolve(step, size=min(step.size, 1)) for step in op.steps))
    return op


def _brief(fault: Item) -> Item:
    briefly = {name: least for name, least in BRIEFLY.items() if getattr(fault, name, 0) > least}
    made: Item = evolve(fault, **briefly) if briefly else fault  # type: ignore[arg-type]  # it has these attributes
    return made


def _at_round_times(step_ms: int) -> Change:
    """Everything a little later, so that nothing changes places."""

    def later(at: int) -> int:
        return -(-at // step_ms) * step_ms

    def change(script: Script) -> Script:
        faults = tuple(evolve(fault, at=later(fault.at)) for fault in script.faults)
        ops = tuple(evolve(op, at=later(op.at)) for op in script.ops)
        return evolve(script, length_ms=later(script.length_ms), faults=faults, ops=ops)

    return change
