"""The coordinator as a broker runs it: fields of the protocol, logs of record batches, a clock that jumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, BrokerId, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Endpoint
from kraft_controller.runtime.controller_metrics import exposition
from replica.core.errors import ErrorCode as E
from replica.core.errors import KafkaError
from replica.core.groups.group_states import Cause
from replica.core.groups.partitioning import partition_of
from replica.core.partitions.partition_log import AppendOrigin
from replica.core.replica_messages import RoleTaken
from replica.runtime.admin import group_metrics
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from replica.runtime.handlers import coordinator_requests
from replica.runtime.handlers import group_requests as group_handlers
from replica.runtime.logs import Log
from replica.runtime.requests import ApiKey, Handler, Request
from replica.wire.messages import decode_request, encode_response
from replica.wire.records import ControlType, control_batch
from replica.wire.schemas import APIS
from replica.wire.schemas import group_schemas as group_schemas
from replica.wire.schemas.group_schemas import FIND_COORDINATOR
from tests.kafka_bodies import Body, on_values, request_frame, response_values
from tests.unit.replica.storage.logs import MemoryLog

PARTITIONS = 3
NOW = 1 << 60
GROUP = "g1"
MINE = partition_of(GROUP, PARTITIONS)


class Storage:
    """Logs in memory. While `holding`, nothing that is written is safe."""

    def __init__(self) -> None:
        self.logs = {TopicPartition(OFFSETS_TOPIC, number): MemoryLog() for number in range(PARTITIONS)}
        self.safe = dict.fromkeys(self.logs, 0)
        self.holding = False
        self.waiting: list[tuple[Callable[[E, int], None], int]] = []
        self.epoch = 1

    def append(self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[E, int], None]) -> None:
        log = self.logs[where]
        first = log.append_as_leader(records, self.epoch, NOW, origin=AppendOrigin.COORDINATOR).first
        if self.holding:
            self.waiting.append((done, first))
        else:
            self.safe[where] = log.end_offset
            done(E.NONE, first)

    def log_and_high_watermark(self, where: TopicPartition) -> tuple[MemoryLog, int] | None:
        return (self.logs[where], self.safe[where]) if where in self.logs else None


async def surely() -> bool:
    return True


class Broker:
    """What a client reaches: each request goes over the wire and back, in whichever version."""

    def __init__(self, storage: Storage, still_leads: Callable[[], Awaitable[bool]] = surely) -> None:
        self.storage = storage
        self.groups = GroupCoordinatorRuntime(storage, self._count, Log(1), still_leads=still_leads)
        self.handlers = group_handlers.handlers(self.groups, lambda where: where.topic == "t")

    async def _count(self) -> int | None:
        return PARTITIONS

    def lead(self, epoch: int = 1) -> None:
        for where in self.storage.logs:
            self.groups.role_taken(RoleTaken(where, True, LeaderEpoch(epoch)))

    async def served(self) -> None:
        while self.groups.coordinator.topic.partitions is None or self.groups.coordinator.topic.loading:
            await trio.sleep(0.01)

    async def call(self, api: ApiKey, version: int, **fields: Any) -> Body:
        sent = decode_request(request_frame(api, version, 7, "client", fields)[4:])
        reply = await self.handlers[api](Request(api, version, 7, sent.client_id, sent.body))
        assert reply is not None
        correlation, body = response_values(api, version, encode_response(APIS[api], version, 7, reply)[4:])
        assert correlation == 7
        return body

    async def join(self, version: int, member: str = "") -> Body:
        return await self.call(
            ApiKey.JOIN_GROUP,
            version,
            group_id=GROUP,
            member_id=member,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}],
        )

    async def commit(self, version: int, offset: int, **who: Any) -> list[int]:
        partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}]
        topics = [{"name": name, "partitions": partitions} for name in ("t", "unknown")]
        body = await self.call(ApiKey.OFFSET_COMMIT, version, group_id=GROUP, topics=topics, **who)
        assert [topic["name"] for topic in body["topics"]] == ["t", "unknown"]
        return [topic["partitions"][0]["error_code"] for topic in body["topics"]]

    async def committed(self) -> int:
        topics = [{"name": "t", "partition_indexes": [0]}]
        body = await self.call(ApiKey.OFFSET_FETCH, 5, group_id=GROUP, topics=topics)
        assert body["error_code"] == E.NONE
        offset: int = body["topics"][0]["partitions"][0]["committed_offset"]
        return offset


def play(story: Callable[[Broker, trio.Nursery], Awaitable[None]], storage: Storage | None = None) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            broker = Broker(storage or Storage())
            await nursery.start(broker.groups.run)
            with trio.fail_after(10_000):
                await story(broker, nursery)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def member(broker: Broker, version: int) -> tuple[str, int]:
    joined = await broker.join(version)
    if version >= 4:
        assert joined["error_code"] == E.MEMBER_ID_REQUIRED
        joined = await broker.join(version, joined["member_id"])
    assert joined["error_code"] == E.NONE
    assert joined["protocol_name"] == "range"
    ident, generation = joined["member_id"], joined["generation_id"]
    synced = await broker.call(
        ApiKey.SYNC_GROUP,
        min(version, 5),
        group_id=GROUP,
        generation_id=generation,
        member_id=ident,
        assignments=[{"member_id": ident, "assignment": b"mine"}],
    )
    assert (synced["error_code"], synced["assignment"]) == (E.NONE, b"mine")
    return ident, generation


@pytest.mark.parametrize("version", range(10))
def test_one_member_in_every_version(version: int) -> None:
    async def story(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        began = trio.current_time()
        ident, generation = await member(broker, version)
        assert trio.current_time() - began == pytest.approx(3, abs=0.01)  # the initial delay
        assert ident.startswith("client-")
        who = {"generation_id": generation, "member_id": ident}
        beat = await broker.call(ApiKey.HEARTBEAT, min(version, 4), group_id=GROUP, **who)
        assert beat["error_code"] == E.NONE
        assert await broker.commit(max(2, min(version, 8)), 42, **who) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
        described = await broker.call(ApiKey.DESCRIBE_GROUPS, min(version, 5), groups=[GROUP, "other"])
        assert [each["group_state"] for each in described["groups"]] == ["Stable", "Dead"]
        assert described["groups"][0]["members"][0]["client_host"] == "/127.0.0.1"
        listed = await broker.call(ApiKey.LIST_GROUPS, min(version, 5))
        assert [each["group_id"] for each in listed["groups"]] == [GROUP]
        leaving = min(version, 5)
        leaver = {"member_id": ident} if leaving < 3 else {"members": [{"member_id": ident}]}
        left = await broker.call(ApiKey.LEAVE_GROUP, leaving, group_id=GROUP, **leaver)
        assert left["error_code"] == E.NONE
        assert [each["error_code"] for each in left["members"]] == ([] if leaving < 3 else [E.NONE])
        for fetching in range(1, 9):
            topics = [{"name": "t", "partition_indexes": [0, 1]}]
            if fetching < 8:
                body = await broker.call(ApiKey.OFFSET_FETCH, fetching, group_id=GROUP, topics=topics)
            else:
                groups = [{"group_id": GROUP, "topics": topics}, {"group_id": "other", "topics": None}]
                body, other = (await broker.call(ApiKey.OFFSET_FETCH, fetching, groups=groups))["groups"]
                assert (other["group_id"], other["topics"], other["error_code"]) == ("other", [], E.NONE)
            found = [(each["committed_offset"], each["metadata"]) for each in body["topics"][0]["partitions"]]
            assert found == [(42, "m"), (-1, "")]
        results = await broker.call(ApiKey.DELETE_GROUPS, min(version, 2), groups_names=[GROUP, "other"])
        assert [each["error_code"] for each in results["results"]] == [E.NONE, E.GROUP_ID_NOT_FOUND]
        assert broker.groups.rebalances == {Cause.MEMBER_JOINED: 1, Cause.MEMBER_LEFT: 1}

    play(story)


async def test_every_api_of_groups_has_its_handler() -> None:
    broker = on_values(group_handlers.handlers(GroupCoordinatorRuntime(Storage(), _nowhere, Log(1)), lambda _: True))
    keys = {api.key for api in group_schemas.APIS} | {ApiKey.TXN_OFFSET_COMMIT}
    assert keys == {*broker, ApiKey.FIND_COORDINATOR}
    assert set(broker) <= set(APIS)


async def _nowhere() -> int | None:
    return None


def test_next_coordinator_loads_groups_and_offsets_of_the_former() -> None:
    storage = Storage()

    async def first(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        ident, generation = await member(broker, 7)
        await broker.commit(8, 41, member_id=ident, generation_id=generation)
        await broker.commit(8, 42, member_id=ident, generation_id=generation)

    async def second(broker: Broker, _: trio.Nursery) -> None:
        assert await broker.call(ApiKey.LIST_GROUPS, 4) == {
            "throttle_time_ms": 0,
            "error_code": E.COORDINATOR_NOT_AVAILABLE,
            "groups": [],
        }
        broker.lead(2)
        await broker.served()
        assert await broker.committed() == 42
        described = await broker.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[GROUP])
        [one] = described["groups"][0]["members"]
        assert one["member_assignment"] == b"mine"
        await trio.sleep(10.1)  # nobody beats
        described = await broker.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[GROUP])
        assert described["groups"][0]["group_state"] == "Empty"

    play(first, storage)
    play(second, storage)


def test_a_coordinator_serves_nothing_that_may_still_be_lost() -> None:
    storage = Storage()

    async def first(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        await broker.commit(8, 1)

    async def second(broker: Broker, nursery: trio.Nursery) -> None:
        where = TopicPartition(OFFSETS_TOPIC, MINE)
        safe, storage.safe[where] = storage.safe[where], 0
        broker.lead(2)
        await trio.sleep(20)
        topics = [{"name": "t", "partition_indexes": [0]}]
        body = await broker.call(ApiKey.OFFSET_FETCH, 1, group_id=GROUP, topics=topics)
        assert body["topics"][0]["partitions"][0]["error_code"] == E.COORDINATOR_LOAD_IN_PROGRESS
        body = await broker.call(ApiKey.OFFSET_FETCH, 2, group_id=GROUP, topics=topics)
        assert (body["topics"], body["error_code"]) == ([], E.COORDINATOR_LOAD_IN_PROGRESS)
        storage.safe[where] = safe
        await broker.served()
        assert await broker.committed() == 1

    play(first, storage)
    play(second, storage)


def test_a_commit_waits_for_the_replicas_and_is_refused_when_its_coordinator_is_deposed() -> None:
    async def story(broker: Broker, nursery: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        broker.storage.holding = True
        heard: list[list[int]] = []

        async def commit() -> None:
            heard.append(await broker.commit(8, 5))

        nursery.start_soon(commit)
        await trio.sleep(1)
        assert heard == []
        assert await broker.committed() == -1
        for where in broker.storage.logs:
            broker.groups.role_taken(RoleTaken(where, False, LeaderEpoch(2)))
        await trio.sleep(1)
        assert heard == [[E.NOT_COORDINATOR, E.UNKNOWN_TOPIC_OR_PARTITION]]
        for done, first in broker.storage.waiting:
            done(E.NONE, first)  # the log hears of it too late

    play(story)


def test_records_are_written_in_the_order_of_decisions() -> None:
    """Also when the end of one write, heard of in the middle of another, causes a third."""

    async def story(broker: Broker, nursery: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        storage = broker.storage
        storage.holding = True

        async def commit(offset: int) -> None:
            await broker.commit(8, offset)

        for offset in (1, 2, 3):
            nursery.start_soon(commit, offset)
            await trio.testing.wait_all_tasks_blocked()
        waiting = list(storage.waiting)
        for done, first in reversed(waiting):
            done(E.NONE, first)
        assert await broker.committed() == 3

    play(story)


def test_disconnected_client_leaves_no_state() -> None:
    async def story(broker: Broker, nursery: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        joined = await broker.join(5)
        with trio.move_on_after(1):
            await broker.join(5, joined["member_id"])
        assert broker.groups._waiting == {}
        await trio.sleep(60)
        assert broker.groups._waiting == {}

    play(story)


def test_heartbeat_after_a_suspension_keeps_its_member() -> None:
    """It was stopped for longer than the session lasts, and its members could not be heard."""

    async def main() -> None:
        clock.autojump_threshold = 0
        async with trio.open_nursery() as nursery:
            broker = Broker(Storage())
            await nursery.start(broker.groups.run)
            broker.lead()
            await broker.served()
            ident, generation = await member(broker, 7)
            clock.jump(60)
            await trio.sleep(0.1)
            who = {"generation_id": generation, "member_id": ident}
            beat = await broker.call(ApiKey.HEARTBEAT, 4, group_id=GROUP, **who)
            assert beat["error_code"] == E.NONE
            await trio.sleep(9)
            beat = await broker.call(ApiKey.HEARTBEAT, 4, group_id=GROUP, **who)
            assert beat["error_code"] == E.NONE
            await trio.sleep(11)
            beat = await broker.call(ApiKey.HEARTBEAT, 4, group_id=GROUP, **who)
            assert beat["error_code"] == E.UNKNOWN_MEMBER_ID
            nursery.cancel_scope.cancel()

    clock = trio.testing.MockClock()
    trio.run(main, clock=clock)


@pytest.mark.parametrize("leads", [True, False])
def test_suspended_coordinator_answers_only_after_its_session_is_confirmed(leads: bool) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            broker = Broker(Storage(), still_leads)
            await nursery.start(broker.groups.run)
            broker.lead()
            await broker.served()
            await broker.commit(8, 7)
            clock.autojump_threshold = float("inf")
            clock.jump(60)
            heard: list[Body] = []

            async def fetch() -> None:
                topics = [{"name": "t", "partition_indexes": [0]}]
                heard.append(await broker.call(ApiKey.OFFSET_FETCH, 5, group_id=GROUP, topics=topics))

            nursery.start_soon(fetch)
            await trio.testing.wait_all_tasks_blocked()
            assert asked.is_set()
            assert heard == []
            told.set()
            await trio.testing.wait_all_tasks_blocked()
            assert [each["error_code"] for each in heard] == [E.NONE if leads else E.NOT_COORDINATOR]
            clock.autojump_threshold = 0
            broker.lead(2)
            await broker.served()
            assert await broker.committed() == 7
            nursery.cancel_scope.cancel()

    async def still_leads() -> bool:
        asked.set()
        await told.wait()
        return leads

    clock = trio.testing.MockClock(autojump_threshold=0)
    asked, told = trio.Event(), trio.Event()
    trio.run(main, clock=clock)


def test_a_log_that_cannot_be_read_is_read_again() -> None:
    class Damaged(MemoryLog):
        tries = 0

        def read(self, *_: Any, **__: Any) -> Any:
            type(self).tries += 1
            raise KafkaError(E.KAFKA_STORAGE_ERROR, "the disk says no")

    storage = Storage()

    async def first(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        await broker.commit(8, 7)

    async def second(broker: Broker, _: trio.Nursery) -> None:
        where = TopicPartition(OFFSETS_TOPIC, MINE)
        good = storage.logs[where]
        bad = Damaged()
        bad.append_as_leader(good.read(0, 1 << 20, good.end_offset).records, 1, NOW, origin=AppendOrigin.COORDINATOR)
        storage.logs[where] = bad
        broker.lead(2)
        await trio.sleep(5)
        assert 3 <= Damaged.tries <= 7
        assert MINE in broker.groups.coordinator.topic.loading
        storage.logs[where] = good
        await broker.served()
        assert await broker.committed() == 7

    play(first, storage)
    play(second, storage)


# -- positions in transactions ---------------------------------------------------------------------------------


async def commit_in_transaction(broker: Broker, version: int, offset: int) -> list[int]:
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": None}]
    body = await broker.call(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        transactional_id="payments",
        group_id=GROUP,
        producer_id=7,
        producer_epoch=1,
        topics=[{"name": name, "partitions": partitions} for name in ("t", "unknown")],
    )
    return [topic["partitions"][0]["error_code"] for topic in body["topics"]]


def end_of_transaction(storage: Storage, kind: ControlType) -> tuple[int, int, bool, int]:
    """As the leader of the partition writes it. Returned is what the coordinator is told."""
    where = TopicPartition(OFFSETS_TOPIC, MINE)
    log = storage.logs[where]
    made = log.append_as_leader(control_batch(kind, 7, 1, 0, 5), storage.epoch, NOW, origin=AppendOrigin.COORDINATOR)
    storage.safe[where] = log.end_offset
    return MINE, 7, kind is ControlType.COMMIT, made.first


def test_positions_in_transactions_hang_in_the_topic_and_the_next_coordinator_finds_them() -> None:
    storage = Storage()

    async def first(broker: Broker, _: trio.Nursery) -> None:
        assert await commit_in_transaction(broker, 1, 1) == [E.COORDINATOR_NOT_AVAILABLE, E.UNKNOWN_TOPIC_OR_PARTITION]
        broker.lead()
        await broker.served()
        for version in range(4):
            assert await commit_in_transaction(broker, version, 10 + version) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
            assert await broker.committed() == (10 + version - 1 if version else -1)
            broker.groups.complete_transaction(*end_of_transaction(storage, ControlType.COMMIT))
        assert await commit_in_transaction(broker, 3, 20) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
        broker.groups.complete_transaction(*end_of_transaction(storage, ControlType.ABORT))
        assert await commit_in_transaction(broker, 3, 30) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]

    async def second(broker: Broker, _: trio.Nursery) -> None:
        broker.lead(2)
        assert await commit_in_transaction(broker, 1, 40) == [E.COORDINATOR_NOT_AVAILABLE, E.UNKNOWN_TOPIC_OR_PARTITION]
        await broker.served()
        assert await broker.committed() == 13
        topics = [{"name": "t", "partition_indexes": [0]}]
        body = await broker.call(ApiKey.OFFSET_FETCH, 7, group_id=GROUP, topics=topics, require_stable=True)
        assert body["topics"][0]["partitions"][0]["error_code"] == E.UNSTABLE_OFFSET_COMMIT
        broker.groups.complete_transaction(*end_of_transaction(storage, ControlType.COMMIT))
        assert await broker.committed() == 30

    play(first, storage)
    play(second, storage)


def test_metrics_count_groups_members_offsets_and_loads() -> None:
    async def story(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        assert read(broker)["kafka_coordinator_group_partitions_loading"] == PARTITIONS
        await broker.served()
        ident, generation = await member(broker, 7)
        await broker.commit(8, 42, member_id=ident, generation_id=generation)
        found = read(broker)
        assert found['kafka_coordinator_group_num_groups{state="Stable"}'] == 1
        assert found['kafka_coordinator_group_num_groups{state="Empty"}'] == 0
        assert found["kafka_coordinator_group_num_members"] == found["kafka_coordinator_group_num_offsets"] == 1
        assert found["kafka_coordinator_group_partitions_loading"] == 0
        assert found['kafka_coordinator_group_rebalances_total{cause="member-joined"}'] == 1

    def read(broker: Broker) -> dict[str, float]:
        lines = exposition(group_metrics.samples(broker.groups)).splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    play(story)


# -- whom to ask -----------------------------------------------------------------------------------------------


class Picture:
    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, BrokerId] = {}

    def leader(self, where: TopicPartition) -> BrokerId | None:
        return self.leaders.get(where)

    def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None:
        return Endpoint(listener, f"host{broker}", 9092) if listener == "PLAINTEXT" else None


class Topic:
    def __init__(self) -> None:
        self.partitions: int | None = None
        self.made = 0
        self.brokers = 3

    async def count(self) -> int | None:
        await trio.lowlevel.checkpoint()
        return self.partitions

    async def make(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.brokers < 3:
            raise KafkaError(E.INVALID_REPLICATION_FACTOR, "3 replicas, and 2 brokers")
        self.made += 1
        self.partitions = 50


def finder(picture: Picture, topic: Topic, transactions: Topic | None = None) -> Handler[Any, Any]:
    another = transactions or Topic()
    topics = {
        coordinator_requests.GROUP: coordinator_requests.CoordinatorTopicLookup(
            OFFSETS_TOPIC, topic.count, topic.make, Log(1)
        ),
        coordinator_requests.TRANSACTION: coordinator_requests.CoordinatorTopicLookup(
            TRANSACTIONS_TOPIC, another.count, another.make, Log(1)
        ),
    }
    return coordinator_requests.handlers(picture, topics)[ApiKey.FIND_COORDINATOR]


async def found(handler: Any, version: int, listener: str = "PLAINTEXT", **fields: Any) -> Body:
    sent = decode_request(request_frame(ApiKey.FIND_COORDINATOR, version, 7, "c", fields)[4:])
    reply = await handler(Request(ApiKey.FIND_COORDINATOR, version, 7, "c", sent.body, listener))
    body: Body
    _, body = response_values(
        ApiKey.FIND_COORDINATOR, version, encode_response(FIND_COORDINATOR, version, 7, reply)[4:]
    )
    return body


async def test_first_find_coordinator_creates_the_topic() -> None:
    picture, topic = Picture(), Topic()
    handler = finder(picture, topic)
    topic.brokers = 2
    body = await found(handler, 1, key="test")
    assert (body["error_code"], body["node_id"]) == (E.COORDINATOR_NOT_AVAILABLE, -1)
    assert "3 replicas" in body["error_message"]
    topic.brokers = 3
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(partial(found, handler, 1, key="test"))
    assert topic.made == 1
    body = await found(handler, 1, key="test")
    assert body["error_code"] == E.COORDINATOR_NOT_AVAILABLE  # nobody leads it yet
    picture.leaders[TopicPartition(OFFSETS_TOPIC, 48)] = BrokerId(2)
    for version in range(4):
        body = await found(handler, version, key="test")
        assert (body["error_code"], body["node_id"], body["host"], body["port"]) == (E.NONE, 2, "host2", 9092)
    body = await found(handler, 4, coordinator_keys=["test", "my-group"])
    assert [(each["key"], each["node_id"], each["error_code"]) for each in body["coordinators"]] == [
        ("test", 2, E.NONE),
        ("my-group", -1, E.COORDINATOR_NOT_AVAILABLE),
    ]
    body = await found(handler, 1, listener="OTHER", key="test")
    assert "no listener OTHER" in body["error_message"]


async def test_transactions_have_a_topic_of_their_own_and_there_are_no_other_coordinators() -> None:
    picture, topic, another = Picture(), Topic(), Topic()
    handler = finder(picture, topic, another)
    picture.leaders[TopicPartition(TRANSACTIONS_TOPIC, 48)] = BrokerId(3)
    body = await found(handler, 1, key="test", key_type=1)
    assert (body["error_code"], body["node_id"]) == (E.NONE, 3)
    assert (topic.made, another.made) == (0, 1)
    body = await found(handler, 1, key="x", key_type=2)
    assert body["error_code"] == E.INVALID_REQUEST
