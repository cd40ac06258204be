"""From a failing script to a small one that fails in the same way: take things out for as long as it still does.

First the world is calmed, if it may be. Then whole faults and operations go, by delta debugging: halves,
quarters, and so on, until no single one can be missed. Then what is left is made plainer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from attrs import evolve, fields, frozen

from harness.faults import Fault, Knobs, Op, Script, Timing, Write

Item = TypeVar("Item")


@frozen
class Shrunk:
    script: Script
    runs: int
    """How often a script was run on the way."""


def shrink(script: Script, fails: Callable[[Script], bool], *, runs_max: int = 400) -> Shrunk:
    """`fails` says whether a script breaks the same promise. The given one does."""
    runs = 0
    known: dict[str, bool] = {}

    def still(candidate: Script) -> bool:
        nonlocal runs
        key = repr(candidate)
        if key not in known:
            if runs >= runs_max:
                return False
            runs += 1
            known[key] = fails(candidate)
        return known[key]

    script = _calm(script, still)
    script = _shorten(script, still)
    while True:
        before = script
        script = _make_plainer(_take_out(script, still), still)
        if script == before:
            return Shrunk(script, runs)


def _shorten(script: Script, still: Callable[[Script], bool]) -> Script:
    """Nothing that comes late matters for what happened early: cut the end off, by halves."""
    events = sorted(item.at for item in (*script.faults, *script.ops))
    keep = len(events)
    step = keep // 2
    while step:
        if keep - step >= 0:
            until = events[keep - step - 1] if keep > step else 0
            candidate = evolve(
                script,
                length_ms=until + 1,
                faults=tuple(fault for fault in script.faults if fault.at <= until),
                ops=tuple(op for op in script.ops if op.at <= until),
            )
            if still(candidate):
                script, keep = candidate, keep - step
                continue
        step //= 2
    return script


def _take_out(script: Script, still: Callable[[Script], bool]) -> Script:
    items: list[Fault | Op] = [*script.faults, *script.ops]

    def made_of(chosen: Sequence[Fault | Op]) -> Script:
        kept = {id(item) for item in chosen}
        return evolve(
            script,
            faults=tuple(fault for fault in script.faults if id(fault) in kept),
            ops=tuple(op for op in script.ops if id(op) in kept),
        )

    return made_of(ddmin(items, lambda chosen: still(made_of(chosen))))


def ddmin(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A part of `items` that still fails, and from which none can be taken out alone."""
    current = list(items)
    if current and fails([]):
        return []
    pieces = 2
    while len(current) >= 2:
        size = -(-len(current) // pieces)
        for start in range(0, len(current), size):
            rest = current[:start] + current[start + size :]
            if rest and fails(rest):
                current = rest
                pieces = max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(2 * pieces, len(current))
    return current


def _calm(script: Script, still: Callable[[Script], bool]) -> Script:
    """In a calm world little depends on chance, so that taking one thing out does not change everything else."""
    for calm in (
        evolve(script, timing=Timing(), knobs=evolve(Knobs(), counter_max=script.knobs.counter_max), observers=0),
        evolve(script, timing=Timing(), knobs=evolve(Knobs(), counter_max=script.knobs.counter_max)),
        evolve(script, timing=Timing()),
        evolve(script, knobs=Knobs()),
        evolve(script, timing=evolve(script.timing, turn_us_max=0, spike_percent=0, loss_percent=0, double_percent=0)),
    ):
        if calm != script and still(calm):
            return calm
    return script


def _make_plainer(script: Script, still: Callable[[Script], bool]) -> Script:
    """One simplification after the other, each kept if the script still fails; the sweeping ones first."""

    def attempt(candidate: Script) -> None:
        nonlocal script
        if candidate != script and still(candidate):
            script = candidate

    attempt(evolve(script, ops=tuple(_plain(op) for op in script.ops), faults=tuple(map(_brief, script.faults))))
    attempt(evolve(script, ops=tuple(_plain(op) for op in script.ops)))
    for number in range(len(script.ops)):
        attempt(evolve(script, ops=_replaced(script.ops, number, _plain(script.ops[number]))))
    for number in range(len(script.faults)):
        attempt(evolve(script, faults=_replaced(script.faults, number, _brief(script.faults[number]))))
    for place, usual in (("timing", Timing()), ("knobs", Knobs())):
        mine = getattr(script, place)
        for attribute in fields(type(usual)):
            value = getattr(usual, attribute.name)
            if getattr(mine, attribute.name) != value:
                world = evolve(getattr(script, place), **{attribute.name: value})
                attempt(evolve(script, timing=world) if place == "timing" else evolve(script, knobs=world))
    return script


def _plain(op: Op) -> Op:
    return evolve(op, count=1, size=0) if isinstance(op, Write) else op


_BRIEFLY: Final = {"down_ms": 1, "for_ms": 10, "acts": 1, "nth": 1}


def _brief(fault: Fault) -> Fault:
    briefly = {name: least for name, least in _BRIEFLY.items() if getattr(fault, name, 0) > least}
    if not briefly:
        return fault
    made: Fault = evolve(fault, **briefly)  # type: ignore[arg-type]  # it has these attributes
    return made


def _replaced(items: tuple[Item, ...], number: int, item: Item) -> tuple[Item, ...]:
    return (*items[:number], item, *items[number + 1 :])
