"""Counted steps and sizes of single parts of a broker under hostile requests: the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

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
from replica.core.errors import ErrorCode as E
from replica.core.groups.partitioning import java_hash
from replica.core.metadata_cache import MetadataCache
from replica.core.security.acl_authorization import Acls, AclSettings, Requester, allowed, operations
from replica.core.security.acls import Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType
from replica.runtime import logs
from replica.runtime.authorization.authorizer import Authorizer
from replica.runtime.handlers import metadata_requests
from replica.runtime.network.broker_client import connect
from replica.runtime.requests import ApiKey, Request
from replica.wire.fields import MESSAGE_BYTES_MAX
from tests.cost.meter import steps
from tests.integration.brokers import cluster
from tests.kafka_bodies import Body, ask, on_values, response_frame, response_values
from tests.unit.replica.test_group_runtime import GROUP, play
from tests.unit.replica.test_group_runtime import Broker as GroupBroker
from zab.host.logs import LINES_MAX

TOPIC = ResourceType.TOPIC
EVE = Requester("User:eve", "10.0.0.7")


def _acls(entries: int) -> Acls:
    """So many users may read every topic, and so many prefixes have an entry."""
    everything = [
        Acl(Pattern(TOPIC, "*"), Entry(f"User:{number}", "*", Operation.READ, Permission.ALLOW))
        for number in range(entries)
    ]
    prefixes = [
        Acl(Pattern(TOPIC, f"p{number}-", PatternType.PREFIXED), Entry("User:a", "*", Operation.READ, Permission.ALLOW))
        for number in range(entries)
    ]
    return Acls.of([*everything, *prefixes])


def test_a_decision_costs_the_same_however_many_acls_there_are() -> None:
    few, many = _acls(20), _acls(5_000)
    settings = AclSettings()

    def decide(acls: Acls) -> None:
        assert not allowed(acls, settings, EVE, Operation.READ, TOPIC, "orders")
        assert operations(acls, settings, EVE, TOPIC, "orders") == 0

    decide(few)
    assert steps(lambda: decide(many)) < 1.5 * steps(lambda: decide(few))


def test_a_change_of_one_pattern_does_not_compile_the_others() -> None:
    few, many = _acls(20), _acls(5_000)
    pattern = Pattern(TOPIC, "t")
    entries = frozenset({Entry("User:eve", "*", Operation.READ, Permission.ALLOW)})
    assert steps(lambda: many.with_pattern(pattern, entries)) < 1.5 * steps(lambda: few.with_pattern(pattern, entries))


def test_the_hash_of_a_long_name_takes_few_steps() -> None:
    for text in ("", "a", "zab" * 300, "é\N{GRINNING FACE}" * 400):
        value = 0
        units = text.encode("utf-16-be")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + 256 * high + low) % (1 << 32)
        assert java_hash(text) % (1 << 32) == value
    assert steps(lambda: java_hash("a" * 32_767)) < 1_000


# -- metadata ----------------------------------------------------------------------------------------------


def _metadata_of(topics: int, partitions: int, listeners: int = 1) -> MetadataCache:
    cache, one = MetadataCache(), BrokerId(1)
    others = [Endpoint(f"OTHER{number}", "h", 9093 + number) for number in range(listeners - 1)]
    endpoints = (*others, Endpoint("PLAINTEXT", "h", 9092))
    broker = Broker(one, BrokerEpoch(1), endpoints, {each.listener: "PLAINTEXT" for each in endpoints})
    state = PartitionState(one, (one,), LeaderEpoch(0), ControllerEpoch(1))
    roles = tuple(
        Role(TopicPartition(f"t{topic}", number), TopicId(f"{topic:022}"), state, Assignment((one,)))
        for topic in range(topics)
        for number in range(partitions)
    )
    cache.update(UpdateMetadata(one, ControllerEpoch(1), BrokerEpoch(1), roles, (broker,), True))
    return cache


def _ask_metadata(cache: MetadataCache, topics: list[Body]) -> Body:
    async def create(names: Sequence[str]) -> dict[str, E]:
        raise AssertionError(names)

    settings = metadata_requests.MetadataSettings("cluster", auto_create=False)
    answer = on_values(metadata_requests.handlers(cache, settings, lambda: BrokerId(1), create))[ApiKey.METADATA]
    body = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
    }
    replies = []
    coroutine = answer(Request(ApiKey.METADATA, 12, 1, None, body))
    try:
        coroutine.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        replies.append(stop.value)
    (reply,) = replies
    response_frame(ApiKey.METADATA, 12, 1, reply)
    return reply  # type: ignore[no-any-return]


def test_a_topic_that_is_named_many_times_is_described_once() -> None:
    cache = _metadata_of(1, 500)
    once, often = [{"name": "t0", "topic_id": None}], [{"name": "t0", "topic_id": None}] * 5_000
    assert _ask_metadata(cache, often) == _ask_metadata(cache, once)
    assert steps(lambda: _ask_metadata(cache, often)) < 5 * steps(lambda: _ask_metadata(cache, once))


def test_listeners_are_searched_once_per_broker_and_not_once_per_partition() -> None:
    few, many = _metadata_of(1, 1_000, listeners=1), _metadata_of(1, 1_000, listeners=20)
    topic: list[Body] = [{"name": "t0", "topic_id": None}]
    assert _ask_metadata(many, topic) == _ask_metadata(few, topic)
    assert steps(lambda: _ask_metadata(many, topic)) < 1.2 * steps(lambda: _ask_metadata(few, topic))


def test_an_unknown_topic_id_is_not_searched_for_among_all_topics() -> None:
    few, many = _metadata_of(2, 1), _metadata_of(2_000, 1)
    unknown: list[Body] = [{"name": None, "topic_id": f"x{number:021}"} for number in range(100)]
    assert {each["error_code"] for each in _ask_metadata(many, unknown)["topics"]} == {E.UNKNOWN_TOPIC_ID}
    assert steps(lambda: _ask_metadata(many, unknown)) < 1.5 * steps(lambda: _ask_metadata(few, unknown))


# -- what is said to people -----------------------------------------------------------------------------------


def test_a_message_that_quotes_a_long_name_fits_into_the_answer() -> None:
    long = "é" * 32_767
    reply = {"results": [{"error_code": E.INVALID_REQUEST, "error_message": long, "resource_name": "t"}]}
    _, told = response_values(ApiKey.DESCRIBE_CONFIGS, 4, response_frame(ApiKey.DESCRIBE_CONFIGS, 4, 1, reply)[4:])
    assert told["results"][0]["error_message"] == "é" * (MESSAGE_BYTES_MAX // 2)


async def test_denials_of_one_client_fill_a_bounded_part_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "replica")
    authorizer = Authorizer(AclSettings(), logs.Log(1), lambda: None, lambda: 0)
    request: Request[Any] = Request(ApiKey.METADATA, 12, 1, "reader", {}, principal="User:eve")
    for number in range(5_000):
        assert not authorizer.allows(request, Operation.DESCRIBE, TOPIC, f"{number}" * 1_000)
    assert LINES_MAX < len(caplog.records) <= LINES_MAX + 1
    assert max(len(each.getMessage()) for each in caplog.records) < 2 * (logs.Log.value_chars_max or 0)
    other: Request[Any] = Request(ApiKey.METADATA, 12, 1, "reader", {}, principal="User:bob")
    authorizer.allows(other, Operation.DESCRIBE, TOPIC, "t")
    assert "principal=User:bob" in caplog.messages[-1]


# -- groups -----------------------------------------------------------------------------------------------------


def test_a_group_that_is_named_many_times_is_answered_once() -> None:
    async def story(broker: GroupBroker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        await broker.commit(8, 42)
        described = await broker.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[GROUP] * 1_000)
        assert [each["group_id"] for each in described["groups"]] == [GROUP]
        asked = [{"group_id": GROUP, "topics": None}] * 1_000
        first, *others = (await broker.call(ApiKey.OFFSET_FETCH, 8, groups=asked))["groups"]
        assert first["topics"][0]["partitions"][0]["committed_offset"] == 42
        assert {(each["error_code"], len(each["topics"])) for each in others} == {(E.INVALID_REQUEST, 0)}

    play(story)


def test_many_leaving_members_leave_turns_to_others() -> None:
    """40,000 members of one request once stalled all other clients for half a second."""
    turns = 0

    async def story(broker: GroupBroker, nursery: trio.Nursery) -> None:
        async def count() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        broker.lead()
        await broker.served()
        await broker.commit(8, 42)
        members = [{"member_id": f"m{number}", "group_instance_id": None, "reason": None} for number in range(4_000)]
        nursery.start_soon(count)
        reply = await broker.call(ApiKey.LEAVE_GROUP, 5, group_id=GROUP, members=members)
        assert [each["member_id"] for each in reply["members"]] == [each["member_id"] for each in members]
        assert {each["error_code"] for each in reply["members"]} == {E.UNKNOWN_MEMBER_ID}
        assert turns >= 5
        nursery.cancel_scope.cancel()

    play(story)
    assert turns


def test_commits_that_are_refused_leave_no_groups_behind() -> None:
    async def story(broker: GroupBroker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        topics: list[dict[str, Any]] = [
            {"name": "unknown", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}
        ]
        for number in range(100):
            await broker.call(ApiKey.OFFSET_COMMIT, 8, group_id=f"group-{number}", member_id="", topics=topics)
        assert list(broker.groups.coordinator.groups) == []
        await broker.commit(8, 42)
        assert [group.id for group in broker.groups.coordinator.groups] == [GROUP]

    play(story)


async def test_many_filters_read_the_acls_of_the_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = 0
    read_all = Authorizer._read_all

    async def counted(self: Authorizer, session: Any) -> None:
        nonlocal readings
        readings += 1
        await read_all(self, session)

    async with (
        cluster(tmp_path, 1, acls=AclSettings(frozenset({"User:ANONYMOUS"}))) as running,
        connect([("127.0.0.1", running.ports[1])]) as client,
    ):
        new = {"resource_type": 2, "resource_pattern_type": 3, "host": "*", "operation": 3, "permission_type": 3}
        made = [{**new, "resource_name": f"t{number}", "principal": "User:a"} for number in range(5)]
        await ask(client, ApiKey.CREATE_ACLS, {"creations": made})
        monkeypatch.setattr(Authorizer, "_read_all", counted)
        wanted = {"pattern_type_filter": 1, "resource_type_filter": 1, "operation": 1, "permission_type": 1}
        names = ["t0", "t1", "t0", *(f"nothing-{number}" for number in range(200)), None]
        filters = [
            {**wanted, "resource_name_filter": name, "principal_filter": None, "host_filter": None} for name in names
        ]
        results = (await ask(client, ApiKey.DELETE_ACLS, {"filters": filters}))["filter_results"]
        found = [sorted(acl["resource_name"] for acl in each["matching_acls"]) for each in results]
        assert found[:3] == [["t0"], ["t1"], []]
        assert found[-1] == ["t2", "t3", "t4"]
        assert readings == 1
        everything = {**filters[0], "resource_name_filter": None}
        assert (await ask(client, ApiKey.DESCRIBE_ACLS, everything))["resources"] == []
