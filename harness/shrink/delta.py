"""Delta debugging: parts of a list that still fail, by taking away large pieces first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A part of `items` that still fails, and from which none can be taken out alone.

    From the end, because what happened last needs least of what follows. A piece that can be missed makes the next
    one twice as large, one that cannot makes it smaller: a long stretch of items that do not matter costs few tries.
    """
    current = list(items)
    if current and fails([]):
        return []
    while True:
        before = len(current)
        current = _once(current, fails)
        if len(current) == before or len(current) < 2:
            return current


def _once(current: list[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    end = len(current)
    size = max(1, end // 2)
    while end > 0:
        size = min(size, end)
        rest = current[: end - size] + current[end:]
        if rest and fails(rest):
            current = rest
            end -= size
            size *= 2
        elif size > 1:
            size //= 2
        else:
            end -= 1
            size = 2
    return current
