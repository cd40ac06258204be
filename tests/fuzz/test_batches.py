"""Noise and damaged batches at the readers of record batches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.batch_targets import TARGETS
from tests.fuzz.target import Target
from tests.fuzz.test_zookeeper import gone_wrong

targets = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@targets
@given(data=st.data())
@settings(max_examples=50)
def test_nothing_but_the_declared_error(target: Target, data: st.DataObject) -> None:
    target.run(data.draw(st.one_of(st.binary(max_size=200), st.sampled_from(target.seeds).flatmap(gone_wrong))))


@pytest.mark.fuzz
@targets
@given(data=st.data())
@settings(max_examples=100_000, derandomize=False)
def test_the_same_for_as_long_as_one_likes(target: Target, data: st.DataObject) -> None:
    target.run(data.draw(st.one_of(st.binary(max_size=200), st.sampled_from(target.seeds).flatmap(gone_wrong))))


@targets
def test_seeds_are_accepted_and_every_cut_of_them_is_survived(target: Target) -> None:
    for seed in target.seeds:
        assert target.run(seed)
        for end in range(len(seed) + 1):
            target.run(seed[:end])
