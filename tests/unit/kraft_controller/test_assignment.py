from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_controller.core.names import BrokerId
from kraft_controller.core.topics.assignment import (
    AssignmentError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    Start,
    alternated,
    assign,
    check_manual,
    growth,
    plain,
    spread,
    spread_over_racks,
)

FIXED = Start(0, 0)
RACKS = {BrokerId(b): rack for b, rack in enumerate(["r1", "r3", "r3", "r2", "r2", "r1"])}


def ids(*numbers: int) -> list[BrokerId]:
    return [BrokerId(number) for number in numbers]


def lists(text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, part.split(","))) for part in text.split()]


@pytest.mark.mechanism(33)
def test_plain_assignment_follows_the_textbook_formula() -> None:
    assert plain(ids(0, 1, 2), 4, 2) == lists("0,1 1,2 2,0 0,1")


@pytest.mark.mechanism(33)
def test_followers_are_shifted_after_each_round() -> None:
    assert spread(ids(0, 1, 2, 3, 4), 15, 3, FIXED) == lists(
        "0,1,2 1,2,3 2,3,4 3,4,0 4,0,1 0,2,3 1,3,4 2,4,0 3,0,1 4,1,2 0,3,4 1,4,0 2,0,1 3,1,2 4,2,3"
    )
    assert spread(ids(0, 1, 2), 7, 2, FIXED) == lists("0,1 1,2 2,0 0,2 1,0 2,1 0,1")


@pytest.mark.mechanism(33)
def test_random_start_shifts_the_assignment() -> None:
    assert spread(ids(1, 2, 3, 4), 6, 3, Start(2, 1)) == lists("3,1,2 4,2,3 1,3,4 2,4,1 3,2,4 4,3,1")


def test_racks_take_turns() -> None:
    assert alternated(RACKS) == [0, 3, 1, 5, 4, 2]


def test_replicas_stand_in_different_racks() -> None:
    assert spread_over_racks(RACKS, 13, 3, FIXED) == lists(
        "0,3,1 3,1,5 1,5,4 5,4,2 4,2,0 2,0,3 0,4,2 3,2,0 1,0,3 5,3,1 4,1,5 2,5,4 0,1,4"
    )
    assert spread_over_racks(RACKS, 7, 2, FIXED) == lists("0,3 3,1 1,5 5,4 4,2 2,0 0,4")
    four = spread_over_racks(RACKS, 7, 4, FIXED)
    assert [four[0], four[1], four[6]] == lists("0,3,1,5 3,1,5,4 0,4,2,3")


@given(
    brokers=st.integers(1, 12), partitions=st.integers(1, 40), start=st.integers(0, 11), shift=st.integers(0, 11),
    factor=st.integers(1, 12), racks=st.lists(st.sampled_from("abcd"), min_size=12, max_size=12),
)  # fmt: skip
def test_always(brokers: int, partitions: int, start: int, shift: int, factor: int, racks: list[str]) -> None:
    """No broker twice in a partition; leaders differ by one at most; racks differ as long as they can."""
    factor = min(factor, brokers)
    everybody = ids(*range(brokers))
    in_racks = dict(zip(everybody, racks, strict=False))
    there = len(set(in_racks.values()))
    begin = Start(start % brokers, shift % brokers)
    for made in (
        plain(everybody, partitions, factor),
        spread(everybody, partitions, factor, begin),
        spread_over_racks(in_racks, partitions, factor, begin),
    ):
        assert len(made) == partitions
        assert all(len(set(replicas)) == factor for replicas in made)
        led = [sum(replicas[0] == broker for replicas in made) for broker in everybody]
        assert max(led) - min(led) <= 1
    assert all(len({in_racks[replica] for replica in replicas}) == min(factor, there) for replicas in made)


def test_new_partitions_continue_the_pattern() -> None:
    first = spread(ids(0, 1, 2, 3, 4), 3, 3, FIXED)
    more = spread(ids(0, 1, 2, 3, 4), 3, 3, growth(ids(0, 1, 2, 3, 4), first[0][0], 3))
    assert first + more == spread(ids(0, 1, 2, 3, 4), 6, 3, FIXED)
    assert growth(ids(0, 2, 4), BrokerId(3), 6) == Start(2, 2, 6)
    assert growth(ids(0, 1), BrokerId(7), 1) == Start(0, 0, 1)


def test_mixed_racks_are_refused() -> None:
    with pytest.raises(AssignmentError, match=r"brokers \[2\] have no rack"):
        assign({BrokerId(1): "a", BrokerId(2): None}, 1, 1, FIXED)
    assert assign({BrokerId(1): None, BrokerId(2): None}, 1, 2, FIXED) == [(1, 2)]
    assert assign({BrokerId(1): "a", BrokerId(2): "b"}, 1, 2, FIXED) == [(1, 2)]


def test_impossible_assignment_is_refused() -> None:
    with pytest.raises(InvalidPartitions, match="0 partitions"):
        plain(ids(1), 0, 1)
    with pytest.raises(InvalidPartitions, match="one request may add at most 10000"):
        spread(ids(3), 99_999_999_999, 3, FIXED)
    with pytest.raises(InvalidReplicationFactor, match="at least one replica"):
        spread(ids(1), 1, 0, FIXED)
    with pytest.raises(InvalidReplicationFactor, match="there are 2"):
        spread(ids(1, 2), 1, 3, FIXED)


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        ({0: [1, 1]}, "names a broker twice"),
        ({0: [1, 2], 1: [1]}, "partition 1 has replication factor 1, but partition 0 has 2"),
        ({0: [9]}, r"unknown brokers \[9\]; registered are \[1, 2\]"),
        ({1: [1]}, "numbered from 0 without a gap"),
        ({0: [1], 2: [1]}, "numbered from 0 without a gap"),
        ({0: []}, "has no replicas"),
    ],
)
def test_manual_assignment_is_checked(assignment: dict[int, list[int]], why: str) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=why):
        check_manual(assignment, ids(1, 2))
    check_manual({3: [1, 2], 4: [2, 1]}, ids(1, 2), first=3)
