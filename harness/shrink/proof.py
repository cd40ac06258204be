"""What is left is needed: each item is taken out alone, and faults in pairs, and the failure goes every time."""

from __future__ import annotations

from itertools import combinations, islice
from typing import Final

from attrs import frozen

from harness.faults import Fault, Script
from harness.shrink.items import Item, items_of, made_of
from harness.shrink.trials import Trials

PAIRS_MAX: Final = 15


@frozen
class Proof:
    """`needed` was seen: without it the script does not fail. `unproven` could not be tried any more."""

    needed: tuple[Item, ...]
    unproven: tuple[Item, ...]
    pairs: int
    """Pairs of faults that were taken out together."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(item for item in self.needed if isinstance(item, Fault))

    @property
    def whole(self) -> bool:
        return not self.unproven


def take_out(script: Script, trials: Trials) -> Script:
    """The script without the first item, or pair of faults, that is not missed; the script itself if all are."""
    items = items_of(script)
    for gone in [*((item,) for item in items), *_pairs(script)]:
        less = _without(script, gone)
        if trials.fails(less):
            return less
    return script


def prove(script: Script, trials: Trials) -> Proof:
    items = items_of(script)
    needed = [item for item in items if trials.held(_without(script, (item,)))]
    seen = {id(item) for item in needed}
    pairs = sum(trials.held(_without(script, pair)) for pair in _pairs(script))
    return Proof(tuple(needed), tuple(item for item in items if id(item) not in seen), pairs)


def _pairs(script: Script) -> list[tuple[Item, ...]]:
    return list(islice(combinations(script.faults, 2), PAIRS_MAX))


def _without(script: Script, gone: tuple[Item, ...]) -> Script:
    ids = {id(item) for item in gone}
    return made_of(script, [item for item in items_of(script) if id(item) not in ids])
