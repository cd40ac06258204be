"""Consumers that we did not write, in groups: members come, leave and die, some are static, the coordinator moves.

They talk to the real coordinator through a real listener. Behind it there are no replicas: every topic has four
partitions in which nothing is, and the offsets topic is in memory, where it outlives coordinators.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from aiokafka import AIOKafkaConsumer
from attrs import define
from confluent_kafka import Consumer, ConsumerGroupType, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import RebalanceInProgressError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition

from harness.worlds.processes.brokers.member import keep_pending_rejoins
from kraft_controller.core.names import OFFSETS_TOPIC, BrokerId, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Endpoint
from replica.core.errors import ErrorCode as E
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import Cause, GroupState
from replica.core.replica_messages import RoleTaken
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from replica.runtime.handlers import coordinator_requests
from replica.runtime.handlers import group_requests as group_handlers
from replica.runtime.logs import Log
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.requests import ApiKey, Request
from tests.kafka_bodies import Body, on_values, typed
from tests.unit.replica.test_group_runtime import PARTITIONS, Storage

pytestmark = pytest.mark.slow

WHERES = range(4)
PATIENCE_S = 240.0


@define(eq=False)
class Running:
    groups: GroupCoordinatorRuntime
    storage: Storage
    port: int
    epoch: int = 1

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def lead(self, leads: bool) -> None:
        self.epoch += 1
        for where in self.storage.logs:
            self.groups.role_taken(RoleTaken(where, leads, LeaderEpoch(self.epoch)))

    def state(self, name: str) -> GroupState | None:
        return next((group.state for group in self.groups.coordinator.groups if group.id == name), None)


@asynccontextmanager
async def broker(metadata_s: float = 0.0, write_s: float = 0.0) -> AsyncIterator[Running]:
    """Run a broker that needs these times to answer a request for the metadata of topics, and to write a record."""
    storage = Storage()

    async def count() -> int | None:
        return PARTITIONS

    async def make() -> None: ...

    groups = GroupCoordinatorRuntime(storage, count, Log(1), GroupSettings(group_initial_rebalance_delay_ms=300))
    port = 0

    class Picture:
        def leader(self, where: TopicPartition) -> BrokerId | None:
            return BrokerId(1)

        def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None:
            return Endpoint(listener, "127.0.0.1", port)

    async def metadata(request: Request[Any]) -> Body:
        asked = request.body["topics"]
        names = ["t"] if asked is None else [each["name"] for each in asked]
        await trio.sleep(metadata_s if names else 0.0)
        partitions = [
            {"partition_index": index, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
            for index in WHERES
        ]
        return {
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": port}],
            "cluster_id": "c",
            "controller_id": 1,
            "topics": [{"name": name, "partitions": partitions} for name in names],
        }

    async def list_offsets(request: Request[Any]) -> Body:
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {"partition_index": each["partition_index"], "offset": 0} for each in topic["partitions"]
                    ],
                }
                for topic in request.body["topics"]
            ]
        }

    async def fetch(request: Request[Any]) -> Body:
        await trio.sleep(0.2)
        nothing = {"high_watermark": 0, "last_stable_offset": 0, "log_start_offset": 0, "records": b""}
        return {
            "responses": [
                {
                    "topic": topic["topic"],
                    "partitions": [{"partition_index": each["partition"], **nothing} for each in topic["partitions"]],
                }
                for topic in request.body["topics"]
            ]
        }

    lookup = coordinator_requests.CoordinatorTopicLookup(OFFSETS_TOPIC, count, make, Log(1))
    handlers = {
        **group_handlers.handlers(groups, lambda _: True),
        **coordinator_requests.handlers(Picture(), {coordinator_requests.GROUP: lookup}),
        **typed({ApiKey.METADATA: metadata, ApiKey.LIST_OFFSETS: list_offsets, ApiKey.FETCH: fetch}),
    }
    async with trio.open_nursery() as nursery:
        listener = ClientListener("PLAINTEXT", "127.0.0.1", 0, handlers, Log(1))
        port = await listener.bind()
        nursery.start_soon(listener.run)
        await nursery.start(groups.run)
        if write_s:
            slow_down(storage, write_s, nursery)
        running = Running(groups, storage, port)
        running.lead(True)
        yield running
        nursery.cancel_scope.cancel()


def slow_down(storage: Storage, write_s: float, nursery: trio.Nursery) -> None:
    append = storage.append

    async def confirm(done: Callable[[E, int], None], error: E, first: int) -> None:
        await trio.sleep(write_s)
        done(error, first)

    def append_slowly(where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[E, int], None]) -> None:
        append(where, records, timeout_ms, lambda error, first: nursery.start_soon(confirm, done, error, first))

    storage.append = append_slowly  # type: ignore[method-assign]


def until(true: Callable[[], bool], meanwhile: Callable[[], object] = lambda: time.sleep(0.05)) -> None:
    """In a thread of a client that we did not write."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come to be"
        meanwhile()


def test_kafka_python_shares_hands_over_and_survives_a_change_of_coordinator() -> None:
    def consumer(running: Running, name: str) -> Any:
        return KafkaConsumer(
            "t", bootstrap_servers=running.hosts, group_id="g", client_id=name, enable_auto_commit=False
        )

    def story(running: Running) -> None:
        first, second = consumer(running, "a"), consumer(running, "b")

        def poll() -> None:
            """Both at the same time. kafka-python forgets a join that is done while nobody polls, and joins anew;
            and as each waits for the other, one that is polled after the other may do so for ever."""
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda each: each.poll(500), (first, second)))

        def commits() -> bool:
            try:
                for mine in sorted(first.assignment())[:1]:
                    first.commit({mine: OffsetAndMetadata(7, "so far", -1)})
            except RebalanceInProgressError:  # one of them was slow, and has asked once more to be let in
                return False
            return len(first.assignment()) == 2 == len(second.assignment())

        until(lambda: len(first.assignment()) == 2 == len(second.assignment()), poll)
        until(commits, poll)
        assert first.assignment() | second.assignment() == {PythonPartition("t", index) for index in WHERES}
        mine = min(first.assignment())
        began = dict(running.groups.rebalances)
        trio.from_thread.run_sync(running.lead, False)
        trio.from_thread.run_sync(running.lead, True)
        first.commit({mine: OffsetAndMetadata(8, "further", -1)})
        assert first.committed(mine) == 8
        poll()
        assert running.groups.rebalances == began  # the new coordinator knows who has what
        second.close()
        until(lambda: len(first.assignment()) == 4, lambda: first.poll(500))
        first.close()
        until(lambda: running.state("g") is GroupState.EMPTY)  # it says so, and does not wait for an answer for ever

    played(story)


def test_consumer_of_kafka_python_finishes_a_rejoin_that_outlasts_a_poll() -> None:
    """The consumer joins before it has the metadata of its topic, and rejoins then."""

    def story(running: Running) -> None:
        consumer = KafkaConsumer(bootstrap_servers=running.hosts, group_id="g", enable_auto_commit=False)
        keep_pending_rejoins(consumer)
        consumer.subscribe(["t"])
        until(lambda: len(consumer.assignment()) == 4, lambda: consumer.poll(100))
        assert running.groups.rebalances[Cause.LEADER_REJOINED] > 0
        consumer.close()

    played(story, metadata_s=2.0, write_s=0.3)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_librdkafka_in_both_kinds_of_rebalance(assignor: str) -> None:
    def consumer(running: Running, name: str) -> Consumer:
        made = Consumer(
            {
                "bootstrap.servers": running.hosts,
                "group.id": "g",
                "client.id": name,
                "enable.auto.commit": False,
                "partition.assignment.strategy": assignor,
            }
        )
        made.subscribe(["t"])
        return made

    def story(running: Running) -> None:
        first = consumer(running, "a")
        until(lambda: len(first.assignment()) == 4, lambda: first.poll(0.05))
        second = consumer(running, "b")

        def poll() -> None:
            first.poll(0.05)
            second.poll(0.05)

        until(lambda: len(first.assignment()) == 2 == len(second.assignment()), poll)
        held = {each.partition for one in (first, second) for each in one.assignment()}
        assert held == set(WHERES)
        mine = first.assignment()[0].partition
        [done] = first.commit(offsets=[ConfluentPartition("t", mine, 9)], asynchronous=False)
        assert done.error is None
        [known] = first.committed([ConfluentPartition("t", mine)])
        assert known.offset == 9
        second.close()
        until(lambda: len(first.assignment()) == 4, lambda: first.poll(0.05))
        first.close()
        # Taken step by step, nobody loses what it keeps: the members themselves ask for the second step.
        assert (running.groups.rebalances[Cause.MEMBER_CHANGED] > 0) == (assignor == "cooperative-sticky")

    played(story)


def test_librdkafka_lists_groups_by_type() -> None:
    def story(running: Running) -> None:
        member = Consumer({"bootstrap.servers": running.hosts, "group.id": "g"})
        member.subscribe(["t"])
        until(lambda: len(member.assignment()) == 4, lambda: member.poll(0.05))
        admin: Any = AdminClient({"bootstrap.servers": running.hosts})

        def listed(kind: ConsumerGroupType) -> list[tuple[str, ConsumerGroupType]]:
            found = admin.list_consumer_groups(types={kind}).result().valid
            return [(each.group_id, each.type) for each in found]

        assert listed(ConsumerGroupType.CLASSIC) == [("g", ConsumerGroupType.CLASSIC)]
        assert listed(ConsumerGroupType.CONSUMER) == []
        member.close()

    played(story)


def test_a_static_member_of_librdkafka_is_replaced_without_a_rebalance_and_fenced() -> None:
    def consumer(running: Running) -> Consumer:
        made = Consumer(
            {
                "bootstrap.servers": running.hosts,
                "group.id": "g",
                "group.instance.id": "one",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        made.subscribe(["t"])
        return made

    def story(running: Running) -> None:
        old = consumer(running)
        until(lambda: len(old.assignment()) == 4, lambda: old.poll(0.05))
        new = consumer(running)
        until(lambda: len(new.assignment()) == 4, lambda: new.poll(0.05))
        assert running.groups.rebalances == {Cause.MEMBER_JOINED: 1}
        said: list[str] = []

        def hear() -> None:
            try:
                message = old.poll(0.05)
            except KafkaException as error:
                said.append(str(error))
            else:
                if message is not None and message.error():
                    said.append(str(message.error()))

        until(lambda: any("fenced" in each for each in said), hear)
        new.close()
        old.close()

    played(story)


def test_a_member_of_aiokafka_dies_and_another_takes_over() -> None:
    def consumer(running: Running, name: str) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            "t",
            bootstrap_servers=running.hosts,
            group_id="g",
            client_id=name,
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )

    async def both(running: Running) -> None:
        first, second = consumer(running, "a"), consumer(running, "b")
        await first.start()
        await second.start()
        await come_true(lambda: len(first.assignment()) == 2 == len(second.assignment()))
        mine = min(first.assignment())
        await first.commit({mine: (3, "x")})
        assert await first.committed(mine) == 3
        coordinator = second._coordinator
        coordinator._maybe_leave_group = nothing  # it dies: nobody hears of it
        await second.stop()
        await come_true(lambda: len(first.assignment()) == 4)
        await first.stop()
        assert running.groups.rebalances[Cause.SESSION_EXPIRED] >= 1  # more, if the machine stood still for as long

    async def nothing() -> None: ...

    async def come_true(true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await asyncio.sleep(0.05)

    played(lambda running: asyncio.run(both(running)))


def test_two_kinds_of_clients_that_share_no_assignor_are_told_so() -> None:
    def story(running: Running) -> None:
        first = Consumer(
            {
                "bootstrap.servers": running.hosts,
                "group.id": "g",
                "partition.assignment.strategy": "roundrobin",
                "log_level": 0,
            }
        )
        first.subscribe(["t"])
        until(lambda: len(first.assignment()) == 4, lambda: first.poll(0.05))
        reply = trio.from_thread.run(join_with_another, running)
        assert reply["error_code"] == E.INCONSISTENT_GROUP_PROTOCOL
        second = Consumer(
            {
                "bootstrap.servers": running.hosts,
                "group.id": "g",
                "partition.assignment.strategy": "range",
                "log_level": 0,
            }
        )
        second.subscribe(["t"])
        said: list[str] = []

        def hear() -> None:
            message = second.poll(0.05)
            if message is not None and message.error():
                said.append(str(message.error()))

        until(lambda: any("INCONSISTENT_GROUP_PROTOCOL" in each for each in said), hear)
        second.close()
        first.close()

    async def join_with_another(running: Running) -> Body:
        handler = on_values(group_handlers.handlers(running.groups, lambda _: True))[ApiKey.JOIN_GROUP]
        body = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
            "reason": None,
        }
        reply: Body = await handler(Request(ApiKey.JOIN_GROUP, 5, 1, "x", body))
        return reply

    played(story)


def played(story: Callable[[Running], None], *, metadata_s: float = 0.0, write_s: float = 0.0) -> None:
    async def main() -> None:
        async with broker(metadata_s, write_s) as running:
            with trio.fail_after(2 * PATIENCE_S):
                await trio.to_thread.run_sync(story, running)

    trio.run(main)
