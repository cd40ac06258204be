"""The markers of ended transactions on their way to the leaders of their partitions, as Kafka's
`TransactionMarkerChannelManager`.

    markers.add(marker, now)                   a transaction has ended: each of its partitions needs the marker
    request = markers.next_request(leader)     for each of `markers.leaders`, which has no other request under way
    results = markers.answered(request, answers, now)
    markers.failed(request, now)               there was no answer, or it made no sense
    unknown = markers.tick(now)                the time has passed `markers.deadline`
    markers.deleted(where), markers.checked(now)

A request takes the markers of many transactions along. Leaders change at any time: a marker that was not written goes
to the leader that the partition has a little later, until it is written or no longer awaited. This broker's own
partitions get theirs in the same way.
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
"""A producer id and a partition, which responses name. A producer has one ended transaction at a time."""

_WITHOUT_TRANSACTIONS: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""The partition's log cannot hold a part of a transaction, so it needs no marker."""
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""The partition has a newer producer epoch or a newer coordinator. A retry is useless."""


@frozen
class MarkerSettings:
    """retry_ms        the pause before markers that were not written are placed again
    check_ms        the interval of checks whether unknown partitions exist at all
    partitions_max  the limit of partitions in one request
    """

    retry_ms: int = 100
    check_ms: int = 1_000
    partitions_max: int = 1_000


class PartitionLeaders(Protocol):
    """The part of the metadata cache that places markers."""

    def __contains__(self, where: TopicPartition) -> bool: ...
    def leader(self, where: TopicPartition) -> BrokerId | None: ...


@frozen
class MarkerRequest:
    """The markers of one WriteTxnMarkers request."""

    leader: BrokerId
    markers: Mapping[MarkerKey, Marker]


@frozen
class MarkerResult:
    """The leader's answer for one partition (Kafka: TransactionMarkerRequestCompletionHandler). The marker is sent
    again if the answer is neither `written` nor `refused`."""

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
    """Places each marker with the leader of its partition, and decides what goes into requests and what is sent again.

    Waiting markers need no limit of their own. A producer begins its next transaction only when all partitions have the
    marker of the last one, so at most one marker for each producer and partition is awaited. It replaces an older one
    in its queue. The coordinator itself keeps the same partitions until they are marked.
    """

    def __init__(
        self, metadata: PartitionLeaders, awaits: Callable[[MarkerId], bool], settings: MarkerSettings | None = None
    ) -> None:
        self._metadata = metadata
        self._awaits = awaits
        """Returns whether the coordinator still awaits a marker. Others are dropped instead of sent."""
        self._settings = settings or MarkerSettings()
        self._waiting: dict[BrokerId, dict[MarkerKey, Marker]] = {}
        """The queues of the leaders. None is empty."""
        self._under_way: dict[BrokerId, MarkerRequest] = {}
        """The requests without an answer, at most one for each leader."""
        self._unplaced: dict[MarkerKey, Marker] = {}
        """Markers of partitions without a known leader, and those to be sent again."""
        self._retry_at = math.inf
        """The time at which `_unplaced` is placed again. Finite while it is not empty."""
        self._check_at = math.inf
        """The time of the next check of unknown partitions. Finite while `_unplaced` is not empty and no check runs."""
        self._checking = False
        """A check has begun, and `checked` has not ended it."""

    def __len__(self) -> int:
        """Return the number of markers that wait, by partition."""
        return len(self._unplaced) + sum(map(len, self._waiting.values()))

    @property
    def leaders(self) -> tuple[BrokerId, ...]:
        """The leaders for which markers wait."""
        return tuple(self._waiting)

    @property
    def deadline(self) -> float:
        """The next time at which `tick` has something to do, or infinity."""
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
        """Keep markers until they are placed again. Drop those that are not awaited: the producer's newer marker may be
        there already."""
        awaited = {key: marker for key, marker in markers.items() if self._awaits(marker.number)}
        if not awaited:
            return
        self._unplaced |= awaited
        self._retry_at = min(self._retry_at, now + self._settings.retry_ms)
        if not self._checking:
            self._check_at = min(self._check_at, now + self._settings.check_ms)

    def tick(self, now: int) -> list[TopicPartition]:
        """Place markers again. Return the unknown partitions if it is time to check whether they exist."""
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
        """Count a partition of a deleted topic as marked: there is no log to write to."""
        gone = [key for key in self._unplaced if key[1] == where]
        return [MarkerResult(self._unplaced.pop(key), where, ErrorCode.NONE) for key in gone]

    def checked(self, now: int) -> None:
        """End the check that `tick` has begun."""
        self._checking = False
        if self._unplaced:
            self._check_at = now + self._settings.check_ms

    # -- requests ------------------------------------------------------------------------------------------

    def next_request(self, leader: BrokerId) -> MarkerRequest | None:
        """Return the next request to a leader. None if nothing waits, or a request is under way."""
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
        """Take the leader's answers. Markers without an answer are sent again. Raise `WireError` for an answer that
        does not belong to the request: it changes nothing, and the request has failed."""
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
        """Send all markers for this leader again. Leaders may have changed, also those of the markers that wait."""
        del self._under_way[request.leader]
        self._put_aside({**request.markers, **self._waiting.pop(request.leader, {})}, now)
