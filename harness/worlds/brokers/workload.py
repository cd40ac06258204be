"""The broker clients of a script: producers, consumers, transactional producers, and administrators.

`network` makes their connections with `new_client`, and runs their coroutines with `start`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, Final

import trio

from harness.checkers.records.history import ALL, Trimmed
from harness.checkers.transactions import Journal, Read
from harness.faults import AllowUnclean, Consume, CreateTopic, DeleteRecords, Op, Produce, Script, Transact
from harness.worlds.brokers.consumer import Consumer
from harness.worlds.brokers.producer import Producer
from harness.worlds.brokers.recorder import Recorder
from harness.worlds.brokers.requests import LATEST, REQUEST_ERRORS, delete_records, offset_of, until_success
from harness.worlds.brokers.transactions import CommittedReader, Transactor
from harness.worlds.controller.administration import in_turn, name_of, where_of
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.runtime.network.broker_client import Client
from replica.wire.schemas.topic_schemas import (
    CREATE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

LEADER: Final = 1
"""The value of acks that asks for an acknowledgement by the leader alone."""
CONSUMERS: Final = 10_000
TRIMMERS: Final = 40_000
LAST: Final = 9_000
"""The first client numbers, by kind. Producers of the script have lower numbers; LAST is for writes after healing."""
PAUSE_S: Final = 0.1
TOPIC: Final = 2
SET: Final = 0
"""The resource type and the operation of IncrementalAlterConfigs requests."""


class BrokerClients:
    """The broker clients of a run. `patience_s` limits the time for a batch, or for a request in a transaction."""

    def __init__(self, network: Any, recorder: Recorder, script: Script, patience_s: float) -> None:
        self.journal = Journal()
        self.topics: dict[int, int] = {}
        """The number of partitions that each topic was created with. Partitions added later are not used."""
        self.producers: dict[tuple[int, TopicPartition, int], Producer] = {}
        self.consumers: dict[tuple[int, TopicPartition], Consumer] = {}
        self.transactors: dict[int, Transactor] = {}
        self.transacted = {op.topic for op in script.ops if isinstance(op, Transact)}
        """The topics in which all records are in transactions. Consumers read only their committed records."""
        self.written: dict[TopicPartition, None] = {}
        """The partitions that producers write to; `committed` has those that transactions write to."""
        self.committed: dict[TopicPartition, None] = {}
        self._network = network
        self._recorder = recorder
        self._brokers = script.brokers
        self._patience_s = patience_s
        self._trimmers = count(TRIMMERS)

    def perform(self, op: Op) -> bool:
        """Perform an operation of clients; return False for any other operation."""
        act = self._PERFORM.get(type(op))
        if act is not None:
            act(self, op)
        return act is not None

    def partitions(self) -> list[TopicPartition]:
        return [where_of(topic, number) for topic, size in self.topics.items() for number in range(size)]

    def _exists(self, op: Any) -> bool:
        return bool(op.partition < self.topics.get(op.topic, 0))

    # -- producers and consumers -----------------------------------------------------------------------

    def producer(self, client: int, where: TopicPartition, acks: int) -> Producer:
        key = client, where, acks
        found = self.producers.get(key)
        if found is None:
            self.written[where] = None
            made = Producer(self._recorder, self._network.new_client(), client, where, acks, self._patience_s)
            found = self.producers[key] = made
            self._network.start(found.run)
        return found

    def _produce(self, op: Produce) -> None:
        if op.topic not in self.transacted and self._exists(op):
            acks = ALL if op.acks == "all" else LEADER
            self.producer(op.client, where_of(op.topic, op.partition), acks).enqueue(op.count)

    def _consume(self, op: Consume) -> None:
        where = where_of(op.topic, op.partition)
        if not self._exists(op):
            return
        if op.topic in self.transacted:
            self._network.start(CommittedReader(self._network.new_client(), where, self.journal.reads.append).run)
        elif (op.client, where) not in self.consumers:
            number = CONSUMERS + op.client * 100 + len(self.consumers)
            made = Consumer(self._recorder, self._network.new_client(), number, where)
            self.consumers[op.client, where] = made
            self._network.start(made.run)

    def _transact(self, op: Transact) -> None:
        if max(op.partition, op.other) >= self.topics.get(op.topic, 0):
            return
        found = self.transactors.get(op.client)
        if found is None:
            made = Transactor(self.journal, self._network.new_client(), op.client, self._patience_s)
            found = self.transactors[op.client] = made
            self._network.start(found.run)
        places = tuple(dict.fromkeys(where_of(op.topic, number) for number in (op.partition, op.other)))
        self.committed.update(dict.fromkeys(places))
        found.enqueue(places, op.count, op.fate)

    # -- administration --------------------------------------------------------------------------------

    def _administer(self, attempt: Callable[[Client], Awaitable[bool]]) -> None:
        """Repeat an attempt until it returns True, also after failed requests."""
        client = self._network.new_client()

        async def run() -> None:
            while True:
                try:
                    if await attempt(client):
                        return
                except REQUEST_ERRORS:
                    pass
                await trio.sleep(PAUSE_S)

        self._network.start(run)

    def _create(self, op: CreateTopic) -> None:
        if op.topic in self.topics:
            return
        self.topics[op.topic] = op.partitions
        name = name_of(op.topic)
        assignments = [
            CreatableReplicaAssignment(number, list(in_turn(self._brokers, op.topic + number, op.factor)))
            for number in range(op.partitions)
        ]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=[])

        async def attempt(client: Client) -> bool:
            reply = await client.metadata([name])
            if reply.topics[0].partitions:
                return True
            await client.ask(CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
            return False

        self._administer(attempt)

    def _allow_unclean(self, op: AllowUnclean) -> None:
        if op.topic not in self.topics:
            return
        allowed = str(op.unclean == "allowed").lower()
        config = IncrementalAlterableConfig(name="unclean.leader.election.enable", config_operation=SET, value=allowed)
        resource = IncrementalAlterConfigsResource(
            resource_type=TOPIC, resource_name=name_of(op.topic), configs=[config]
        )
        body = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)

        async def attempt(client: Client) -> bool:
            return not (await client.ask(INCREMENTAL_ALTER_CONFIGS, body)).responses[0].error_code

        self._administer(attempt)

    def _delete_records(self, op: DeleteRecords) -> None:
        """Delete a part of the records that are committed now."""
        if op.topic in self.transacted or not self._exists(op):
            return
        where, number, recorder = where_of(op.topic, op.partition), next(self._trimmers), self._recorder
        upto: int | None = None

        async def attempt(client: Client) -> bool:
            nonlocal upto
            if upto is None:
                upto = await until_success(partial(offset_of, client, where, LATEST)) * op.percent // 100
                recorder.add(Trimmed(recorder.now_us(), number, str(where), upto))
            # Out of range: the log has lost its end meanwhile, and may never reach this offset again.
            return await delete_records(client, where, upto) in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)

        self._administer(attempt)

    # -- after healing ---------------------------------------------------------------------------------

    async def write_last(self, partitions: Iterable[TopicPartition], waits_for: list[str]) -> None:
        """Write one more value to each partition, and wait for the outcomes of all values."""
        for number, where in enumerate(partitions):
            self.producer(LAST + number, where, ALL).enqueue(1)
        for producer in self.producers.values():
            waits_for[0] = f"a reply to each value sent to {producer.where}"
            await producer.wait_answered()

    async def read_committed(self, client: Client, waits_for: list[str]) -> None:
        """End all transactions, and read what they have committed from beginning to end."""
        for each in self.transactors.values():
            waits_for[0] = f"a transaction of {each.name} to end"
            await each.finish()
            if each.position is not None:
                waits_for[0] = f"the transactions that move {each.position.name} to end"
                await until_success(partial(each.position.look_up, stable=True))
        for where in self.committed:
            waits_for[0] = f"the transactions in {where} to end"
            reads: list[Read] = []
            await CommittedReader(client, where, reads.append).run_to_end()
            self.journal.final[str(where)] = tuple(seen for read in reads for seen in read.seen)
        self.journal.complete = True

    _PERFORM: Final[dict[type, Callable[[Any, Any], None]]] = {
        Produce: _produce,
        Consume: _consume,
        Transact: _transact,
        CreateTopic: _create,
        AllowUnclean: _allow_unclean,
        DeleteRecords: _delete_records,
    }
