"""ReplicaManager at work: over sockets, with a store in this process, and commands as a controller gives them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

import zab
from kraft_controller.core.commands import LeaderAndIsr, Role, UpdateMetadata
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, Broker, PartitionState
from kraft_controller.runtime.registration import prepare
from kraft_controller.wire import znodes
from replica.core.errors import ErrorCode
from replica.core.replica_settings import ReplicaSettings
from replica.runtime.handlers import fetch_requests, offset_requests, produce_requests
from replica.runtime.logs import Log
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.replication.alter_partition_sender import AlterPartitionPace
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime
from replica.runtime.requests import ApiKey
from replica.wire import records
from replica.wire.batch import walk
from tests.kafka_bodies import ask
from tests.unit.replica.storage.logs import MemoryLog

T0 = TopicPartition("t", 0)
ID = TopicId("t" * 22)
CE = ControllerEpoch(1)
PATIENCE_S = 240


class MemoryLogs:
    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.kept: dict[TopicPartition, int] = {}

    def open(self, where: TopicPartition, topic_id: TopicId | None, *, begins: bool) -> MemoryLog:
        return self.logs.setdefault(where, MemoryLog(str(where)))

    def high_watermark(self, where: TopicPartition) -> int:
        return self.kept.get(where, 0)

    def take_offline(self, where: TopicPartition, why: str) -> None:
        raise AssertionError

    def delete(self, where: TopicPartition) -> None:
        self.logs.pop(where, None)

    def keep_high_watermarks(self, watermarks: Mapping[TopicPartition, int]) -> None:
        self.kept = dict(watermarks)


class Cluster:
    """Brokers with a port and replicas, and nothing else. `broker.live` is cancelled to kill one."""

    def __init__(self, session: zab.Session, nursery: trio.Nursery) -> None:
        self.session = session
        self.nursery = nursery
        self.ports: dict[int, int] = {}
        self.epochs: dict[int, BrokerEpoch] = {}
        self.scopes: dict[int, trio.CancelScope] = {}
        self.replicas: dict[int, ReplicaManagerRuntime] = {}
        self.logs: dict[int, MemoryLogs] = {}
        self.state = PartitionState(BrokerId(1), (BrokerId(1), BrokerId(2), BrokerId(3)), controller_epoch=CE)

    async def start(self, number: int, settings: ReplicaSettings, *, task_status: trio.TaskStatus[None]) -> None:
        log = Log(number)
        logs = self.logs[number] = MemoryLogs()
        replicas = self.replicas[number] = ReplicaManagerRuntime(
            BrokerId(number), logs, log, lambda: self.epochs[number], lambda: self.session, self.address, settings,
            AlterPartitionPace(notices_s=0.05), checkpoint_s=0.05,
        )  # fmt: skip
        handlers = {
            **produce_requests.handlers(replicas),
            **fetch_requests.handlers(replicas, "PLAINTEXT"),
            **offset_requests.handlers(replicas, "PLAINTEXT"),
        }
        port = ClientListener("PLAINTEXT", "127.0.0.1", 0, handlers, log)
        self.ports[number] = await port.bind()
        with trio.CancelScope() as self.scopes[number]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(port.run)
                await nursery.start(replicas.run)
                task_status.started()

    def address(self, broker: BrokerId) -> tuple[str, int] | None:
        return ("127.0.0.1", self.ports[broker]) if broker in self.ports else None

    def live(self) -> tuple[Broker, ...]:
        return tuple(Broker(BrokerId(each), self.epochs[each], ()) for each in self.ports)

    def kill(self, number: int) -> None:
        self.scopes[number].cancel()
        del self.ports[number], self.replicas[number]

    async def elect(self, leader: int, *isr: int) -> None:
        data, stat = await self.session.get(znodes.state_path(T0))
        now = znodes.read_partition_state(T0, data, Version(stat.version))
        after = now.next(CE, leader=BrokerId(leader), isr=tuple(BrokerId(each) for each in isr))
        stat = await self.session.set(znodes.state_path(T0), znodes.partition_state(after))
        self.state = evolve(after, version=Version(stat.version))
        self.tell()

    def tell(self, where: TopicPartition = T0) -> None:
        role = Role(where, ID, self.state, Assignment((BrokerId(1), BrokerId(2), BrokerId(3))))
        for number, replicas in self.replicas.items():
            epoch = self.epochs[number]
            assert not replicas.apply(LeaderAndIsr(BrokerId(9), CE, epoch, False, (role,), self.live()))
            replicas.apply(UpdateMetadata(BrokerId(9), CE, epoch, (role,), self.live()))

    async def ask(self, broker: int, api: ApiKey, body: dict[str, Any]) -> dict[str, Any]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.ports[broker])
        connection = BrokerConnection(stream, ClientSettings())
        try:
            return await ask(connection, api, body)
        finally:
            await connection.aclose()

    async def produce(self, broker: int, *values: bytes, acks: int = -1) -> dict[str, Any]:
        data = records.batch_of([(None, value) for value in values], self.replicas[broker].now())
        part = {"index": 0, "records": data}
        topics = [{"name": "t", "partition_data": [part]}]
        reply = await self.ask(broker, ApiKey.PRODUCE, {"acks": acks, "timeout_ms": 240_000, "topic_data": topics})
        answer: dict[str, Any] = reply["responses"][0]["partition_responses"][0]
        return answer

    async def fetch(self, broker: int, offset: int, wait_ms: int = 0) -> dict[str, Any]:
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        body = {"max_wait_ms": wait_ms, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [part]}]}
        reply = await self.ask(broker, ApiKey.FETCH, body)
        answer: dict[str, Any] = reply["responses"][0]["partitions"][0]
        return answer

    async def isr(self) -> set[int]:
        data, _ = await self.session.get(znodes.state_path(T0))
        return set(znodes.read_partition_state(T0, data, Version(0)).isr)

    async def until_isr(self, *members: int) -> None:
        while await self.isr() != set(members):
            await trio.sleep(0.02)


@asynccontextmanager
async def cluster(path: Path, settings: ReplicaSettings | None = None) -> AsyncIterator[Cluster]:
    with trio.fail_after(PATIENCE_S):
        async with zab.open_store(path) as store, store.session() as session, trio.open_nursery() as nursery:
            await prepare(session)
            made = Cluster(session, nursery)
            for number in (1, 2, 3):
                await session.create(node := znodes.broker_path(BrokerId(number)), b"{}")
                stat = await session.exists(node)
                assert stat is not None
                made.epochs[number] = BrokerEpoch(stat.czxid)
                await nursery.start(made.start, number, settings or ReplicaSettings(fetch_wait_ms=50))
            await session.ensure_path(znodes.partition_path(T0))
            await session.create(znodes.state_path(T0), znodes.partition_state(made.state))
            made.tell()
            yield made
            nursery.cancel_scope.cancel()


def values(data: bytes) -> list[bytes | None]:
    return [record.value for at, _ in walk(data) for record in records.read_records(data, at)]


@pytest.mark.mechanism(1, 16, 31)
async def test_acknowledged_records_are_on_all_replicas_and_survive_the_leader(tmp_path: Path) -> None:
    async with cluster(tmp_path) as brokers:
        answer = await brokers.produce(1, b"a", b"b")
        assert (answer["error_code"], answer["base_offset"]) == (0, 0)
        for number in (1, 2, 3):
            assert brokers.logs[number].logs[T0].end_offset == 2
        brokers.kill(1)
        await brokers.elect(2, 2, 3)
        answer = await brokers.produce(2, b"c")
        assert (answer["error_code"], answer["base_offset"]) == (0, 2)
        found = await brokers.fetch(2, 0)
        assert values(found["records"]) == [b"a", b"b", b"c"]
        assert found["high_watermark"] == 3
        assert brokers.logs[3].logs[T0].end_offset == 3


@pytest.mark.mechanism(5, 6)
async def test_failed_broker_leaves_the_isr_and_rejoins_after_its_return(tmp_path: Path) -> None:
    settings = ReplicaSettings(lag_time_max_ms=1_500, fetch_wait_ms=50, fetch_backoff_ms=50, isr_quiet_ms=0)
    async with cluster(tmp_path, settings) as brokers:
        await brokers.produce(1, b"a")
        brokers.kill(3)
        answer = await brokers.produce(1, b"b")  # waits until 3 is out
        assert answer["error_code"] == 0
        await brokers.until_isr(1, 2)
        while not await brokers.session.children(znodes.ISR_CHANGES):
            await trio.sleep(0.02)
        await brokers.nursery.start(brokers.start, 3, settings)
        await brokers.elect(1, 1, 2)
        await brokers.until_isr(1, 2, 3)
        assert brokers.logs[3].logs[T0].end_offset == 2


async def test_a_consumer_that_waits_is_answered_when_something_is_committed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as brokers, trio.open_nursery() as nursery:
        found: list[dict[str, Any]] = []

        async def wait() -> None:
            found.append(await brokers.fetch(1, 0, wait_ms=60_000))

        nursery.start_soon(wait)
        while not len(brokers.replicas[1].core.purgatory):
            await trio.sleep(0.01)
        await brokers.produce(1, b"a")
        while not found:
            await trio.sleep(0.01)
        assert values(found[0]["records"]) == [b"a"]


@pytest.mark.mechanism(27)
async def test_watermarks_are_kept_now_and_then_by_leader_and_followers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as brokers:
        await brokers.produce(1, b"a", b"b")
        while not all(brokers.logs[number].kept == {T0: 2} for number in (1, 2, 3)):
            await trio.sleep(0.01)


async def test_wait_ends_when_the_client_disconnects(tmp_path: Path) -> None:
    async with cluster(tmp_path) as brokers:
        core = brokers.replicas[1].core
        while not len(core.purgatory):  # the followers
            await trio.sleep(0.01)
        with trio.move_on_after(0.2):
            await brokers.fetch(1, 0, wait_ms=60_000)
        brokers.kill(2)
        brokers.kill(3)
        while len(core.purgatory):
            await trio.sleep(0.01)


async def test_answers_in_the_words_of_the_protocol(tmp_path: Path) -> None:
    async with cluster(tmp_path) as brokers:
        await brokers.produce(1, b"a", b"b")
        lookup = {"partition_index": 0, "timestamp": -1}
        reply = await brokers.ask(
            1, ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": [{"name": "t", "partitions": [lookup]}]}
        )
        assert reply["topics"][0]["partitions"][0]["offset"] == 2
        part = {"partition": 0, "leader_epoch": 0}
        reply = await brokers.ask(1, ApiKey.OFFSET_FOR_LEADER_EPOCH, {"topics": [{"topic": "t", "partitions": [part]}]})
        assert reply["topics"][0]["partitions"][0]["end_offset"] == 2
        gone = {"partition_index": 0, "offset": -1}
        reply = await brokers.ask(
            1, ApiKey.DELETE_RECORDS, {"timeout_ms": 240_000, "topics": [{"name": "t", "partitions": [gone]}]}
        )
        assert reply["topics"][0]["partitions"][0] == {"partition_index": 0, "low_watermark": 2, "error_code": 0}
        assert (await brokers.fetch(1, 0))["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
        elsewhere = await brokers.fetch(2, 0)
        assert elsewhere["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert elsewhere["current_leader"] == {"leader_id": 1, "leader_epoch": 0}
        broken = [{"name": "t", "partition_data": [{"index": 0, "records": b"x" * 80}, {"index": 0, "records": None}]}]
        reply = await brokers.ask(1, ApiKey.PRODUCE, {"acks": 1, "timeout_ms": 0, "topic_data": broken})
        first, second = reply["responses"][0]["partition_responses"]
        assert (first["error_code"] != 0, second["error_code"]) == (True, ErrorCode.INVALID_REQUEST)
        assert first["error_message"]


async def test_positions_are_written_for_the_coordinator_of_groups(tmp_path: Path) -> None:
    async with cluster(tmp_path) as brokers:
        done: list[tuple[int, int]] = []
        data = records.batch_of([(b"k", b"v")], brokers.replicas[1].now())
        brokers.replicas[1].append(T0, data, 240_000, lambda error, offset: done.append((error, offset)))
        brokers.replicas[2].append(T0, data, 240_000, lambda error, offset: done.append((error, offset)))
        while len(done) < 2:
            await trio.sleep(0.01)
        assert done == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (ErrorCode.NONE, 0)]
        held = brokers.replicas[1].log_and_high_watermark(T0)
        assert held is not None
        assert held[1] == 1


async def test_a_fetch_that_waits_is_given_up_for_partitions_that_are_new(tmp_path: Path) -> None:
    """It would wait for ten minutes."""
    async with cluster(tmp_path, ReplicaSettings(fetch_wait_ms=600_000)) as brokers:
        core = brokers.replicas[1].core
        while len(core.purgatory) < 2:
            await trio.sleep(0.01)
        new = TopicPartition("t", 1)
        brokers.tell(new)
        data = records.batch_of([(None, b"a")], brokers.replicas[1].now())
        topics = [{"name": "t", "partition_data": [{"index": 1, "records": data}]}]
        body = {"acks": -1, "timeout_ms": PATIENCE_S * 1_000, "topic_data": topics}
        reply = await brokers.ask(1, ApiKey.PRODUCE, body)
        assert reply["responses"][0]["partition_responses"][0]["error_code"] == 0
        assert brokers.logs[3].logs[new].end_offset == 1
