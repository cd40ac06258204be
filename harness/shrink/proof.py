"""Find the needed items by delta debugging, and prove that they are needed: remove each alone, and faults in pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, islice
from typing import Final, TypeVar

from attrs import frozen

from harness.faults import Fault, Script
from harness.shrink.trials import Item, Trials, items_of, made_of

PAIRS_MAX: Final = 15
T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of `items` that still fails, and from which no item can be removed alone.

    It begins at the end, because fewer items depend on later ones. After a piece that can be removed the next one is
    twice as large, else it is smaller, so that long runs of irrelevant items cost few trials.
    """
    current = list(items)
    if current and fails([]):
        return []
    while True:
        before = len(current)
        current = _pass(current, fails)
        if len(current) == before or len(current) < 2:
            return current


def _pass(current: list[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
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


@frozen
class Proof:
    needed: tuple[Item, ...]
    """The items without each of which the script does not fail."""
    unproven: tuple[Item, ...]
    """The items that were not tried, because the budget was spent."""
    pairs: int
    """The number of pairs of faults without which the script does not fail."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(item for item in self.needed if isinstance(item, Fault))

    @property
    def whole(self) -> bool:
        return not self.unproven


def take_out(script: Script, trials: Trials) -> Script:
    """Return the script without the first item, or pair of faults, that it does not need to fail; else the script."""
    singles = ((item,) for item in items_of(script))
    less = (_without(script, gone) for gone in (*singles, *_pairs(script)))
    return next(filter(trials.fails, less), script)


def prove(script: Script, trials: Trials) -> Proof:
    items = items_of(script)
    needed = [item for item in items if trials.valid(_without(script, (item,)))]
    seen = {id(item) for item in needed}
    pairs = sum(trials.valid(_without(script, pair)) for pair in _pairs(script))
    return Proof(tuple(needed), tuple(item for item in items if id(item) not in seen), pairs)


def _pairs(script: Script) -> list[tuple[Item, ...]]:
    return list(islice(combinations(script.faults, 2), PAIRS_MAX))


def _without(script: Script, gone: tuple[Item, ...]) -> Script:
    ids = {id(item) for item in gone}
    return made_of(script, [item for item in items_of(script) if id(item) not in ids])
