"""Tells partitions how transactions ended: `WriteTxnMarkers` to their leaders, until each has it.

For each leader a task, a connection, and one request under way; many ends go in one request. Who leads may change at
any time: what could not be said is looked at again, and goes to whoever leads then. Our own partitions are told in the
same way, over our own listener.
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

_DOES_NOT_CONCERN_IT: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""It never had a part of a transaction."""
_EXPECTED: Final = (Unreachable, KafkaError, WireError, OSError, trio.BrokenResourceError)
"""Whatever else is raised for one leader is logged with a traceback, and tried again all the same."""
_NEVER: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


@frozen
class MarkerSenderSettings:
    """connect_s      for a connection to a leader
    answer_s       for one answer: replicas in sync have to have what was written
    again_s        before what could not be said is looked at again
    gone_s         how often it is asked whether partitions of which nothing is known here are there at all
    idle_s         after which a connection is closed that nobody needs
    partitions_max of one request
    """

    connect_s: float = 5.0
    answer_s: float = 60.0
    again_s: float = 0.1
    gone_s: float = 1.0
    idle_s: float = 60.0
    partitions_max: int = 1_000


class Cluster(Protocol):
    """The broker's picture of it."""

    def __contains__(self, where: TopicPartition) -> bool: ...
    def leader(self, where: TopicPartition) -> BrokerId | None: ...


class Asks(Protocol):
    """A connection to a leader."""

    async def ask(self, api: Api[Q, R], body: Q) -> R: ...
    async def aclose(self) -> None: ...


class Dials(Protocol):
    async def connection(self, address: tuple[str, int], settings: ClientSettings) -> Asks: ...


class MarkerOwner(Protocol):
    """Who wants partitions to be told."""

    def awaits_marks(self, number: MarkerId) -> bool: ...
    def marked(self, number: MarkerId, where: TopicPartition) -> None: ...
    def refused(self, number: MarkerId, where: TopicPartition, error: ErrorCode) -> None: ...


_Key = tuple[MarkerId, TopicPartition]


@define(eq=False)
class _Line:
    """What waits to be said to one leader."""

    waiting: dict[_Key, Marker] = field(factory=dict)
    bell: Wakeup = field(factory=Wakeup)


class TransactionMarkerSender:
    """exists    whether there is such a partition, as the store knows it; True where it does not answer
    address   where a broker is reached by other brokers; None if it is not known
    """

    def __init__(
        self,
        me: BrokerId,
        cluster: Cluster,
        exists: Callable[[TopicPartition], Awaitable[bool]],
        address: Callable[[BrokerId], tuple[str, int] | None],
        log: Log,
        between: Dials | None = None,
        settings: MarkerSenderSettings | None = None,
    ) -> None:
        self.settings = settings or MarkerSenderSettings()
        self._me = me
        self._cluster = cluster
        self._exists = exists
        self._address = address
        self._log = log
        self._between: Dials = between or InterBrokerClients()
        self._unplaced: dict[_Key, Marker] = {}
        self._some = Wakeup()
        self._left = Wakeup()
        self._lines: dict[BrokerId, _Line] = {}
        self._told: MarkerOwner | None = None
        self._nursery: trio.Nursery | None = None

    def __len__(self) -> int:
        """Partitions that are to be told of something, and wait for that."""
        return len(self._unplaced) + sum(len(line.waiting) for line in self._lines.values())

    async def run(self, told: MarkerOwner, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._told = told
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._look_for_the_gone)
            task_status.started()
            while True:
                await self._some.wait()
                await trio.sleep(self.settings.again_s)
                unplaced, self._unplaced = self._unplaced, {}
                self._place(unplaced)

    def send(self, marker: Marker) -> None:
        self._place({(marker.number, where): marker for where in marker.partitions})

    # -- to whom ---------------------------------------------------------------------------------------------

    def _place(self, markers: Mapping[_Key, Marker]) -> None:
        assert self._told is not None
        assert self._nursery is not None
        for key, marker in markers.items():
            if not self._told.awaits_marks(marker.number):
                continue
            leader = self._cluster.leader(key[1])
            if leader is None:
                self._again({key: marker})
                continue
            line = self._lines.get(leader)
            if line is None:
                line = self._lines[leader] = _Line()
                self._nursery.start_soon(self._serve, leader, line)
            line.waiting[key] = marker
            line.bell.ring()

    async def _look_for_the_gone(self) -> None:
        """A topic that was deleted cannot be told; and nobody reads in it how the transaction ended."""
        assert self._told is not None
        while True:
            await self._left.wait()  # who has nothing to say does not wake up for it
            await trio.sleep(self.settings.gone_s)
            unknown = sorted({where for _, where in self._unplaced if where not in self._cluster})
            for where in unknown:
                if await self._exists(where):
                    continue
                for number, each in [key for key in self._unplaced if key[1] == where]:
                    del self._unplaced[number, each]
                    self._log.say("marker-for-nobody", partition=where)
                    self._told.marked(number, where)

    # -- one leader ------------------------------------------------------------------------------------------

    async def _serve(self, leader: BrokerId, line: _Line) -> None:
        connection: Asks | None = None
        try:
            while True:
                if not line.waiting:
                    line.bell.answer()
                    with trio.move_on_after(self.settings.idle_s):
                        await line.bell.wait()
                    if not line.waiting:
                        return
                asked = self._next(line)
                if not asked:
                    continue
                try:
                    if connection is None:
                        connection = await self._dial(leader)
                    reply = await connection.ask(WRITE_TXN_MARKERS, _body(asked))
                    self._answered(asked, reply)
                except Exception as error:
                    if isinstance(error, _EXPECTED):
                        self._log.warn_rate_limited("markers-not-written", leader, leader=leader, why=error)
                    else:
                        self._log.failed("markers-not-written", error, leader=leader)
                    if connection is not None:
                        await connection.aclose()
                        connection = None
                    # Perhaps somebody else leads by now, also of what has not been asked yet.
                    self._again(asked | line.waiting)
                    line.waiting.clear()
        finally:
            del self._lines[leader]
            if connection is not None:
                with trio.CancelScope(shield=True):
                    await connection.aclose()

    def _next(self, line: _Line) -> dict[_Key, Marker]:
        assert self._told is not None
        asked: dict[_Key, Marker] = {}
        for key in list(line.waiting)[: self.settings.partitions_max]:
            marker = line.waiting.pop(key)
            if self._told.awaits_marks(marker.number):
                asked[key] = marker
        return asked

    async def _dial(self, leader: BrokerId) -> Asks:
        address = self._address(leader)
        if address is None:
            raise Unreachable(f"nobody has said where broker {leader} is")
        with trio.move_on_after(self.settings.connect_s):
            settings = ClientSettings(f"broker-{self._me}-transactions", request_s=self.settings.answer_s)
            return await self._between.connection(address, settings)
        raise Unreachable(f"{address[0]}:{address[1]}: no connection within {self.settings.connect_s} s")

    def _answered(self, asked: dict[_Key, Marker], reply: WriteTxnMarkersResponse) -> None:
        assert self._told is not None
        numbers = {marker.producer: marker.number for marker in asked.values()}
        left = dict(asked)
        for each in reply.markers:
            for topic in each.topics:
                for part in topic.partitions:
                    number = numbers.get(each.producer_id)
                    where = TopicPartition(topic.name, part.partition_index)
                    if number is None or (marker := left.pop((number, where), None)) is None:
                        raise WireError(f"an answer about producer {each.producer_id} in {where}, who was not named")
                    self._one(number, where, marker, _error(part.error_code))
        self._again(left)

    def _one(self, number: MarkerId, where: TopicPartition, marker: Marker, error: ErrorCode) -> None:
        assert self._told is not None
        if error is ErrorCode.NONE or error in _DOES_NOT_CONCERN_IT:
            self._told.marked(number, where)
        elif error in _NEVER:
            self._told.refused(number, where, error)
        else:
            self._log.warn_rate_limited("marker-not-written", where, partition=where, id=marker.id, error=error.name)
            self._again({(number, where): marker})

    def _again(self, left: dict[_Key, Marker]) -> None:
        """A little later."""
        if left:
            self._unplaced |= left
            self._some.ring()
            self._left.ring()


# -- in the words of the protocol --------------------------------------------------------------------------


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
