"""Producers with transactions, and those who read only what these have committed.

Each has a name, under which it begins, writes to two partitions, commits a position of a group, and ends what it has
begun; or it falls silent in the midst, and comes back when another one bears its name.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import trio
from attrs import frozen

from harness.checkers.transactions import End, Journal, Read, Seen, Transaction
from harness.worlds.brokers.consumer import WRONG
from harness.worlds.brokers.positions import Positions
from harness.worlds.brokers.producer import PAUSE_MAX_S, PAUSE_S
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable, raise_for
from replica.wire.batch import TRANSACTIONAL, walk
from replica.wire.fields import Api
from replica.wire.records import Record, build, read_records
from replica.wire.schemas.data_schemas import (
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    PRODUCE,
    FetchRequest,
    FetchRequestPartition,
    FetchTopic,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionData,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from replica.wire.schemas.group_schemas import FIND_COORDINATOR, FindCoordinatorRequest
from replica.wire.schemas.transaction_schemas import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
)

OF_TRANSACTIONS: Final = 1
"""A kind of coordinators."""
COMMITTED_ONLY: Final = 1
OPEN_MS: Final = 1_500
"""So long a transaction may be open."""
LATEST: Final = -1
T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")


@frozen
class Bearer:
    """Of a name, for as long as nobody else has come."""

    id: int
    epoch: int
    number: int


class Transactor:
    """patience_s   for one answer; then it begins anew"""

    def __init__(self, journal: Journal, client: Client, number: int, patience_s: float) -> None:
        self.name = f"name-{number}"
        self.open = 0
        """Transactions that it has yet to begin, or to end."""
        self._journal = journal
        self._client = client
        self._patience_s = patience_s
        self._waiting: deque[tuple[tuple[TopicPartition, ...], int, str]] = deque()
        self._arrived = trio.Event()
        self._rests = trio.Event()
        self._bearer: Bearer | None = None
        self._bearers = 0
        self._values = 0
        self._sequences: dict[TopicPartition, int] = {}
        self._coordinator: int | None = None
        self.positions: Positions | None = None
        self._silent: list[tuple[Bearer, TopicPartition, int]] = []
        """Who have fallen silent, where each has written, and which sequence comes next there."""

    def give(self, partitions: tuple[TopicPartition, ...], count: int, fate: str) -> None:
        self._waiting.append((partitions, count, fate))
        self.open += 1
        self._arrived.set()

    async def run(self) -> None:
        while True:
            while not self._waiting:
                self._arrived = trio.Event()
                await self._arrived.wait()
            try:
                await self._transaction(*self._waiting.popleft())
            except WRONG:
                self._bearer = None  # whoever bears the name next ends what is open
            self.open -= 1
            self._rests.set()
            self._rests = trio.Event()

    async def rests(self) -> None:
        """Until it has done all that it was given."""
        while self.open:
            await self._rests.wait()

    async def close(self) -> None:
        """Whatever is open is ended, as another one bears the name."""
        self._bearer = None
        while self._bearer is None:
            try:
                await self._borne()
            except WRONG:
                await trio.sleep(PAUSE_S)

    # -- one transaction -------------------------------------------------------------------------------------

    async def _transaction(self, partitions: tuple[TopicPartition, ...], count: int, fate: str) -> None:
        bearer = await self._borne()
        made = self._journal.begins(bearer.number)
        await self._patiently(lambda: self._add(bearer, partitions))
        for where in partitions:
            for _ in range(count):
                await self._write(made, bearer, where)
        await self._move(made, bearer, partitions[0])
        if fate == "vanishes":
            where = partitions[0]
            self._silent.append((bearer, where, self._sequences[where]))
            self._bearer = None
            return
        counts = fate == "commits"
        if counts:
            self._journal.asks(made)
        await self._patiently(lambda: self._end(bearer, counts))
        self._journal.told(made, End.COUNTS if counts else End.ABORTED)
        await self._position(partitions[0]).glance(stable=True)

    async def _borne(self) -> Bearer:
        if self._bearer is None:
            body = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=OPEN_MS)
            reply = await self._patiently(lambda: self._ask(INIT_PRODUCER_ID, body, _plain))
            self._bearers += 1
            self._bearer = Bearer(reply.producer_id, reply.producer_epoch, self._bearers)
            self._sequences = {}
            silent, self._silent = self._silent, []
            for each in silent:
                await self._comes_back(*each)
        return self._bearer

    async def _comes_back(self, bearer: Bearer, where: TopicPartition, sequence: int) -> None:
        """It does not know that another one bears its name: it writes once more, and would have it count."""
        try:
            await self._send(bearer, where, sequence, "of one who was fenced")
        except WRONG:
            pass
        else:
            self._journal.fenced.append(f"bearer {bearer.number} of {self.name} writes to {where}")
        if self.positions is not None:
            try:
                await self.positions.commit(Transaction(bearer.number), self._who(bearer), self._next())
            except WRONG:
                pass
            else:
                self._journal.fenced.append(f"bearer {bearer.number} of {self.name} commits a position")
        try:
            await self._end(bearer, True)
        except WRONG:
            pass
        else:
            self._journal.fenced.append(f"bearer {bearer.number} of {self.name} ends its transaction")

    async def _add(self, bearer: Bearer, partitions: tuple[TopicPartition, ...]) -> None:
        topic = AddPartitionsToTxnTopic(name=partitions[0].topic, partitions=[where.partition for where in partitions])
        body = AddPartitionsToTxnRequest(*self._who(bearer), topics=[topic])
        await self._ask(ADD_PARTITIONS_TO_TXN, body, _of_partitions)

    async def _write(self, made: Transaction, bearer: Bearer, where: TopicPartition) -> None:
        value, sequence = f"{self.name}.{self._next()}", self._sequences.get(where, 0)
        made.values[value] = str(where)
        await self._patiently(lambda: self._send(bearer, where, sequence, value))
        self._sequences[where] = sequence + 1

    async def _move(self, made: Transaction, bearer: Bearer, where: TopicPartition) -> None:
        """What it has committed may not be seen before the end."""
        at, offset = self._position(where), self._next()
        body = AddOffsetsToTxnRequest(*self._who(bearer), group_id=at.group)
        await self._patiently(lambda: self._ask(ADD_OFFSETS_TO_TXN, body, _plain))
        await self._patiently(lambda: at.commit(made, self._who(bearer), offset))
        await at.glance(stable=False)

    def _position(self, where: TopicPartition) -> Positions:
        if self.positions is None:
            self.positions = Positions(f"group-of-{self.name}", where, self._journal, self._client)
        return self.positions

    def _next(self) -> int:
        self._values += 1
        return self._values

    async def _end(self, bearer: Bearer, counts: bool) -> None:
        await self._ask(END_TXN, EndTxnRequest(*self._who(bearer), committed=counts), _plain)

    def _who(self, bearer: Bearer) -> tuple[str, int, int]:
        """Return the transactional id, producer id and epoch that each request begins with."""
        return self.name, bearer.id, bearer.epoch

    # -- asking ----------------------------------------------------------------------------------------------

    async def _send(self, bearer: Bearer, where: TopicPartition, sequence: int, value: str) -> None:
        batch = build(
            [Record(0, time.time_ns() // 1_000_000, None, value.encode())],
            producer_id=bearer.id,
            producer_epoch=bearer.epoch,
            base_sequence=sequence,
            flags=TRANSACTIONAL,
        )
        part = PartitionProduceData(index=where.partition, records=batch)
        body = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=int(self._client.settings.request_s * 500),
            topic_data=[TopicProduceData(name=where.topic, partition_data=[part])],
        )
        reply = await self._client.ask_broker(await leader_of(self._client, where), PRODUCE, body)
        error = reply.responses[0].partition_responses[0].error_code
        if error != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            raise_for(error, str(where))

    async def _ask(self, api: Api[Q, R], body: Q, error_of: Callable[[R], int]) -> R:
        """Whoever coordinates transactions of this name."""
        try:
            if self._coordinator is None:
                asked = FindCoordinatorRequest(key=self.name, key_type=OF_TRANSACTIONS)
                found = await self._client.ask(FIND_COORDINATOR, asked, version_max=3)
                raise_for(found.error_code, self.name)
                self._coordinator = found.node_id
            reply = await self._client.ask_broker(self._coordinator, api, body)
            raise_for(error_of(reply), f"{self.name}: {api.key.name}")
        except WRONG:
            self._coordinator = None
            raise
        return reply

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        until, pause = trio.current_time() + self._patience_s, PAUSE_S
        while True:
            try:
                return await act()
            except WRONG as error:
                if (isinstance(error, KafkaError) and not error.code.retriable) or trio.current_time() > until:
                    raise
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)


def _plain(reply: InitProducerIdResponse | AddOffsetsToTxnResponse | EndTxnResponse) -> int:
    return reply.error_code


def _of_partitions(reply: AddPartitionsToTxnResponse) -> int:
    codes = [part.partition_error_code for topic in reply.results_by_topic for part in topic.results_by_partition]
    return int(next((code for code in codes if code), 0))


async def leader_of(client: Client, where: TopicPartition) -> int:
    leaders = await client.leaders([where.topic])
    if where not in leaders:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {where}")
    return leaders[where]


# -- reading -------------------------------------------------------------------------------------------------


class CommittedReader:
    """Of one partition, from its beginning on."""

    def __init__(self, client: Client, where: TopicPartition, heard: Callable[[Read], None]) -> None:
        self.where = where
        self.position = 0
        self._client = client
        self._heard = heard

    async def run(self) -> None:
        while True:
            if not await self.poll():
                await trio.sleep(PAUSE_S)

    async def poll(self) -> bool:
        """Whether there was anything."""
        try:
            answer = await self._fetch()
        except WRONG:
            return False
        seen, following = committed(answer.records or b"", self.position, answer.aborted_transactions or ())
        if following == self.position:
            return False
        self._heard(Read(str(self.where), self.position, following, tuple(seen)))
        self.position = following
        return True

    async def end(self) -> int:
        """So far it may read; and so far everything is committed: both must be the same when nothing is open."""
        stable = await self._offset(COMMITTED_ONLY)
        watermark = await self._offset(0)
        if stable != watermark:
            raise Unreachable(f"{self.where} may be read up to {stable}, and is committed up to {watermark}")
        return stable

    async def _offset(self, isolation: int) -> int:
        part = ListOffsetsPartition(partition_index=self.where.partition, timestamp=LATEST)
        topics = [ListOffsetsTopic(name=self.where.topic, partitions=[part])]
        body = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
        reply = await self._client.ask_broker(await leader_of(self._client, self.where), LIST_OFFSETS, body)
        answer = reply.topics[0].partitions[0]
        raise_for(answer.error_code, str(self.where))
        return answer.offset

    async def _fetch(self) -> PartitionData:
        part = FetchRequestPartition(
            partition=self.where.partition, fetch_offset=self.position, partition_max_bytes=1_000
        )
        body = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            isolation_level=COMMITTED_ONLY,
            topics=[FetchTopic(topic=self.where.topic, partitions=[part])],
        )
        reply = await self._client.ask_broker(await leader_of(self._client, self.where), FETCH, body)
        raise_for(reply.error_code, str(self.where))
        answer = reply.responses[0].partitions[0]
        raise_for(answer.error_code, str(self.where))
        return answer


def committed(data: bytes, position: int, aborted: Any) -> tuple[list[Seen], int]:
    """As clients leave out what was aborted: of a producer from the first offset that is named to the next end."""
    waiting = deque(sorted((each.first_offset, each.producer_id) for each in aborted))
    out: set[int] = set()
    found: list[Seen] = []
    following = position
    for at, header in walk(data):
        following = max(following, header.next_offset)
        while waiting and waiting[0][0] <= header.last_offset:
            out.add(waiting.popleft()[1])
        if header.control:
            out.discard(header.producer_id)
        elif header.producer_id not in out:
            found += [
                Seen(record.offset, (record.value or b"").decode(errors="backslashreplace"))
                for record in read_records(data, at)
                if record.offset >= position
            ]
    return found, following
