"""From a failing script to a small one that fails in the same way: take things out for as long as it still does.

First whole faults and operations, by delta debugging: halves, then quarters, and so on. Then one at a time,
until no single one can be missed. Then what is left is made plainer: less of it, in a calmer world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from attrs import evolve, frozen

from harness.faults import Fault, Knobs, Op, Reconfigure, Script, Timing, Write

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

    script = _shorten(script, still)
    while True:
        before = script
        script = _take_out(script, still)
        for plainer in _plainer(script):
            if still(plainer):
                script = plainer
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


_KNOBS: Final = (
    "tick_ms", "window_entries", "log_sync_entries_max", "snapshot_every", "segment_bytes", "chunk_bytes",
    "outstanding_max",
)  # fmt: skip


def _plainer(script: Script) -> Iterator[Script]:
    """The same in a simpler world, one simplification at a time."""
    named = {getattr(item, "server", 0) for item in (*script.faults, *script.ops)}
    if script.observers and script.servers not in named:
        yield evolve(script, observers=script.observers - 1)
    for name in ("loss_percent", "double_percent", "spike_percent", "turn_us_max"):
        if getattr(script.timing, name):
            yield evolve(script, timing=evolve(script.timing, **{name: 0}))
    for name in ("delay_us_min", "delay_us_max", "fsync_us_min", "fsync_us_max", "spike_us_max", "break_ms_max"):
        usual = getattr(Timing(), name)
        if getattr(script.timing, name) != usual:
            yield evolve(script, timing=evolve(script.timing, **{name: usual}))
    for name in _KNOBS:
        usual = getattr(Knobs(), name)
        if getattr(script.knobs, name) != usual:
            yield evolve(script, knobs=evolve(script.knobs, **{name: usual}))
    for number, op in enumerate(script.ops):
        if isinstance(op, Write) and (op.count, op.size) != (1, 0):
            yield evolve(script, ops=_replaced(script.ops, number, evolve(op, count=1, size=0)))
        elif isinstance(op, Reconfigure):
            continue
    for number, fault in enumerate(script.faults):
        for name, simple in (("down_ms", 1), ("for_ms", 10), ("acts", 1), ("nth", 1)):
            value = getattr(fault, name, simple)
            if value > simple:
                made: Fault = evolve(fault, **{name: simple})  # type: ignore[arg-type]  # it has that attribute
                yield evolve(script, faults=_replaced(script.faults, number, made))


def _replaced(items: tuple[Item, ...], number: int, item: Item) -> tuple[Item, ...]:
    return (*items[:number], item, *items[number + 1 :])
