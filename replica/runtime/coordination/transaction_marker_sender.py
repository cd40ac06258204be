"""Sends the markers of ended transactions to the leaders of their partitions, until each partition has its marker.

As Kafka's TransactionMarkerChannelManager: for each leader one task, one connection and one WriteTxnMarkers request
under way, with the markers of many transactions. Leaders change at any time, so a marker that was not written goes to
whichever broker leads the partition then. This broker's own partitions get theirs in the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

import trio
from attrs import define, field, frozen

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.core.transactions.transaction_effects import Marker, MarkerId
from replica.runtime.logs import Log
from replica.runtime.network.broker_connection import ClientSettings, Unreachable
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.wire.fields import Api
from replica.wire.schemas.transaction_schemas import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from zab.net.wakeup import Wakeup

Q = TypeVar("Q")
R = TypeVar("R")

_WITHOUT_TRANSACTIONS: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""The partition's log cannot hold a part of a transaction, so it needs no marker."""
_EXPECTED: Final = (Unreachable, KafkaError, WireError, OSError, trio.BrokenResourceError)
"""Errors of an unreachable or departing leader. Any other is logged with a traceback and retried as well."""
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""The partition knows a newer producer epoch or a newer coordinator. A retry is useless."""


@frozen
class MarkerSenderSettings:
    """connect_s       the timeout of a connection attempt
    answer_s        the timeout of a response: in-sync replicas have to replicate the markers first
    again_s         the pause before markers that were not written are placed again
    gone_s          the interval of checks whether unknown partitions exist at all
    idle_s          the idle time after which a connection is closed
    partitions_max  the limit of partitions in one request
    """

    connect_s: float = 5.0
    answer_s: float = 60.0
    again_s: float = 0.1
    gone_s: float = 1.0
    idle_s: float = 60.0
    partitions_max: int = 1_000


class Cluster(Protocol):
    """The part of the metadata cache that is used here."""

    def __contains__(self, where: TopicPartition) -> bool: ...
    def leader(self, where: TopicPartition) -> BrokerId | None: ...


class LeaderConnection(Protocol):
    """A connection to a leader."""

    async def ask(self, api: Api[Q, R], body: Q) -> R: ...
    async def aclose(self) -> None: ...


class LeaderDialer(Protocol):
    """Opens connections to leaders."""

    async def connection(self, address: tuple[str, int], settings: ClientSettings) -> LeaderConnection: ...


class MarkerOwner(Protocol):
    """The coordinator whose markers are sent."""

    def awaits_marker(self, number: MarkerId) -> bool: ...
    def marked(self, number: MarkerId, where: TopicPartition) -> None: ...
    def refused(self, number: MarkerId, where: TopicPartition, error: ErrorCode) -> None: ...


_Key = tuple[MarkerId, TopicPartition]


@define(eq=False)
class _LeaderQueue:
    """The markers that wait for one leader."""

    waiting: dict[_Key, Marker] = field(factory=dict)
    wakeup: Wakeup = field(factory=Wakeup)


class TransactionMarkerSender:
    """Sends markers, and reports each outcome to the owner.

    exists    returns whether the store has such a partition; True while the store is unreachable
    address   returns where other brokers reach a broker; None if it is unknown
    """

    def __init__(
        self,
        me: BrokerId,
        cluster: Cluster,
        exists: Callable[[TopicPartition], Awaitable[bool]],
        address: Callable[[BrokerId], tuple[str, int] | None],
        log: Log,
        between: LeaderDialer | None = None,
        settings: MarkerSenderSettings | None = None,
    ) -> None:
        self.settings = settings or MarkerSenderSettings()
        self._me = me
        self._cluster = cluster
        self._exists = exists
        self._address = address
        self._log = log
        self._between: LeaderDialer = between or InterBrokerClients()
        self._unplaced: dict[_Key, Marker] = {}
        """Markers of partitions without a known leader, and those to be sent again."""
        self._retry = Wakeup()
        self._check_existence = Wakeup()
        self._queues: dict[BrokerId, _LeaderQueue] = {}
        """The leaders with a task."""
        self._owner: MarkerOwner | None = None
        self._nursery: trio.Nursery | None = None

    def __len__(self) -> int:
        """Return the number of markers that wait, by partition."""
        return len(self._unplaced) + sum(len(queue.waiting) for queue in self._queues.values())

    async def run(self, owner: MarkerOwner, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._owner = owner
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._drop_deleted)
            task_status.started()
            while True:
                await self._retry.wait()
                await trio.sleep(self.settings.again_s)
                unplaced, self._unplaced = self._unplaced, {}
                self._place(unplaced)

    def send(self, marker: Marker) -> None:
        self._place({(marker.number, where): marker for where in marker.partitions})

    # -- placing ---------------------------------------------------------------------------------------------

    def _place(self, markers: Mapping[_Key, Marker]) -> None:
        assert self._owner is not None
        assert self._nursery is not None
        for key, marker in markers.items():
            if not self._owner.awaits_marker(marker.number):
                continue
            leader = self._cluster.leader(key[1])
            if leader is None:
                self._again({key: marker})
                continue
            queue = self._queues.get(leader)
            if queue is None:
                queue = self._queues[leader] = _LeaderQueue()
                self._nursery.start_soon(self._serve, leader, queue)
            queue.waiting[key] = marker
            queue.wakeup.ring()

    async def _drop_deleted(self) -> None:
        """Count partitions of deleted topics as marked: there is no log to write to."""
        assert self._owner is not None
        while True:
            await self._check_existence.wait()
            await trio.sleep(self.settings.gone_s)
            unknown = sorted({where for _, where in self._unplaced if where not in self._cluster})
            for where in unknown:
                if await self._exists(where):
                    continue
                for number, each in [key for key in self._unplaced if key[1] == where]:
                    del self._unplaced[number, each]
                    self._log.say("marker_of_deleted_topic", partition=where)
                    self._owner.marked(number, where)

    # -- one leader ------------------------------------------------------------------------------------------

    async def _serve(self, leader: BrokerId, queue: _LeaderQueue) -> None:
        connection: LeaderConnection | None = None
        try:
            while True:
                if not queue.waiting:
                    queue.wakeup.answer()
                    with trio.move_on_after(self.settings.idle_s):
                        await queue.wakeup.wait()
                    if not queue.waiting:
                        return
                asked = self._next(queue)
                if not asked:
                    continue
                try:
                    if connection is None:
                        connection = await self._dial(leader)
                    reply = await connection.ask(WRITE_TXN_MARKERS, _body(asked))
                    self._answered(asked, reply)
                except Exception as error:
                    if isinstance(error, _EXPECTED):
                        self._log.warn_rate_limited("marker_write_failed", leader, leader=leader, why=error)
                    else:
                        self._log.failed("marker_write_failed", error, leader=leader)
                    if connection is not None:
                        await connection.aclose()
                        connection = None
                    # Leaders may have changed, also those of the markers that still wait.
                    self._again(asked | queue.waiting)
                    queue.waiting.clear()
        finally:
            del self._queues[leader]
            if connection is not None:
                with trio.CancelScope(shield=True):
                    await connection.aclose()

    def _next(self, queue: _LeaderQueue) -> dict[_Key, Marker]:
        assert self._owner is not None
        asked: dict[_Key, Marker] = {}
        for key in list(queue.waiting)[: self.settings.partitions_max]:
            marker = queue.waiting.pop(key)
            if self._owner.awaits_marker(marker.number):
                asked[key] = marker
        return asked

    async def _dial(self, leader: BrokerId) -> LeaderConnection:
        address = self._address(leader)
        if address is None:
            raise Unreachable(f"the address of broker {leader} is not known yet")
        with trio.move_on_after(self.settings.connect_s):
            settings = ClientSettings(f"broker-{self._me}-transactions", request_s=self.settings.answer_s)
            return await self._between.connection(address, settings)
        raise Unreachable(f"{address[0]}:{address[1]}: no connection within {self.settings.connect_s} s")

    def _answered(self, asked: dict[_Key, Marker], reply: WriteTxnMarkersResponse) -> None:
        assert self._owner is not None
        numbers = {marker.producer: marker.number for marker in asked.values()}
        left = dict(asked)
        for each in reply.markers:
            for topic in each.topics:
                for part in topic.partitions:
                    number = numbers.get(each.producer_id)
                    where = TopicPartition(topic.name, part.partition_index)
                    if number is None or (marker := left.pop((number, where), None)) is None:
                        raise WireError(
                            f"the response names producer {each.producer_id} in {where}, the request does not"
                        )
                    self._one(number, where, marker, _error(part.error_code))
        self._again(left)

    def _one(self, number: MarkerId, where: TopicPartition, marker: Marker, error: ErrorCode) -> None:
        assert self._owner is not None
        if error is ErrorCode.NONE or error in _WITHOUT_TRANSACTIONS:
            self._owner.marked(number, where)
        elif error in _FENCED:
            self._owner.refused(number, where, error)
        else:
            self._log.warn_rate_limited("marker_write_failed", where, partition=where, id=marker.id, error=error.name)
            self._again({(number, where): marker})

    def _again(self, left: dict[_Key, Marker]) -> None:
        """Place these markers again a little later."""
        if left:
            self._unplaced |= left
            self._retry.ring()
            self._check_existence.ring()


# -- translation --------------------------------------------------------------------------


def _body(asked: dict[_Key, Marker]) -> WriteTxnMarkersRequest:
    wheres: dict[MarkerId, list[TopicPartition]] = {}
    for number, where in asked:
        wheres.setdefault(number, []).append(where)
    markers = {marker.number: marker for marker in asked.values()}
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer,
                producer_epoch=marker.epoch,
                transaction_result=marker.commit,
                topics=_topics(wheres[number]),
                coordinator_epoch=marker.coordinator_epoch,
            )
            for number, marker in markers.items()
        ]
    )


def _topics(wheres: Iterable[TopicPartition]) -> list[WritableTxnMarkerTopic]:
    topics: dict[str, list[int]] = {}
    for where in wheres:
        topics.setdefault(where.topic, []).append(where.partition)
    return [WritableTxnMarkerTopic(name=name, partition_indexes=numbers) for name, numbers in topics.items()]


def _error(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
