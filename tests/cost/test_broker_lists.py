"""Requests with long lists: what is done for each name is little, and other connections have their turns in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, WireError
from replica.core.partitions.offset_lookup import Lookup
from replica.core.replica_messages import Fetch, Fetched, FetchPartition, OffsetAnswer
from replica.runtime.authentication.user_credentials import UserCredentials
from replica.runtime.broker import Broker
from replica.runtime.handlers import scram_requests
from replica.runtime.network.broker_client import Client, connect
from replica.runtime.requests import ApiKey, Request
from replica.wire.messages import ELEMENTS_MAX, decode_request, elements_max
from tests.cost.meter import steps
from tests.integration.brokers import cluster
from tests.kafka_bodies import Body, ask, on_values, request_frame

MANY = 4_000


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[Broker, Client]]:
    async with cluster(path, 1, auto_create=False) as made, connect([("127.0.0.1", made.ports[1])]) as client:
        yield made.brokers[1], client


def topics(partition: Body, count: int = MANY, name: str = "name") -> list[Body]:
    return [{name: f"x{number}", "partitions": [partition]} for number in range(count)]


NAMES = [f"x{number}" for number in range(MANY)]
CONFIGS = [{"resource_type": 2, "resource_name": name} for name in NAMES]
AT = {"partition_index": 0, "current_leader_epoch": -1}


class Steps(trio.abc.Instrument):
    """Counts the steps of the task that executes a connection's requests."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task.name.endswith("ConnectionShell._execute_all")


@pytest.mark.parametrize(
    ("key", "body", "least"),
    [
        (ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": topics({**AT, "timestamp": -1})}, 10),
        (
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            {"topics": topics({"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}, name="topic")},
            10,
        ),
        (ApiKey.DESCRIBE_GROUPS, {"groups": NAMES}, 10),
        (ApiKey.DELETE_GROUPS, {"groups_names": NAMES}, 10),
        (ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": NAMES}, 10),
        (ApiKey.DESCRIBE_PRODUCERS, {"topics": [{"name": "x", "partition_indexes": list(range(MANY))}]}, 10),
        (ApiKey.DESCRIBE_CONFIGS, {"resources": [{**each, "configuration_keys": None} for each in CONFIGS]}, 10),
        (ApiKey.ALTER_CONFIGS, {"resources": [{**each, "configs": []} for each in CONFIGS]}, 10),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [{**each, "configs": []} for each in CONFIGS]}, 10),
        (
            ApiKey.WRITE_TXN_MARKERS,
            {"markers": [{"producer_id": 1, "topics": [{"name": "x", "partition_indexes": list(range(MANY))}]}]},
            10,
        ),
        (
            ApiKey.FETCH,
            {
                "replica_id": -1,
                "topics": topics({"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}, name="topic"),
            },
            20,
        ),
        (ApiKey.DELETE_RECORDS, {"topics": topics({"partition_index": 0, "offset": 0})}, 4),
    ],
    ids=lambda each: each.name if isinstance(each, ApiKey) else "",
)
async def test_a_long_list_leaves_turns_to_others(tmp_path: Path, key: ApiKey, body: Body, least: int) -> None:
    async with connected(tmp_path) as (_, connection):
        await ask(connection, key, {})  # what is computed once is not part of it
        counted = Steps()
        trio.lowlevel.add_instrument(counted)
        try:
            await ask(connection, key, body)
        finally:
            trio.lowlevel.remove_instrument(counted)
        assert counted.count >= least


async def test_repeated_partition_of_a_fetch_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at Apache Kafka's brokers, the last request for the partition counts."""
    async with connected(tmp_path) as (broker, connection):
        read: list[FetchPartition] = []
        fetch = broker.parts.replica_manager.fetch

        async def counted(asked: Fetch) -> list[Fetched]:
            read.extend(asked.parts)
            return await fetch(asked)

        monkeypatch.setattr(broker.parts.replica_manager, "fetch", counted)
        for session_epoch in (-1, 0):
            read.clear()
            part = {"fetch_offset": 0, "partition_max_bytes": 1}
            asked = [
                {"topic": "a", "partitions": [{**part, "partition": 7}] * 100},
                {"topic": "b", "partitions": [{**part, "partition": 0}]},
                {"topic": "a", "partitions": [{**part, "partition": 8}, {**part, "partition": 7, "fetch_offset": 9}]},
            ]
            body = {"replica_id": -1, "session_epoch": session_epoch, "topics": asked}
            reply = await ask(connection, ApiKey.FETCH, body)
            assert [(each.where, each.offset) for each in read] == [
                (TopicPartition("a", 7), 9), (TopicPartition("b", 0), 0), (TopicPartition("a", 8), 0)
            ]  # fmt: skip
            topics = reply["responses"]
            found = [(topic["topic"], each["partition_index"]) for topic in topics for each in topic["partitions"]]
            assert sorted(found) == [("a", 7), ("a", 8), ("b", 0)], "in a session, a topic is named once"


async def test_records_of_a_topic_that_is_none_are_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(tmp_path) as (broker, connection):
        wanted: list[str] = []
        monkeypatch.setattr(broker.parts.dynamic_configs, "topic_wanted", wanted.append)
        asked = topics({"partition_index": 0, "offset": 0}, 100)
        nameless = [{"name": "", "partitions": [{"partition_index": 0, "offset": 0}]}, {"name": "", "partitions": []}]
        reply = await ask(connection, ApiKey.DELETE_RECORDS, {"timeout_ms": 0, "topics": [*asked, *nameless]})
        codes = {part["error_code"] for topic in reply["topics"] for part in topic["partitions"]}
        assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(reply["topics"]) == 102
        assert wanted == []


async def test_a_partition_that_is_named_again_is_not_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search for a time may unpack a whole batch. Kafka's brokers answer with the same error."""
    async with connected(tmp_path) as (broker, connection):
        searched: list[str] = []
        look_up = broker.parts.replica_manager.look_up

        async def counted(asked: Lookup, **more: Any) -> OffsetAnswer:
            searched.append(asked.where.topic)
            return await look_up(asked, **more)

        monkeypatch.setattr(broker.parts.replica_manager, "look_up", counted)
        part = {**AT, "timestamp": 5}
        asked = [{"name": "a", "partitions": [part] * 100}, {"name": "b", "partitions": [part]}]
        reply = await ask(connection, ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": asked})
        assert searched == ["b"]
        assert {each["error_code"] for each in reply["topics"][0]["partitions"]} == {ErrorCode.INVALID_REQUEST}


def test_requests_that_are_dear_may_name_less() -> None:
    def named(count: int) -> bytes:
        return request_frame(ApiKey.DELETE_TOPICS, 1, 1, None, {"topic_names": ["t"] * count, "timeout_ms": 1})[4:]

    assert elements_max(ApiKey.METADATA) == elements_max(ApiKey.FETCH) == ELEMENTS_MAX
    most = elements_max(ApiKey.DELETE_TOPICS)
    assert len(decode_request(named(most)).body.topic_names) == most < ELEMENTS_MAX
    with pytest.raises(WireError, match=f"more than {most} list elements"):
        decode_request(named(most + 1))


class _NoUsers(UserCredentials):
    def __init__(self) -> None:
        pass

    async def change(self, *arguments: Any) -> None:
        pass


def test_changing_many_users_is_linear() -> None:
    alter = on_values(scram_requests.handlers(_NoUsers()))[ApiKey.ALTER_USER_SCRAM_CREDENTIALS]

    def cost(count: int) -> int:
        deletions = [{"name": f"u{number}", "mechanism": 1} for number in range(count)]
        request = Request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 1, None, {"deletions": deletions, "upsertions": []})

        def call() -> None:
            with pytest.raises(StopIteration):
                alter(request).__await__().send(None)

        return steps(call)

    assert cost(800) < 6 * cost(200)
