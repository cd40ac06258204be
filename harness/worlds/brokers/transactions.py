"""Transactional producers, and readers of committed records only.

A producer initializes its transactional id, writes to two partitions, commits a position of a group, and ends the
transaction. Or it abandons the transaction, and continues it after the id was initialized again: that must be refused.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import trio
from attrs import frozen

from harness.checkers.transactions import Journal, PositionReply, Read, Transaction, TransactionOutcome
from harness.worlds.brokers import requests
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable, raise_for
from replica.wire.batch import TRANSACTIONAL
from replica.wire.fields import Api
from replica.wire.records import Record, build
from replica.wire.schemas import transaction_schemas
from replica.wire.schemas.data_schemas import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse
from replica.wire.schemas.group_schemas import FIND_COORDINATOR, FindCoordinatorRequest

TRANSACTION_COORDINATOR: Final = 1
TIMEOUT_MS: Final = 1_500
"""The timeout of transactions."""
T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")
ProducerFields = tuple[str, int, int]
"""The transactional id, producer id and epoch that each request begins with."""


@frozen
class Incarnation:
    """One initialization of a transactional id: the producer id and epoch that it returned."""

    id: int
    epoch: int
    number: int


@frozen
class Position:
    """The position of a group without members in one partition. Only transactions move it."""

    group: str
    where: TopicPartition
    journal: Journal
    client: Client

    @property
    def name(self) -> str:
        return f"{self.group} in {self.where}"

    async def commit(self, made: Transaction, fields: ProducerFields, offset: int) -> None:
        """Commit the position in a transaction to which the group was added before."""
        made.positions[self.name] = offset
        part = transaction_schemas.TxnOffsetCommitRequestPartition(
            partition_index=self.where.partition, committed_offset=offset, committed_metadata=None
        )
        topics = [transaction_schemas.TxnOffsetCommitRequestTopic(name=self.where.topic, partitions=[part])]
        name, producer, epoch = fields
        body = transaction_schemas.TxnOffsetCommitRequest(name, self.group, producer, epoch, topics=topics)
        reply = await self.client.ask_broker(
            await self.client.coordinator(self.group), transaction_schemas.TXN_OFFSET_COMMIT, body
        )
        raise_for(reply.topics[0].partitions[0].error_code, self.name)

    async def look_up(self, *, stable: bool) -> None:
        """Look up the position. `stable`: fail if an open transaction may change it."""
        requested = self.journal.moment()
        offset = await requests.position_of(self.client, self.group, self.where, stable=stable)
        reply = PositionReply(self.name, offset, stable, requested, self.journal.moment())
        self.journal.positions.append(reply)

    async def try_to_look_up(self, *, stable: bool) -> None:
        with suppress(*requests.REQUEST_ERRORS):
            await self.look_up(stable=stable)


class Transactor:
    """A transactional producer. After a request that fails for `patience_s`, it initializes its id again."""

    def __init__(self, journal: Journal, client: Client, number: int, patience_s: float) -> None:
        self.name = f"name-{number}"
        self.open = 0
        """The number of transactions that are queued or in progress."""
        self.position: Position | None = None
        self._journal = journal
        self._client = client
        self._patience_s = patience_s
        self._waiting: deque[tuple[tuple[TopicPartition, ...], int, str]] = deque()
        self._arrived = trio.Event()
        self._progress = trio.Event()
        self._incarnation: Incarnation | None = None
        self._incarnations = 0
        self._values = 0
        self._sequences: dict[TopicPartition, int] = {}
        self._coordinator: int | None = None
        self._abandoned: list[tuple[Incarnation, TopicPartition, int]] = []
        """Incarnations that abandoned a transaction, each with a partition that it wrote to and its next sequence."""

    def enqueue(self, partitions: tuple[TopicPartition, ...], count: int, fate: str) -> None:
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
            except requests.REQUEST_ERRORS:
                self._incarnation = None  # the next initialization of the id aborts the open transaction
            self.open -= 1
            self._progress.set()
            self._progress = trio.Event()

    async def finish(self) -> None:
        """Wait for all queued transactions, and abort an open one by initializing the id again."""
        while self.open:
            await self._progress.wait()
        self._incarnation = None
        await requests.until_success(self._initialize)

    # -- one transaction -------------------------------------------------------------------------------------

    async def _transaction(self, partitions: tuple[TopicPartition, ...], count: int, fate: str) -> None:
        incarnation = await self._initialize()
        made = self._journal.begin(incarnation.number)
        topic = transaction_schemas.AddPartitionsToTxnTopic(
            name=partitions[0].topic, partitions=[where.partition for where in partitions]
        )
        body = transaction_schemas.AddPartitionsToTxnRequest(*self._fields(incarnation), topics=[topic])
        await self._patiently(lambda: self._ask(transaction_schemas.ADD_PARTITIONS_TO_TXN, body, _error_of_partitions))
        for where in partitions:
            for _ in range(count):
                await self._write(made, incarnation, where)
        await self._commit_position(made, incarnation, partitions[0])
        if fate == "vanishes":
            where = partitions[0]
            self._abandoned.append((incarnation, where, self._sequences[where]))
            self._incarnation = None
            return
        commits = fate == "commits"
        if commits:
            self._journal.request_commit(made)
        await self._patiently(lambda: self._end(incarnation, commits))
        self._journal.end(made, TransactionOutcome.COMMITTED if commits else TransactionOutcome.ABORTED)
        await self._position_in(partitions[0]).try_to_look_up(stable=True)

    async def _initialize(self) -> Incarnation:
        if self._incarnation is None:
            body = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
            reply = await self._patiently(lambda: self._ask(INIT_PRODUCER_ID, body, _error_of))
            self._incarnations += 1
            self._incarnation = Incarnation(reply.producer_id, reply.producer_epoch, self._incarnations)
            self._sequences = {}
            abandoned, self._abandoned = self._abandoned, []
            for each in abandoned:
                await self._retry_fenced(*each)
        return self._incarnation

    async def _retry_fenced(self, incarnation: Incarnation, where: TopicPartition, sequence: int) -> None:
        """Let a fenced incarnation write, commit a position and end its transaction once more. All must be refused."""
        position = self.position
        acts: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            (f"writes to {where}", lambda: self._send(incarnation, where, sequence, "written after it was fenced"))
        ]
        if position is not None:
            at = position
            acts.append(
                (
                    "commits a position",
                    lambda: at.commit(Transaction(incarnation.number), self._fields(incarnation), self._next()),
                )
            )
        acts.append(("ends its transaction", lambda: self._end(incarnation, True)))
        for what, act in acts:
            try:
                await act()
            except requests.REQUEST_ERRORS:
                continue
            self._journal.fenced.append(f"incarnation {incarnation.number} of {self.name} {what} after it was fenced")

    async def _write(self, made: Transaction, incarnation: Incarnation, where: TopicPartition) -> None:
        value, sequence = f"{self.name}.{self._next()}", self._sequences.get(where, 0)
        made.values[value] = str(where)
        await self._patiently(lambda: self._send(incarnation, where, sequence, value))
        self._sequences[where] = sequence + 1

    async def _commit_position(self, made: Transaction, incarnation: Incarnation, where: TopicPartition) -> None:
        """Commit a position, and look it up: the new one must not be visible before the end of the transaction."""
        at, offset = self._position_in(where), self._next()
        body = transaction_schemas.AddOffsetsToTxnRequest(*self._fields(incarnation), group_id=at.group)
        await self._patiently(lambda: self._ask(transaction_schemas.ADD_OFFSETS_TO_TXN, body, _error_of))
        await self._patiently(lambda: at.commit(made, self._fields(incarnation), offset))
        await at.try_to_look_up(stable=False)

    def _position_in(self, where: TopicPartition) -> Position:
        if self.position is None:
            self.position = Position(f"group-of-{self.name}", where, self._journal, self._client)
        return self.position

    def _next(self) -> int:
        self._values += 1
        return self._values

    async def _end(self, incarnation: Incarnation, commits: bool) -> None:
        await self._ask(
            transaction_schemas.END_TXN,
            transaction_schemas.EndTxnRequest(*self._fields(incarnation), committed=commits),
            _error_of,
        )

    def _fields(self, incarnation: Incarnation) -> ProducerFields:
        return self.name, incarnation.id, incarnation.epoch

    # -- requests --------------------------------------------------------------------------------------------

    async def _send(self, incarnation: Incarnation, where: TopicPartition, sequence: int, value: str) -> None:
        batch = build(
            [Record(0, time.time_ns() // 1_000_000, None, value.encode())],
            producer_id=incarnation.id,
            producer_epoch=incarnation.epoch,
            base_sequence=sequence,
            flags=TRANSACTIONAL,
        )
        reply = await requests.produce(
            self._client, await requests.leader_of(self._client, where), where, batch, -1, self.name
        )
        if reply.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            raise_for(reply.error_code, str(where))

    async def _ask(self, api: Api[Q, R], body: Q, error_of: Callable[[R], int]) -> R:
        """Send a request to the transaction coordinator."""
        try:
            if self._coordinator is None:
                asked = FindCoordinatorRequest(key=self.name, key_type=TRANSACTION_COORDINATOR)
                found = await self._client.ask(FIND_COORDINATOR, asked, version_max=3)
                raise_for(found.error_code, self.name)
                self._coordinator = found.node_id
            reply = await self._client.ask_broker(self._coordinator, api, body)
            raise_for(error_of(reply), f"{self.name}: {api.key.name}")
        except requests.REQUEST_ERRORS:
            self._coordinator = None
            raise
        return reply

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        until, pause = trio.current_time() + self._patience_s, requests.PAUSE_S
        while True:
            try:
                return await act()
            except requests.REQUEST_ERRORS as error:
                if (isinstance(error, KafkaError) and not error.code.retriable) or trio.current_time() > until:
                    raise
            await trio.sleep(pause)
            pause = min(2 * pause, requests.PAUSE_MAX_S)


def _error_of(
    reply: InitProducerIdResponse | transaction_schemas.AddOffsetsToTxnResponse | transaction_schemas.EndTxnResponse,
) -> int:
    return reply.error_code


def _error_of_partitions(reply: transaction_schemas.AddPartitionsToTxnResponse) -> int:
    codes = [part.partition_error_code for topic in reply.results_by_topic for part in topic.results_by_partition]
    return int(next((code for code in codes if code), 0))


# -- reading -------------------------------------------------------------------------------------------------


class CommittedReader:
    """A reader of the committed records of one partition, from its beginning on."""

    def __init__(self, client: Client, where: TopicPartition, received: Callable[[Read], None]) -> None:
        self.where = where
        self.position = 0
        self._client = client
        self._received = received

    async def run(self) -> None:
        while True:
            if not await self.poll():
                await trio.sleep(requests.PAUSE_S)

    async def poll(self) -> bool:
        """Poll once; return whether the position advanced."""
        client, where = self._client, self.where
        try:
            answer = await requests.fetch(
                client, await requests.leader_of(client, where), where, self.position, 1_000, requests.COMMITTED_ONLY
            )
        except requests.REQUEST_ERRORS:
            return False
        seen, following = requests.records_in(answer.records or b"", self.position, answer.aborted_transactions or ())
        if following == self.position:
            return False
        self._received(Read(str(where), self.position, following, tuple(seen)))
        self.position = following
        return True

    async def end(self) -> int:
        """Return the last stable offset; raise `Unreachable` if it is not the high watermark: a transaction is open."""
        stable = await requests.offset_of(self._client, self.where, requests.LATEST, requests.COMMITTED_ONLY)
        watermark = await requests.offset_of(self._client, self.where, requests.LATEST, requests.UNCOMMITTED)
        if stable != watermark:
            raise Unreachable(f"{self.where} has the last stable offset {stable} and the high watermark {watermark}")
        return stable

    async def run_to_end(self) -> None:
        end = await requests.until_success(self.end)
        while self.position < end:
            if not await self.poll():
                await trio.sleep(requests.PAUSE_S)
