"""The coordinator of transactions as a broker runs it: fields of the protocol, logs of batches, a clock that jumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, LeaderEpoch, TopicPartition
from kraft_controller.runtime.controller_metrics import exposition
from replica.core.errors import ErrorCode as E
from replica.core.errors import KafkaError
from replica.core.groups.partitioning import partition_of
from replica.core.partitions.partition_log import AppendOrigin
from replica.core.replica_messages import RoleTaken
from replica.core.transactions.transaction_effects import Marker
from replica.runtime.admin import transaction_metrics
from replica.runtime.coordination.coordinator_runtime import always
from replica.runtime.coordination.transaction_coordinator_runtime import TransactionCoordinatorRuntime
from replica.runtime.coordination.transaction_marker_sender import MarkerOwner
from replica.runtime.handlers import producer_id_requests, transaction_requests
from replica.runtime.logs import Log
from replica.runtime.requests import ApiKey, Request
from replica.wire.messages import decode_request, encode_response
from replica.wire.schemas import APIS
from tests.kafka_bodies import Body, request_frame, response_values
from tests.unit.replica.storage.logs import MemoryLog

PARTITIONS = 3
NOW = 1 << 60
ID = "payments"
MINE = partition_of(ID, PARTITIONS)


class Storage:
    """Logs in memory. While `holding`, nothing that is written is safe."""

    def __init__(self) -> None:
        self.logs = {TopicPartition(TRANSACTIONS_TOPIC, number): MemoryLog() for number in range(PARTITIONS)}
        self.safe = dict.fromkeys(self.logs, 0)
        self.holding = False

    def append(self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[E, int], None]) -> None:
        log = self.logs[where]
        first = log.append_as_leader(records, 1, NOW, origin=AppendOrigin.COORDINATOR).first
        if not self.holding:
            self.safe[where] = log.end_offset
            done(E.NONE, first)

    def log_and_high_watermark(self, where: TopicPartition) -> tuple[MemoryLog, int] | None:
        return (self.logs[where], self.safe[where]) if where in self.logs else None


class Ids:
    def __init__(self) -> None:
        self.next = 100
        self.none = False

    async def take(self) -> int:
        await trio.lowlevel.checkpoint()
        if self.none:
            raise KafkaError(E.COORDINATOR_LOAD_IN_PROGRESS, "the store does not answer")
        self.next += 1
        return self.next - 1


class Partitions:
    """They hear at once how a transaction ended, unless they are deaf."""

    def __init__(self) -> None:
        self.deaf = False
        self.sent: list[Marker] = []
        self._owner: MarkerOwner | None = None

    async def run(self, owner: MarkerOwner, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._owner = owner
        task_status.started()
        await trio.sleep_forever()

    def send(self, marker: Marker) -> None:
        self.sent.append(marker)
        assert self._owner is not None
        for where in () if self.deaf else marker.partitions:
            self._owner.marked(marker.number, where)

    def __len__(self) -> int:
        return 0


class Broker:
    """What a client reaches: each request goes over the wire and back, in whichever version."""

    def __init__(
        self, storage: Storage, markers: Partitions, still_leads: Callable[[], Awaitable[bool]] = always
    ) -> None:
        self.storage, self.markers, self.ids = storage, markers, Ids()
        self.offsets: int | None = 50
        self.transactions = TransactionCoordinatorRuntime(
            storage, self._count, markers, self.ids, Log(1), still_leads=still_leads
        )
        self.handlers = {
            **transaction_requests.handlers(self.transactions, lambda where: where.topic != "unknown", self._offsets),
            **producer_id_requests.handlers(self.ids, self.transactions),
        }

    async def _count(self) -> int | None:
        return PARTITIONS

    async def _offsets(self) -> int:
        if self.offsets is None:
            raise KafkaError(E.COORDINATOR_NOT_AVAILABLE, "it is being made")
        return self.offsets

    async def lead(self, epoch: int = 1) -> None:
        for where in self.storage.logs:
            self.transactions.role_taken(RoleTaken(where, True, LeaderEpoch(epoch)))
        while self.transactions.coordinator.topic.partitions is None or self.transactions.coordinator.topic.loading:
            await trio.sleep(0.01)

    async def call(self, api: ApiKey, version: int, **fields: Any) -> Body:
        sent = decode_request(request_frame(api, version, 7, "client", fields)[4:])
        reply = await self.handlers[api](Request(api, version, 7, sent.client_id, sent.body))
        assert reply is not None
        correlation, body = response_values(api, version, encode_response(APIS[api], version, 7, reply)[4:])
        assert correlation == 7
        return body

    async def init(self, version: int = 4, **fields: Any) -> Body:
        asked = {"transactional_id": ID, "transaction_timeout_ms": 60_000, **fields}
        return await self.call(ApiKey.INIT_PRODUCER_ID, version, **asked)

    async def producer(self) -> dict[str, Any]:
        made = await self.init()
        assert made["error_code"] == E.NONE
        return {"transactional_id": ID, "producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}

    async def add(self, version: int, who: dict[str, Any], **topics: list[int]) -> dict[TopicPartition, E]:
        asked = [{"name": name, "partitions": numbers} for name, numbers in topics.items()]
        body = await self.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, topics=asked, **who)
        return {
            TopicPartition(topic["name"], each["partition_index"]): E(each["partition_error_code"])
            for topic in body["results_by_topic"]
            for each in topic["results_by_partition"]
        }

    async def end(self, version: int, who: dict[str, Any], *, committed: bool = True) -> int:
        error: int = (await self.call(ApiKey.END_TXN, version, committed=committed, **who))["error_code"]
        return error

    async def described(self) -> Body:
        body = await self.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[ID])
        [found] = body["transaction_states"]
        state: Body = found
        return state


def play(
    story: Callable[[Broker], Awaitable[None]], storage: Storage | None = None, markers: Partitions | None = None
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            broker = Broker(storage or Storage(), Partitions() if markers is None else markers)
            await nursery.start(broker.transactions.run)
            with trio.fail_after(1_000):
                await story(broker)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_transaction_in_every_version() -> None:
    async def story(broker: Broker) -> None:
        await broker.lead()
        for version in range(4):
            who = await broker.producer()
            found = await broker.add(version, who, t=[0, 1], u=[0])
            assert set(found.values()) == {E.NONE}
            body = await broker.call(ApiKey.ADD_OFFSETS_TO_TXN, version, group_id="g1", **who)
            assert body["error_code"] == E.NONE
            state = await broker.described()
            assert (state["transaction_state"], state["transaction_timeout_ms"]) == ("Ongoing", 60_000)
            assert state["topics"] == [
                {"topic": OFFSETS_TOPIC, "partitions": [42]},
                {"topic": "t", "partitions": [0, 1]},
                {"topic": "u", "partitions": [0]},
            ]
            assert await broker.end(version, who, committed=version % 2 == 0) == E.NONE
            assert broker.markers.sent[-1].commit == (version % 2 == 0)
            state = await broker.described()
            assert state["transaction_state"] == ("CompleteAbort" if version % 2 else "CompleteCommit")

    play(story)


def test_the_word_for_fenced_is_the_one_that_the_version_knows() -> None:
    async def story(broker: Broker) -> None:
        await broker.lead()
        zombie = await broker.producer()
        await broker.producer()
        for version in range(4):
            word = E.INVALID_PRODUCER_EPOCH if version < 2 else E.PRODUCER_FENCED
            assert set((await broker.add(version, zombie, t=[0])).values()) == {word}
            assert await broker.end(version, zombie) == word
        for version in (3, 4):
            word = E.INVALID_PRODUCER_EPOCH if version < 4 else E.PRODUCER_FENCED
            fenced = await broker.init(version, producer_id=zombie["producer_id"], producer_epoch=0)
            assert (fenced["error_code"], fenced["producer_id"]) == (word, -1)

    play(story)


def test_one_partition_that_cannot_be_added_keeps_the_others_out() -> None:
    async def story(broker: Broker) -> None:
        await broker.lead()
        who = await broker.producer()
        found = await broker.add(3, who, t=[0], unknown=[0], **{OFFSETS_TOPIC: [1]})
        assert found == {
            TopicPartition("t", 0): E.OPERATION_NOT_ATTEMPTED,
            TopicPartition("unknown", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
            TopicPartition(OFFSETS_TOPIC, 1): E.TOPIC_AUTHORIZATION_FAILED,
        }
        assert (await broker.described())["transaction_state"] == "Empty"
        broker.offsets = None
        body = await broker.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, group_id="g1", **who)
        assert body["error_code"] == E.COORDINATOR_NOT_AVAILABLE

    play(story)


def test_ids_of_producers_with_a_transactional_id_and_without() -> None:
    async def story(broker: Broker) -> None:
        assert (await broker.init())["error_code"] == E.COORDINATOR_NOT_AVAILABLE  # how many partitions is not known
        await broker.lead()
        first = await broker.call(ApiKey.INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout_ms=0)
        assert (first["producer_id"], first["producer_epoch"]) == (100, 0)
        mine = await broker.init()
        assert (mine["producer_id"], mine["producer_epoch"]) == (101, 0)
        again = await broker.init(producer_id=101, producer_epoch=0)
        assert (again["producer_id"], again["producer_epoch"]) == (101, 1)
        assert (await broker.init(transactional_id=""))["error_code"] == E.INVALID_REQUEST
        assert (await broker.init(producer_id=101))["error_code"] == E.INVALID_REQUEST
        assert (await broker.init(transaction_timeout_ms=0))["error_code"] == E.INVALID_TRANSACTION_TIMEOUT
        broker.ids.none = True
        assert (await broker.init(transactional_id="x"))["error_code"] == E.COORDINATOR_LOAD_IN_PROGRESS
        last = await broker.call(ApiKey.INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout_ms=0)
        assert last["error_code"] == E.COORDINATOR_LOAD_IN_PROGRESS

    play(story)


def test_next_coordinator_loads_the_topic_and_completes_decided_transactions() -> None:
    storage, markers = Storage(), Partitions()

    async def first(broker: Broker) -> None:
        await broker.lead()
        who = await broker.producer()
        await broker.add(3, who, t=[0, 1])
        broker.markers.deaf = True
        assert await broker.end(3, who) == E.NONE
        assert (await broker.described())["transaction_state"] == "PrepareCommit"

    async def second(broker: Broker) -> None:
        broker.markers.deaf = False
        await broker.lead(2)
        while (await broker.described())["transaction_state"] != "CompleteCommit":
            await trio.sleep(0.01)
        assert [marker.coordinator_epoch for marker in broker.markers.sent] == [1, 2]
        assert (await broker.init())["producer_epoch"] == 1

    play(first, storage, markers)
    play(second, storage, markers)


def test_uncommitted_state_is_not_served() -> None:
    storage = Storage()

    async def first(broker: Broker) -> None:
        await broker.lead()
        await broker.producer()
        where = TopicPartition(TRANSACTIONS_TOPIC, MINE)
        broker.storage.safe[where] = 0
        broker.transactions.role_taken(RoleTaken(where, False, LeaderEpoch(2)))
        broker.transactions.role_taken(RoleTaken(where, True, LeaderEpoch(3)))
        await trio.sleep(10)
        assert MINE in broker.transactions.coordinator.topic.loading
        assert (await broker.init())["error_code"] == E.COORDINATOR_LOAD_IN_PROGRESS
        broker.storage.safe[where] = broker.storage.logs[where].end_offset
        await trio.sleep(1)
        assert (await broker.init())["producer_epoch"] == 1
        broker.transactions.role_taken(RoleTaken(where, None, LeaderEpoch(-1)))
        assert (await broker.init())["error_code"] == E.NOT_COORDINATOR

    play(first, storage)


def test_transaction_of_a_lost_producer_is_aborted() -> None:
    async def story(broker: Broker) -> None:
        await broker.lead()
        who = await broker.producer()
        await broker.add(3, who, t=[0])
        await trio.sleep(80)
        assert (await broker.described())["transaction_state"] == "CompleteAbort"
        assert broker.transactions.timed_out == 1
        assert await broker.end(3, who) == E.PRODUCER_FENCED

    play(story)


def test_requests_after_a_suspension_precede_timeouts() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            broker = Broker(Storage(), Partitions())
            await nursery.start(broker.transactions.run)
            clock.autojump_threshold = 0
            await broker.lead()
            heard = await broker.producer()
            await broker.add(3, heard, t=[0])
            silent = {**await broker.init(transactional_id="silent"), "transactional_id": "silent"}
            silent = {key: silent[key] for key in ("transactional_id", "producer_id", "producer_epoch")}
            await broker.add(3, silent, t=[1])
            clock.jump(600)
            await trio.sleep(0.1)  # what he has sent meanwhile is read
            assert await broker.end(3, heard) == E.NONE
            assert (await broker.described())["transaction_state"] == "CompleteCommit"
            await trio.sleep(15)
            assert broker.transactions.timed_out == 1
            assert await broker.end(3, silent) == E.PRODUCER_FENCED
            nursery.cancel_scope.cancel()

    clock = trio.testing.MockClock()
    trio.run(main, clock=clock)


@pytest.mark.parametrize("leads", [True, False])
def test_suspended_coordinator_decides_only_after_its_session_is_confirmed(leads: bool) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            broker = Broker(Storage(), Partitions(), still_leads)
            await nursery.start(broker.transactions.run)
            await broker.lead()
            who = await broker.producer()
            await broker.add(3, who, t=[0])
            clock.autojump_threshold = float("inf")
            clock.jump(600)
            heard: list[int] = []

            async def commit() -> None:
                heard.append(await broker.end(3, who))

            nursery.start_soon(commit)
            await trio.testing.wait_all_tasks_blocked()
            assert asked.is_set()
            assert heard == []
            assert broker.markers.sent == []
            told.set()
            await trio.testing.wait_all_tasks_blocked()
            assert heard == [E.NONE if leads else E.NOT_COORDINATOR]
            assert len(broker.markers.sent) == leads
            clock.autojump_threshold = 0
            await broker.lead(2)
            assert (await broker.described())["transaction_state"] == ("CompleteCommit" if leads else "Ongoing")
            nursery.cancel_scope.cancel()

    async def still_leads() -> bool:
        asked.set()
        await told.wait()
        return leads

    clock = trio.testing.MockClock(autojump_threshold=0)
    asked, told = trio.Event(), trio.Event()
    trio.run(main, clock=clock)


def test_transactions_are_listed() -> None:
    async def story(broker: Broker) -> None:
        await broker.lead()
        who = await broker.producer()
        await broker.add(3, who, t=[0])

        async def listed(**filters: Any) -> Body:
            return await broker.call(ApiKey.LIST_TRANSACTIONS, 1, **filters)

        row = {"transactional_id": ID, "producer_id": who["producer_id"], "transaction_state": "Ongoing"}
        assert (await listed())["transaction_states"] == [row]
        assert (await listed(state_filters=["Empty", "Strange"])) == {
            "throttle_time_ms": 0,
            "error_code": 0,
            "unknown_state_filters": ["Strange"],
            "transaction_states": [],
        }
        assert not (await listed(state_filters=["Strange"]))["transaction_states"]
        assert not (await listed(producer_id_filters=[5]))["transaction_states"]
        assert not (await listed(duration_filter=60_000))["transaction_states"]

    play(story)


def test_metrics_count_transactions_by_state() -> None:
    async def story(broker: Broker) -> None:
        await broker.lead()
        who = await broker.producer()
        await broker.add(3, who, t=[0])
        lines = exposition(transaction_metrics.samples(broker.transactions)).splitlines()
        found = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
        assert found['kafka_coordinator_transaction_num_transactions{state="Ongoing"}'] == 1
        assert found['kafka_coordinator_transaction_num_transactions{state="Empty"}'] == 0
        assert found["kafka_coordinator_transaction_partitions_loading"] == 0
        assert found["kafka_coordinator_transaction_timed_out_total"] == 0
        assert found["kafka_coordinator_transaction_longest_open_seconds"] >= 0

    play(story)
