"""`zab-broker groups`, against a broker that has a coordinator, a topic `t` of two partitions, and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define

from bench.ports import free_port
from kraft_controller.core.names import OFFSETS_TOPIC, BrokerId, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Endpoint
from replica.cli import main
from replica.core.errors import ErrorCode as E
from replica.core.groups.group_messages import (
    Commit,
    GroupIdentity,
    Join,
    Joined,
    OffsetAndMetadata,
    SupportedProtocol,
    Sync,
)
from replica.core.groups.group_settings import GroupSettings
from replica.core.replica_messages import RoleTaken
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from replica.runtime.handlers import coordinator_requests
from replica.runtime.handlers import group_requests as group_handlers
from replica.runtime.logs import Log
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.requests import ApiKey, Request
from tests.kafka_bodies import Body, typed
from tests.unit.replica.test_group_runtime import PARTITIONS, Storage

ASSIGNED = bytes.fromhex("0000 00000001 0001 74 00000001 00000000 ffffffff")
SUBSCRIBED = bytes.fromhex("0000 00000001 0001 74 ffffffff")
BOUNDS = {0: (10, 100), 1: (0, 50)}
"""Where the partitions of `t` begin and end. The record at offset n has the time 1000 * n."""


@define(eq=False)
class Running:
    groups: GroupCoordinatorRuntime
    port: int

    async def command(self, *arguments: str) -> int:
        words = ["groups", *arguments, "--bootstrap", f"127.0.0.1:{self.port}", "--within", "20"]
        return await trio.to_thread.run_sync(main, words)

    async def commit(self, group: str, *offsets: int, who: GroupIdentity | None = None) -> None:
        positions = {TopicPartition("t", index): OffsetAndMetadata(offset) for index, offset in enumerate(offsets)}
        await self.groups.ask(Commit(who or GroupIdentity(group), positions))

    async def member(self, group: str) -> GroupIdentity:
        protocols = (SupportedProtocol("range", SUBSCRIBED),)
        ask = Join(GroupIdentity(group), "consumer", protocols, 30_000, 30_000, "client", "/10.0.0.1", id_first=False)
        joined = await self.groups.ask(ask)
        assert isinstance(joined, Joined)
        who = GroupIdentity(group, joined.member, joined.generation)
        await self.groups.ask(Sync(who, {joined.member: ASSIGNED}))
        return who


@asynccontextmanager
async def broker() -> AsyncIterator[Running]:
    storage = Storage()

    async def count() -> int | None:
        return PARTITIONS

    async def make() -> None: ...

    groups = GroupCoordinatorRuntime(storage, count, Log(1), GroupSettings(group_initial_rebalance_delay_ms=0))
    port = 0

    class Picture:
        def leader(self, where: TopicPartition) -> BrokerId | None:
            return BrokerId(1)

        def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None:
            return Endpoint(listener, "127.0.0.1", port)

    async def metadata(request: Request[Any]) -> Body:
        topics = []
        for asked in request.body["topics"] or ():
            known = asked["name"] == "t"
            partitions = [{"partition_index": index, "leader_id": 1} for index in BOUNDS if known]
            error = E.NONE if known else E.UNKNOWN_TOPIC_OR_PARTITION
            topics.append({"name": asked["name"], "error_code": error, "partitions": partitions})
        return {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": port}], "topics": topics}

    async def list_offsets(request: Request[Any]) -> Body:
        return {
            "topics": [
                {"name": topic["name"], "partitions": [_offset(each) for each in topic["partitions"]]}
                for topic in request.body["topics"]
            ]
        }

    lookup = coordinator_requests.CoordinatorTopicLookup(OFFSETS_TOPIC, count, make, Log(1))
    handlers = {
        **group_handlers.handlers(groups, lambda where: where.topic == "t"),
        **coordinator_requests.handlers(Picture(), {coordinator_requests.GROUP: lookup}),
        **typed({ApiKey.METADATA: metadata, ApiKey.LIST_OFFSETS: list_offsets}),
    }
    async with trio.open_nursery() as nursery:
        listener = ClientListener("PLAINTEXT", "127.0.0.1", 0, handlers, Log(1))
        port = await listener.bind()
        nursery.start_soon(listener.run)
        await nursery.start(groups.run)
        for where in storage.logs:
            groups.role_taken(RoleTaken(where, True, LeaderEpoch(1)))
        while groups.coordinator.topic.partitions is None or groups.coordinator.topic.loading:
            await trio.sleep(0.01)
        yield Running(groups, port)
        nursery.cancel_scope.cancel()


def _offset(asked: dict[str, int]) -> dict[str, Any]:
    first, last = BOUNDS[asked["partition_index"]]
    time = asked["timestamp"]
    offset = {-2: first, -1: last}.get(time, max(time // 1000, first))
    return {"partition_index": asked["partition_index"], "offset": offset if offset <= last else -1}


async def test_groups_are_listed_and_described_with_their_lag(capsys: pytest.CaptureFixture[str]) -> None:
    async with broker() as running:
        await running.commit("simple", 40)
        who = await running.member("work")
        await running.commit("work", 70, 20, who=who)
        assert await running.command("list") == 0
        assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
            ["simple", "Empty", "1"],
            ["work", "Stable", "consumer", "1"],
        ]
        assert await running.command("list", "--state", "Empty", "--json") == 0
        assert [each["group"] for each in json.loads(capsys.readouterr().out)] == ["simple"]
        assert await running.command("describe", "work") == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert lines[0] == ["group", "topic", "partition", "committed", "end", "lag", "member", "host"]
        assert lines[1] == ["work", "t", "0", "70", "100", "30", who.member, "10.0.0.1"]
        assert lines[2] == ["work", "t", "1", "20", "50", "30", "-", "-"]
        assert await running.command("describe", "--json") == 0
        simple, work = json.loads(capsys.readouterr().out)
        assert (simple["lag"], work["lag"], work["members"][0]["assigned"]) == (60, 60, ["t-0"])
        assert await running.command("describe", "work", "--members") == 0
        assert who.member in capsys.readouterr().out
        assert await running.command("describe", "nobody") == 1
        assert "there is no group nobody" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "after"),
    [
        (["--to-earliest"], [10, 0]),
        (["--to-latest"], [100, 50]),
        (["--to-offset", "60"], [60, 50]),
        (["--to-offset", "5"], [10, 5]),
        (["--shift-by", "-25"], [45, 0]),
        (["--to-datetime", "1970-01-01T00:00:30+00:00"], [30, 30]),
        (["--to-datetime", "1970-01-01T00:01:10+00:00"], [70, 50]),
    ],
)
async def test_a_group_goes_on_from_elsewhere(
    how: list[str], after: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    async with broker() as running:
        await running.commit("g", 70, 20)
        words = ["reset-offsets", "g", "--all-topics", *how]
        assert await running.command(*words, "--json") == 0
        said = capsys.readouterr()
        assert [(each["before"], each["after"]) for each in json.loads(said.out)] == list(
            zip([70, 20], after, strict=True)
        )
        assert "nothing was changed" in said.err
        assert await running.command(*words, "--execute") == 0
        capsys.readouterr()
        assert await running.command("describe", "g", "--json") == 0
        [described] = json.loads(capsys.readouterr().out)
        assert [each["committed"] for each in described["partitions"]] == after


async def test_reset_of_some_partitions_needs_an_empty_group(capsys: pytest.CaptureFixture[str]) -> None:
    async with broker() as running:
        assert (
            await running.command("reset-offsets", "new", "--topic", "t:1", "--to-latest", "--execute", "--json") == 0
        )
        [row] = json.loads(capsys.readouterr().out)
        assert (row["partition"], row["before"], row["after"]) == (1, None, 50)
        for words, code, why in (
            (["--topic", "t:7", "--to-latest"], 2, "has no partition 7"),
            (["--topic", "t:x", "--to-latest"], 2, "partition numbers"),
            (["--topic", "u", "--to-latest"], 1, "there is no topic u"),
            (["--topic", "t:0", "--shift-by", "1"], 2, "no offset is committed for"),
        ):
            assert await running.command("reset-offsets", "new", *words) == code, words
            assert why in capsys.readouterr().err
        who = await running.member("new")
        assert await running.command("reset-offsets", "new", "--topic", "t", "--to-latest", "--execute") == 1
        assert who.member in capsys.readouterr().err


async def test_groups_and_their_offsets_are_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    async with broker() as running:
        await running.commit("g", 70, 20)
        await running.member("busy")
        assert await running.command("delete", "g", "--topic", "t:0") == 0
        assert "t-0" in capsys.readouterr().out
        assert await running.command("describe", "g", "--json") == 0
        [described] = json.loads(capsys.readouterr().out)
        assert [each["partition"] for each in described["partitions"]] == [1]
        assert await running.command("delete", "g", "busy") == 1
        said = capsys.readouterr()
        assert "deleted: group g" in said.out
        assert "NON_EMPTY_GROUP" in said.err
        assert await running.command("delete", "g") == 1
        assert capsys.readouterr().err == "there is no group g\n"


async def test_unreachable_broker_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    words = ["groups", "list", "--bootstrap", f"127.0.0.1:{port}", "--within", "0.3"]
    assert await trio.to_thread.run_sync(main, words) == 1
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}: " in said
    assert "refused" in said
