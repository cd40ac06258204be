"""Each kind of corruption of a legal history is detected."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from harness.checkers.store import check
from harness.history import History
from tests.histories.corrupt import CORRUPTIONS, Corruption
from tests.histories.ensemble import legal

SEEDS = 40
ENOUGH = 4


@cache
def legal_history(seed: int) -> History:
    return legal(seed, steps=100)


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda corruption: corruption.__name__)
def test_corrupted_history_is_invalid(corruption: Corruption) -> None:
    corrupted = 0
    for seed in range(SEEDS):
        made = corruption(Random(seed), legal_history(seed))
        if made is not None:
            assert not check(made).valid, f"{corruption.__name__} in the history of seed {seed}"
            corrupted += 1
        if corrupted == ENOUGH:
            return
    raise AssertionError(f"only {corrupted} of {SEEDS} histories could be corrupted")
