"""The transaction markers that have to be sent to partition leaders, as Kafka's `TransactionMarkerChannelManager`.

    markers.add(marker, now)                   a transaction is decided: each of its partitions needs the marker
    request = markers.next_request(leader)     for each of `markers.leaders` without a request in flight
    results = markers.answered(request, answers, now)
    markers.failed(request, now)               there was no answer, or it was invalid
    unknown = markers.tick(now)                `markers.deadline` has passed
    results = markers.deleted(where)           the check of `unknown` found that this partition was deleted
    markers.checked(now)                       the check of `unknown` is over

A request carries the markers of many transactions. If a marker is not written, for example because the leader changed,
it is sent again after a pause, to the partition's current leader, until it is written, refused, or no longer awaited.
This broker's own partitions are handled in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, Protocol, TypeAlias

from attrs import frozen

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode, WireError
from replica.core.transactions.transaction_effects import Marker, MarkerId

MarkerKey: TypeAlias = tuple[int, TopicPartition]
"""A producer id and a partition, by which responses name a marker: a producer has at most one decided transaction."""

_WITHOUT_TRANSACTIONS: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of a partition whose log format supports no transactions: the partition needs no marker."""
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Errors of a partition that has seen a newer producer epoch or coordinator epoch: a retry is useless."""


@frozen
class MarkerSettings:
    """retry_ms        the pause before markers that were not written are sent again
    check_ms        the interval of checks whether partitions without metadata exist
    partitions_max  the limit of markers in one request, counted once for each partition
    """

    retry_ms: int = 100
    check_ms: int = 1_000
    partitions_max: int = 1_000


class PartitionLeaders(Protocol):
    """The part of the metadata cache that the marker manager uses."""

    def __contains__(self, where: TopicPartition) -> bool: ...
    def leader(self, where: TopicPartition) -> BrokerId | None: ...


@frozen
class MarkerRequest:
    """The markers of one WriteTxnMarkers request."""

    leader: BrokerId
    markers: Mapping[MarkerKey, Marker]


@frozen
class MarkerResult:
    """The leader's answer for one partition, as in Kafka's `TransactionMarkerRequestCompletionHandler`.

    The marker is sent again unless it is `written` or `refused`.
    """

    marker: Marker
    where: TopicPartition
    error: ErrorCode

    @property
    def written(self) -> bool:
        """The partition has the marker, or needs none."""
        return self.error is ErrorCode.NONE or self.error in _WITHOUT_TRANSACTIONS

    @property
    def refused(self) -> bool:
        return self.error in _FENCED


class TransactionMarkerManager:
    """Queues each marker for the leader of its partition, fills requests, and decides what to send again.

    The queues need no limit: a producer begins its next transaction only when all partitions have the marker of the
    last one, so at most one marker for each producer and partition is awaited, and it replaces an older one. The
    coordinator keeps the same partitions in memory anyway.
    """

    def __init__(
        self, metadata: PartitionLeaders, awaits: Callable[[MarkerId], bool], settings: MarkerSettings | None = None
    ) -> None:
        self._metadata = metadata
        self._awaits = awaits
        """Returns whether the coordinator still awaits a marker. Other markers are dropped."""
        self._settings = settings or MarkerSettings()
        self._waiting: dict[BrokerId, dict[MarkerKey, Marker]] = {}
        """The queue for each leader. No queue is empty."""
        self._under_way: dict[BrokerId, MarkerRequest] = {}
        """The requests in flight, at most one for each leader."""
        self._unplaced: dict[MarkerKey, Marker] = {}
        """Markers to be queued again: their partition has no known leader, or they were not written."""
        self._retry_at = math.inf
        """The time at which `_unplaced` is queued again; infinite if no marker was put aside since the last retry."""
        self._check_at = math.inf
        """The time of the next check of unknown partitions; infinite if none is needed, or while one is running."""
        self._checking = False
        """True from the beginning of a check until `checked`."""

    def __len__(self) -> int:
        """Return the number of markers that wait to be sent, or sent again, counted once for each partition."""
        return len(self._unplaced) + sum(map(len, self._waiting.values()))

    @property
    def leaders(self) -> tuple[BrokerId, ...]:
        """The leaders with queued markers."""
        return tuple(self._waiting)

    @property
    def deadline(self) -> float:
        """The time of the next `tick`; infinite if none is needed."""
        return min(self._retry_at, self._check_at)

    # -- placing -------------------------------------------------------------------------------------------

    def add(self, marker: Marker, now: int) -> None:
        self._place({(marker.producer, where): marker for where in marker.partitions}, now)

    def _place(self, markers: Mapping[MarkerKey, Marker], now: int) -> None:
        for key, marker in markers.items():
            if not self._awaits(marker.number):
                continue
            leader = self._metadata.leader(key[1])
            if leader is None:
                self._put_aside({key: marker}, now)
            else:
                self._waiting.setdefault(leader, {})[key] = marker

    def _put_aside(self, markers: Mapping[MarkerKey, Marker], now: int) -> None:
        """Keep markers to be queued again. Drop a marker that is not awaited: it could replace a newer one of the same
        producer."""
        awaited = {key: marker for key, marker in markers.items() if self._awaits(marker.number)}
        if not awaited:
            return
        self._unplaced |= awaited
        self._retry_at = min(self._retry_at, now + self._settings.retry_ms)
        if not self._checking:
            self._check_at = min(self._check_at, now + self._settings.check_ms)

    def tick(self, now: int) -> list[TopicPartition]:
        """Queue `_unplaced` again if it is time. If a check is due, return the partitions to check for existence."""
        if now >= self._retry_at:
            self._retry_at = math.inf
            unplaced, self._unplaced = self._unplaced, {}
            self._place(unplaced, now)
        if now < self._check_at:
            return []
        self._check_at, self._checking = math.inf, True
        unknown = sorted({where for _, where in self._unplaced if where not in self._metadata})
        if not unknown:
            self.checked(now)
        return unknown

    def deleted(self, where: TopicPartition) -> list[MarkerResult]:
        """Drop a deleted partition's markers from `_unplaced`. Return their results, which count as written."""
        gone = [key for key in self._unplaced if key[1] == where]
        return [MarkerResult(self._unplaced.pop(key), where, ErrorCode.NONE) for key in gone]

    def checked(self, now: int) -> None:
        """End the check that `tick` began."""
        self._checking = False
        if self._unplaced:
            self._check_at = now + self._settings.check_ms

    # -- requests ------------------------------------------------------------------------------------------

    def next_request(self, leader: BrokerId) -> MarkerRequest | None:
        """Return the next request to a leader; None if there is no marker for it, or a request is in flight."""
        if leader in self._under_way:
            return None
        waiting = self._waiting.get(leader, {})
        taken: dict[MarkerKey, Marker] = {}
        while waiting and not taken:
            for key in list(islice(waiting, self._settings.partitions_max)):
                marker = waiting.pop(key)
                if self._awaits(marker.number):
                    taken[key] = marker
        if not waiting:
            self._waiting.pop(leader, None)
        if not taken:
            return None
        request = self._under_way[leader] = MarkerRequest(leader, taken)
        return request

    def answered(
        self, request: MarkerRequest, answers: Iterable[tuple[MarkerKey, ErrorCode]], now: int
    ) -> list[MarkerResult]:
        """Handle the leader's answers. Markers without an answer are sent again.

        Raise `WireError` if an answer does not match the request. Nothing has changed then: call `failed`.
        """
        left: dict[MarkerKey, Marker] = dict(request.markers)
        again: dict[MarkerKey, Marker] = {}
        results: list[MarkerResult] = []
        for key, error in answers:
            marker = left.pop(key, None)
            if marker is None:
                raise WireError(f"the response names producer {key[0]} in {key[1]}, the request does not")
            result = MarkerResult(marker, key[1], error)
            results.append(result)
            if not (result.written or result.refused):
                again[key] = marker
        del self._under_way[request.leader]
        self._put_aside(again | left, now)
        return results

    def failed(self, request: MarkerRequest, now: int) -> None:
        """Put aside all markers for this leader, not only those in the request: the leaders of partitions may have
        changed."""
        del self._under_way[request.leader]
        self._put_aside({**request.markers, **self._waiting.pop(request.leader, {})}, now)
