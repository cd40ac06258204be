"""The leader epochs by which two replicas find where their logs diverge (KIP-101, KIP-279)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.partitions.partition_log import EpochEndOffset
from replica.storage.leader_epochs import LeaderEpochFileCache
from replica.storage.memory_directory import memory_directory


def cache_of(entries: Iterable[tuple[int, int]] = ()) -> LeaderEpochFileCache:
    files = memory_directory()
    files.make_folder("t-0")
    return LeaderEpochFileCache(files, "t-0", entries)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, EpochEndOffset(-1, -1)),
        (9, EpochEndOffset(9, 100)),
        (10, EpochEndOffset(-1, -1)),
        (1, EpochEndOffset(1, 5)),
        (2, EpochEndOffset(2, 20)),
        (3, EpochEndOffset(2, 20)),
        (5, EpochEndOffset(5, 60)),
        (8, EpochEndOffset(5, 60)),
    ],
)
def test_end_offset_of_epoch(asked: int, answer: EpochEndOffset) -> None:
    assert cache_of([(2, 5), (5, 20), (9, 60)]).end_offset_for(asked, 100) == answer


def test_empty_cache_knows_no_epoch() -> None:
    assert cache_of().end_offset_for(3, 100) == EpochEndOffset(-1, -1)
    assert cache_of().epoch_for_offset(0) == cache_of().latest == -1


@pytest.mark.parametrize(
    ("epoch", "start", "after"),
    [
        (5, 30, [(2, 5), (4, 20), (5, 30)]),
        (5, 20, [(2, 5), (5, 20)]),
        (5, 10, [(2, 5), (5, 10)]),
        (4, 25, [(2, 5), (4, 20)]),
        (4, 20, [(2, 5), (4, 20)]),
        (4, 10, [(2, 5), (4, 10)]),
        (3, 30, [(2, 5), (3, 30)]),
        (1, 30, [(1, 30)]),
        (0, 0, [(0, 0)]),
    ],
)
def test_assign_keeps_both_columns_ascending(epoch: int, start: int, after: list[tuple[int, int]]) -> None:
    cache = cache_of([(2, 5), (4, 20)])
    cache.assign(epoch, start)
    assert cache.entries == after


def test_continued_epoch_keeps_its_start() -> None:
    """Its leader led on, and who had led for a moment between wrote nothing that stayed."""
    cache = cache_of([(2, 5), (4, 20), (7, 30), (8, 40)])
    cache.assign(4, 30)
    assert cache.entries == [(2, 5), (4, 20)]
    assert cache.write_if_changed()
    cache.assign(4, 35)
    assert not cache.write_if_changed()
    assert cache.end_offset_for(2, 50) == EpochEndOffset(2, 20), "and not 30"


def test_unknown_epoch_replaces_later_ones_without_records() -> None:
    cache = cache_of([(2, 5), (7, 30)])
    cache.assign(4, 30)
    assert cache.entries == [(2, 5), (4, 30)]


def test_truncation_to_start_of_epoch_removes_it() -> None:
    cache = cache_of([(2, 5), (4, 20)])
    cache.truncate_from_end(20)
    assert cache.entries == [(2, 5)]
    assert cache.write_if_changed()
    cache.truncate_from_end(20)
    assert not cache.write_if_changed()


def test_truncation_from_start_keeps_last_earlier_epoch() -> None:
    cache = cache_of([(2, 5), (4, 20), (6, 30)])
    cache.truncate_from_start(25)
    assert cache.entries == [(4, 20), (6, 30)]
    assert cache.write_if_changed()
    cache.truncate_from_start(3)
    cache.truncate_from_start(30)
    assert (cache.entries, cache.write_if_changed()) == ([(4, 20), (6, 30)], False)
    cache.truncate_from_start(31)
    assert cache.entries == [(6, 30)]


@pytest.mark.parametrize("start", [21, 29, 30, 40])
def test_removed_epoch_ended_before_log_start(start: int) -> None:
    """Who has records of it up to there has others than were there."""
    cache = cache_of([(2, 5), (4, 20), (6, 30)])
    cache.truncate_from_start(start)
    assert cache.end_offset_for(2, 50).end_offset < start


@given(st.lists(st.tuples(st.sampled_from(["assign", "end", "start"]), st.integers(0, 9), st.integers(0, 99))))
def test_random_changes_keep_both_columns_ascending(steps: list[tuple[str, int, int]]) -> None:
    cache = cache_of()
    for kind, epoch, offset in steps:
        if kind == "assign":
            cache.assign(epoch, offset)
            assert cache.latest == epoch
        elif kind == "end":
            cache.truncate_from_end(offset)
        else:
            cache.truncate_from_start(offset)
        for (e1, s1), (e2, s2) in zip(cache.entries, cache.entries[1:], strict=False):
            assert e1 < e2
            assert s1 < s2
