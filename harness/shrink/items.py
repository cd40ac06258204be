"""A script as a list of decisions: its faults and operations in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from attrs import evolve

from harness.faults import Fault, Op, Script

Item: TypeAlias = Fault | Op


def items_of(script: Script) -> list[Item]:
    return sorted([*script.ops, *script.faults], key=lambda item: item.at)


def made_of(script: Script, chosen: Sequence[Item]) -> Script:
    """The script with these of its items only."""
    kept = {id(item) for item in chosen}
    return evolve(
        script,
        faults=tuple(fault for fault in script.faults if id(fault) in kept),
        ops=tuple(op for op in script.ops if id(op) in kept),
    )


def until(script: Script, at_ms: int) -> Script:
    """The script up to this time."""
    return evolve(
        script,
        length_ms=at_ms + 1,
        faults=tuple(fault for fault in script.faults if fault.at <= at_ms),
        ops=tuple(op for op in script.ops if op.at <= at_ms),
    )
