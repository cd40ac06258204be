"""Metadata creates missing topics, and describes partitions without a reachable leader."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core.commands import Role, UpdateMetadata
from kraft_controller.core.names import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState
from replica.core.errors import ErrorCode, KafkaError
from replica.core.metadata_cache import MetadataCache
from replica.runtime.handlers import metadata_requests
from replica.runtime.logs import Log
from replica.runtime.requests import ApiKey, Request
from replica.runtime.store.auto_topic_creation_manager import (
    CREATED_AT_A_TIME_MAX,
    CREATED_BY_REQUEST_MAX,
    PENDING_MAX,
    WAIT_S,
    AutoTopicCreationManager,
)
from replica.runtime.store.topic_manager import Defaults, TopicManager
from tests.kafka_bodies import on_values

ONE = BrokerId(1)


async def answer(
    cache: MetadataCache,
    make: Callable[[str], Awaitable[None]],
    names: Sequence[str],
    version: int = 12,
    *,
    auto_create: bool = True,
) -> dict[str, Any]:
    settings = metadata_requests.MetadataSettings("cluster", auto_create=auto_create)
    creation = AutoTopicCreationManager(make, Log(1))
    act = on_values(metadata_requests.handlers(cache, settings, lambda: ONE, creation.create))[ApiKey.METADATA]
    body = {
        "topics": [{"name": name, "topic_id": None} for name in names],
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
    }
    async with trio.open_nursery() as nursery:
        nursery.start_soon(creation.run)
        reply: dict[str, Any] = await act(Request(ApiKey.METADATA, version, 1, None, body))
        nursery.cancel_scope.cancel()
    return reply


async def ask(
    make: Callable[[str], Awaitable[None]],
    names: Sequence[str],
    cache: MetadataCache | None = None,
    *,
    auto_create: bool = True,
) -> dict[str, ErrorCode]:
    reply = await answer(cache or MetadataCache(), make, names, auto_create=auto_create)
    return {topic["name"]: topic.get("error_code", ErrorCode.NONE) for topic in reply["topics"]}


async def nothing_made(name: str) -> None:
    raise AssertionError(name)


async def test_missing_topics_of_request_are_created_concurrently() -> None:
    under_way = together = 0
    made: list[str] = []

    async def make(name: str) -> None:
        nonlocal under_way, together
        under_way += 1
        together = max(together, under_way)
        await trio.lowlevel.checkpoint()
        under_way -= 1
        if name == "x7":
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "two of one")
        if name == "x8":
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "later perhaps")
        made.append(name)

    names = [f"x{number}" for number in range(150)]
    found = await ask(make, ["no/name", *names])
    assert found.pop("no/name") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert found.pop("x7") is ErrorCode.INVALID_REPLICATION_FACTOR
    assert set(found.values()) == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert sorted(made) == sorted(set(names) - {"x7", "x8"})
    assert together == CREATED_AT_A_TIME_MAX


async def test_topic_created_for_request_has_no_partitions_in_response() -> None:
    """kafka-go requests two topics that it has deleted, and expects no partitions."""
    cache = MetadataCache()

    async def make(name: str) -> None:
        state = PartitionState(ONE, (ONE,), LeaderEpoch(0), ControllerEpoch(1))
        role = Role(TopicPartition(name, 0), TopicId(f"{name:022}"), state, Assignment((ONE,)))
        cache.update(UpdateMetadata(ONE, ControllerEpoch(1), BrokerEpoch(1), (role,), (), full=False))
        assert name in cache.topics

    assert await ask(make, ["a", "b"], cache) == dict.fromkeys(["a", "b"], ErrorCode.LEADER_NOT_AVAILABLE)
    assert await ask(make, ["a", "b"], cache) == dict.fromkeys(["a", "b"], ErrorCode.NONE)


async def test_partition_without_reachable_leader_has_error() -> None:
    def partition(number: int, leader: int) -> Role:
        state = PartitionState(BrokerId(leader), (ONE,), LeaderEpoch(7), ControllerEpoch(1))
        replicas = Assignment((ONE, BrokerId(2), BrokerId(3)))
        return Role(TopicPartition("t", number), TopicId("t" * 22), state, replicas)

    brokers = (
        Broker(ONE, BrokerEpoch(1), (Endpoint("PLAINTEXT", "one", 9092),)),
        Broker(BrokerId(2), BrokerEpoch(2), (Endpoint("SSL", "two", 9093),)),
    )
    cache = MetadataCache()
    roles = (partition(2, 3), partition(1, 2), partition(0, 1))
    cache.update(UpdateMetadata(ONE, ControllerEpoch(1), BrokerEpoch(1), roles, brokers, full=True))

    async def described(version: int) -> list[tuple[int, int, ErrorCode]]:
        reply = await answer(cache, nothing_made, ["t"], version)
        assert [each["node_id"] for each in reply["brokers"]] == [1]
        (topic,) = reply["topics"]
        for each in topic["partitions"]:
            assert list(each["offline_replicas"]) == [3]
            assert each["leader_epoch"] == 7
        return [(each["partition_index"], each["leader_id"], each["error_code"]) for each in topic["partitions"]]

    none, away = ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE
    assert await described(6) == [(0, 1, none), (1, -1, ErrorCode.LISTENER_NOT_FOUND), (2, -1, away)]
    assert await described(5) == [(0, 1, none), (1, -1, away), (2, -1, away)]


async def test_no_topic_is_created_without_auto_create() -> None:
    found = await ask(nothing_made, ["a", "no/name"], auto_create=False)
    assert found == {"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no/name": ErrorCode.INVALID_TOPIC_EXCEPTION}


async def test_topics_with_same_metric_name_are_created_one_at_a_time() -> None:
    started: list[str] = []

    class Slow(TopicManager):
        async def create(self, name: str, *_: Any, **__: Any) -> Any:
            started.append(name)
            await trio.lowlevel.checkpoint()

    topics = Slow(lambda: None, MetadataCache(), Defaults(), bytes)
    found = await ask(topics.make_if_missing, ["raw.col", "raw_col", "other"])
    assert set(found.values()) == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert len(started) == len({name.replace(".", "_") for name in started}) == 2


async def test_request_creates_bounded_number_of_topics() -> None:
    """A request of a megabyte can name tens of thousands of topics."""
    made: list[str] = []

    async def make(name: str) -> None:
        made.append(name)
        await trio.lowlevel.checkpoint()

    most = CREATED_BY_REQUEST_MAX
    found = await ask(make, [f"x{number}" for number in range(most + 5)])
    assert len(made) == most
    assert [name for name, code in found.items() if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] == [
        f"x{number}" for number in range(most, most + 5)
    ]


def test_response_does_not_wait_for_slow_creations() -> None:
    """A request for 2,000 topics once had its response after 33 s."""
    made: list[str] = []

    async def make(name: str) -> None:
        await trio.sleep(0.4)
        made.append(name)

    async def main() -> None:
        creation = AutoTopicCreationManager(make, Log(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(creation.run)
            began = trio.current_time()
            names = [f"x{number}" for number in range(CREATED_BY_REQUEST_MAX + 5)]
            found = await creation.create(names)
            assert trio.current_time() - began == pytest.approx(WAIT_S, abs=0.1)
            assert found == dict.fromkeys(names[:CREATED_BY_REQUEST_MAX], ErrorCode.LEADER_NOT_AVAILABLE)
            assert len(made) == 2 * CREATED_AT_A_TIME_MAX
            assert names[900] not in made
            assert list(await creation.create([names[900]])) == [names[900]]  # still pending: it is not created twice
            await trio.sleep(60)
            assert sorted(made) == sorted(names[:CREATED_BY_REQUEST_MAX])
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_pending_creations_of_all_requests_are_bounded() -> None:
    made: list[str] = []

    async def make(name: str) -> None:
        await trio.sleep(1_000)
        made.append(name)

    async def main() -> None:
        creation = AutoTopicCreationManager(make, Log(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(creation.run)
            begun = 0
            for first in range(0, 5 * CREATED_BY_REQUEST_MAX, CREATED_BY_REQUEST_MAX):
                begun += len(await creation.create([f"x{first + each}" for each in range(CREATED_BY_REQUEST_MAX)]))
            assert begun == PENDING_MAX
            await trio.sleep(PENDING_MAX * 1_000)
            assert len(made) == PENDING_MAX
            assert await creation.create(["later"]) == {"later": ErrorCode.LEADER_NOT_AVAILABLE}
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_unexpected_error_ends_only_its_own_creation() -> None:
    async def make(name: str) -> None:
        if name == "bad":
            raise ValueError(name)

    found = await ask(make, ["bad", "good"])
    assert found == {"bad": ErrorCode.UNKNOWN_SERVER_ERROR, "good": ErrorCode.LEADER_NOT_AVAILABLE}
