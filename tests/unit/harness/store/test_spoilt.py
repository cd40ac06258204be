"""Each lie that a store must not tell is noticed, wherever in a history it is told."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from harness.checkers.store import check
from harness.history import History
from tests.histories.ensemble import legal
from tests.histories.spoil import SPOILERS, Spoiler

SEEDS = 40
ENOUGH = 4


@cache
def honest(seed: int) -> History:
    return legal(seed, steps=100)


@pytest.mark.parametrize("spoiler", SPOILERS, ids=lambda spoiler: spoiler.__name__)
def test_a_lie_is_noticed(spoiler: Spoiler) -> None:
    told = 0
    for seed in range(SEEDS):
        spoilt = spoiler(Random(seed), honest(seed))
        if spoilt is not None:
            assert not check(spoilt).valid, f"{spoiler.__name__} in the history of seed {seed}"
            told += 1
        if told == ENOUGH:
            return
    raise AssertionError(f"only {told} of {SEEDS} histories had something to spoil")
