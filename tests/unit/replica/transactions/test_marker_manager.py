"""The queues of markers: which request takes which markers, and what follows from an answer, a failure and the time."""

from __future__ import annotations

import pytest
from attrs import define, field

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode as E
from replica.core.errors import WireError
from replica.core.transactions.transaction_effects import Marker, MarkerId
from replica.core.transactions.transaction_marker_manager import (
    MarkerRequest,
    MarkerSettings,
    TransactionMarkerManager,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
NOW = 5_000
SETTINGS = MarkerSettings(retry_ms=100, check_ms=1_000, partitions_max=3)


@define(eq=False)
class Metadata:
    """The known partitions with their leaders."""

    leaders: dict[TopicPartition, BrokerId | None] = field(factory=dict)

    def __contains__(self, where: TopicPartition) -> bool:
        return where in self.leaders

    def leader(self, where: TopicPartition) -> BrokerId | None:
        return self.leaders.get(where)


class Markers:
    """A manager with its metadata, and a coordinator that awaits each marker until it is forgotten."""

    def __init__(self, leaders: dict[TopicPartition, BrokerId | None]) -> None:
        self.metadata = Metadata(leaders)
        self.awaited: set[MarkerId] = set()
        self.manager = TransactionMarkerManager(self.metadata, self.awaited.__contains__, SETTINGS)

    def add(self, number: int, *partitions: TopicPartition, producer: int | None = None, now: int = NOW) -> Marker:
        ident = MarkerId(number)
        self.awaited.add(ident)
        producer = 100 + number if producer is None else producer
        marker = Marker(ident, f"id{number}", 0, producer, 3, 7, True, partitions)
        self.manager.add(marker, now)
        return marker

    def leaders(self) -> list[BrokerId]:
        return list(self.manager.leaders)

    def request(self, leader: BrokerId) -> MarkerRequest:
        request = self.manager.next_request(leader)
        assert request is not None
        return request

    def taken(self, leader: BrokerId) -> list[tuple[int, TopicPartition]]:
        """The numbers and partitions of the next request."""
        return [(marker.number, where) for (_, where), marker in self.request(leader).markers.items()]

    def answer(self, request: MarkerRequest, error: E, now: int = NOW) -> list[tuple[int, TopicPartition, bool, bool]]:
        """Answer all markers with this error. Return numbers, partitions, and which are written and refused."""
        results = self.manager.answered(request, [(key, error) for key in request.markers], now)
        return [(each.marker.number, each.where, each.written, each.refused) for each in results]


def test_request_takes_markers_of_many_transactions_to_one_leader() -> None:
    markers = Markers({T0: ONE, T1: TWO, U0: TWO})
    markers.add(1, T0, T1, U0)
    markers.add(2, T1)
    assert markers.leaders() == [ONE, TWO]
    assert len(markers.manager) == 4
    assert markers.taken(ONE) == [(1, T0)]
    assert markers.taken(TWO) == [(1, T1), (1, U0), (2, T1)]
    assert markers.leaders() == []
    assert len(markers.manager) == 0


def test_leader_has_one_request_under_way() -> None:
    markers = Markers({T0: ONE, T1: ONE})
    markers.add(1, T0)
    request = markers.request(ONE)
    markers.add(2, T1)
    assert markers.leaders() == [ONE]
    assert markers.manager.next_request(ONE) is None
    assert markers.answer(request, E.NONE) == [(1, T0, True, False)]
    assert markers.taken(ONE) == [(2, T1)]


def test_request_has_limited_partitions() -> None:
    wheres = [TopicPartition("t", number) for number in range(7)]
    markers = Markers(dict.fromkeys(wheres, ONE))
    markers.add(1, *wheres)
    sizes = []
    while request := markers.manager.next_request(ONE):
        sizes.append(len(request.markers))
        markers.answer(request, E.NONE)
    assert sizes == [3, 3, 1]


@pytest.mark.parametrize("error", [E.NONE, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION])
def test_partition_that_cannot_hold_transactions_counts_as_marked(error: E) -> None:
    markers = Markers({T0: ONE})
    markers.add(1, T0)
    assert markers.answer(markers.request(ONE), error) == [(1, T0, True, False)]
    assert len(markers.manager) == 0
    assert markers.manager.deadline == float("inf")


@pytest.mark.parametrize("error", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_fenced_marker_is_refused_and_not_sent_again(error: E) -> None:
    markers = Markers({T0: ONE})
    markers.add(1, T0)
    assert markers.answer(markers.request(ONE), error) == [(1, T0, False, True)]
    assert len(markers.manager) == 0
    assert markers.manager.deadline == float("inf")


@pytest.mark.parametrize(
    "error", [E.NOT_LEADER_OR_FOLLOWER, E.NOT_ENOUGH_REPLICAS, E.REQUEST_TIMED_OUT, E.UNKNOWN_SERVER_ERROR]
)
def test_marker_that_was_not_written_goes_to_the_present_leader_after_a_pause(error: E) -> None:
    markers = Markers({T0: ONE})
    markers.add(1, T0)
    assert markers.answer(markers.request(ONE), error, NOW) == [(1, T0, False, False)]
    assert markers.manager.deadline == NOW + 100
    markers.metadata.leaders[T0] = TWO
    assert markers.manager.tick(NOW + 99) == []
    assert markers.leaders() == []
    assert markers.manager.tick(NOW + 100) == []
    assert markers.leaders() == [TWO]
    assert markers.taken(TWO) == [(1, T0)]


def test_partition_without_a_leader_waits_for_one() -> None:
    markers = Markers({T0: None, T1: ONE})
    markers.add(1, T0, T1)
    assert markers.leaders() == [ONE]
    now = NOW
    for _ in range(5):
        assert markers.manager.deadline == now + 100
        now += 100
        assert markers.manager.tick(now) == []
        assert markers.leaders() == [ONE]
    markers.metadata.leaders[T0] = TWO
    markers.manager.tick(now + 100)
    assert markers.taken(TWO) == [(1, T0)]


def test_failed_request_frees_the_markers_that_wait_behind_it() -> None:
    markers = Markers({T0: ONE, T1: ONE})
    markers.add(1, T0)
    request = markers.request(ONE)
    markers.add(2, T1)
    markers.manager.failed(request, NOW)
    assert markers.leaders() == []
    assert len(markers.manager) == 2
    markers.metadata.leaders[T1] = TWO
    markers.manager.tick(NOW + 100)
    assert markers.taken(ONE) == [(1, T0)]
    assert markers.taken(TWO) == [(2, T1)]


def test_marker_without_an_answer_is_sent_again() -> None:
    markers = Markers({T0: ONE, T1: ONE})
    markers.add(1, T0, T1)
    [result] = markers.manager.answered(markers.request(ONE), [((101, T1), E.NONE)], NOW)
    assert (result.where, result.written) == (T1, True)
    markers.manager.tick(NOW + 100)
    assert markers.taken(ONE) == [(1, T0)]


@pytest.mark.parametrize("strange", [(999, T0), (101, U0), (101, T0)], ids=["producer", "partition", "repeated"])
def test_answer_that_does_not_belong_to_the_request_changes_nothing(strange: tuple[int, TopicPartition]) -> None:
    markers = Markers({T0: ONE, T1: ONE})
    markers.add(1, T0, T1)
    request = markers.request(ONE)
    with pytest.raises(WireError, match=f"names producer {strange[0]} in {strange[1]}, the request does not"):
        markers.manager.answered(request, [((101, T0), E.NONE), (strange, E.NONE)], NOW)
    assert len(markers.manager) == 0
    assert markers.manager.next_request(ONE) is None
    markers.manager.failed(request, NOW)
    markers.manager.tick(NOW + 100)
    assert markers.taken(ONE) == [(1, T0), (1, T1)]


def test_marker_that_is_no_longer_awaited_is_dropped() -> None:
    markers = Markers({T0: ONE, T1: None, U0: TWO})
    markers.add(1, T0)
    markers.add(2, T1)
    markers.add(3, U0)
    request = markers.request(TWO)
    markers.awaited.clear()
    assert markers.manager.next_request(ONE) is None
    markers.answer(request, E.NOT_LEADER_OR_FOLLOWER)
    markers.manager.tick(NOW + 100)
    assert len(markers.manager) == 0
    assert markers.leaders() == []


def test_markers_that_are_no_longer_awaited_do_not_hide_those_behind_them() -> None:
    wheres = [TopicPartition("t", number) for number in range(5)]
    markers = Markers({**dict.fromkeys(wheres, ONE), U0: ONE})
    markers.add(1, *wheres)
    markers.add(2, U0)
    markers.awaited.discard(MarkerId(1))
    assert markers.taken(ONE) == [(2, U0)]


def test_newer_marker_of_a_producer_replaces_the_older_one() -> None:
    markers = Markers({T0: ONE})
    old = markers.add(1, T0, producer=100)
    under_way = markers.request(ONE)
    markers.awaited.discard(old.number)
    for number in range(2, 50):
        markers.awaited.discard(MarkerId(number - 1))
        markers.add(number, T0, producer=100)
    assert len(markers.manager) == 1
    markers.manager.failed(under_way, NOW)
    markers.manager.tick(NOW + 100)
    assert markers.taken(ONE) == [(49, T0)]


# -- deleted topics ----------------------------------------------------------------------------------------------


def unknown_at(markers: Markers, since: int, until: int) -> list[tuple[int, list[TopicPartition]]]:
    """The times at which unknown partitions are to be checked, and those partitions."""
    found = []
    now = since
    while (now := int(max(now, markers.manager.deadline))) <= until:
        if unknown := markers.manager.tick(now):
            found.append((now, unknown))
    return found


def test_unknown_partitions_are_checked_and_those_without_a_leader_are_not() -> None:
    markers = Markers({T0: None})
    markers.add(1, T0, U0, T1)
    assert unknown_at(markers, NOW, NOW + 1_500) == [(NOW + 1_000, [T1, U0])]


def test_partition_of_a_deleted_topic_counts_as_marked() -> None:
    markers = Markers({})
    markers.add(1, T0, U0)
    markers.add(2, U0)
    assert unknown_at(markers, NOW, NOW + 1_000) == [(NOW + 1_000, [T0, U0])]
    results = markers.manager.deleted(U0)
    assert [(each.marker.number, each.where, each.written) for each in results] == [(1, U0, True), (2, U0, True)]
    markers.manager.checked(NOW + 1_000)
    markers.metadata.leaders[T0] = ONE
    markers.manager.tick(NOW + 1_100)
    assert markers.taken(ONE) == [(1, T0)]


def test_next_check_begins_an_interval_after_the_last_one_has_ended() -> None:
    markers = Markers({})
    markers.add(1, T0)
    assert unknown_at(markers, NOW, NOW + 9_000) == [(NOW + 1_000, [T0])]
    markers.manager.checked(NOW + 9_000)
    assert unknown_at(markers, NOW + 9_000, NOW + 10_500) == [(NOW + 10_000, [T0])]


def test_known_partitions_postpone_the_check() -> None:
    markers = Markers({T0: None})
    markers.add(1, T0)
    assert unknown_at(markers, NOW, NOW + 1_500) == []
    del markers.metadata.leaders[T0]
    assert unknown_at(markers, NOW + 1_500, NOW + 2_500) == [(NOW + 2_000, [T0])]
