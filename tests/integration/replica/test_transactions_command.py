"""`zab-broker transactions`, against a broker with a coordinator, a topic `t` of two partitions, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field

from replica.cli import main
from replica.core.errors import ErrorCode as E
from replica.runtime.logs import Log
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.requests import ApiKey, Request
from tests.kafka_bodies import Body, typed
from tests.unit.replica.test_transaction_runtime import ID, Broker, Partitions, Storage


@define(eq=False)
class Running:
    """left   what is open in partitions, as their leader has it: partition, producer, from where, and written when"""

    broker: Broker
    left: list[tuple[int, int, int, int]] = field(factory=list)
    ended: list[Body] = field(factory=list)
    port: int = 0
    states: tuple[int, ...] = (1, 1)
    """Who leads the partitions of __transaction_state."""
    ends_by_itself: list[tuple[int, int, int, int]] = field(factory=list)
    """Of `left`, once somebody was told of it."""

    async def command(self, *arguments: str, within_s: int = 20) -> int:
        words = ["transactions", *arguments, "--bootstrap", f"127.0.0.1:{self.port}", "--within", str(within_s)]
        return await trio.to_thread.run_sync(main, words)

    async def metadata(self, request: Request[Any]) -> Body:
        topics = []
        asked = request.body["topics"]
        for name in ["t"] if asked is None else [each["name"] for each in asked]:
            if name == "__transaction_state":
                states = [{"partition_index": index, "leader_id": leader} for index, leader in enumerate(self.states)]
                topics.append({"name": name, "error_code": E.NONE, "partitions": states})
                continue
            partitions = [{"partition_index": index, "leader_id": 1} for index in (0, 1) if name == "t"]
            error = E.NONE if name == "t" else E.UNKNOWN_TOPIC_OR_PARTITION
            topics.append({"name": name, "error_code": error, "partitions": partitions})
        return {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port}], "topics": topics}

    async def describe_producers(self, request: Request[Any]) -> Body:
        [topic] = request.body["topics"]
        [number] = topic["partition_indexes"]
        left, self.left = self.left, [each for each in self.left if each not in self.ends_by_itself]
        found = [
            {
                "producer_id": producer,
                "producer_epoch": 3,
                "last_timestamp": last,
                "coordinator_epoch": -1,
                "current_txn_start_offset": start,
            }
            for partition, producer, start, last in left
            if partition == number
        ]
        return {"topics": [{"name": "t", "partitions": [{"partition_index": number, "active_producers": found}]}]}

    async def write_markers(self, request: Request[Any]) -> Body:
        [marker] = request.body["markers"]
        self.ended.append(marker)
        [topic] = marker["topics"]
        [number] = topic["partition_indexes"]
        self.left = [each for each in self.left if each[:2] != (number, marker["producer_id"])]
        parts = [{"partition_index": number, "error_code": 0}]
        told = {"producer_id": marker["producer_id"], "topics": [{"name": "t", "partitions": parts}]}
        return {"markers": [told]}


@asynccontextmanager
async def broker() -> AsyncIterator[Running]:
    running = Running(Broker(Storage(), Partitions()))
    handlers: Any = {
        **running.broker.handlers,
        **typed(
            {
                ApiKey.METADATA: running.metadata,
                ApiKey.DESCRIBE_PRODUCERS: running.describe_producers,
                ApiKey.WRITE_TXN_MARKERS: running.write_markers,
            }
        ),
    }
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            listener = ClientListener("PLAINTEXT", "127.0.0.1", 0, handlers, Log(1))
            running.port = await listener.bind()
            nursery.start_soon(listener.run)
            await nursery.start(running.broker.transactions.run)
            await running.broker.lead()
            yield running
            nursery.cancel_scope.cancel()


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


async def test_they_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    async with broker() as running:
        who = await running.broker.producer()
        await running.broker.add(3, who, t=[0, 1])
        await running.broker.init(transactional_id="idle")
        assert await running.command("list") == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert lines == [
            ["id", "state", "producer", "coordinator"],
            ["idle", "Empty", "101", "1"],
            [ID, "Ongoing", "100", "1"],
        ]
        assert await running.command("list", "--state", "Ongoing", "--json") == 0
        assert [each["id"] for each in rows(capsys)] == [ID]
        assert await running.command("list", "--open-for", "1000", "--json") == 0
        assert rows(capsys) == []
        assert await running.command("list", "--open-for", "0", "--state", "Empty", "--json") == 0
        assert rows(capsys) == []
        assert await running.command("describe", "--json") == 0
        idle, payments = rows(capsys)
        assert (idle["open_s"], idle["partitions"]) == (None, [])
        assert payments.pop("open_s") >= 0
        assert payments == {
            "id": ID,
            "state": "Ongoing",
            "producer": 100,
            "epoch": 0,
            "timeout_s": 60.0,
            "coordinator": 1,
            "partitions": ["t-0", "t-1"],
        }
        assert await running.command("describe", "nobody") == 1
        assert "there is no transactional id nobody" in capsys.readouterr().err


async def test_aborted_producer_is_fenced_and_keeps_its_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    async with broker() as running:
        who = await running.broker.producer()
        await running.broker.add(3, who, t=[0])
        assert await running.command("abort", ID, "nobody") == 1
        told = capsys.readouterr()
        assert ID in told.out
        assert "there is no transactional id nobody" in told.err
        assert [marker.commit for marker in running.broker.markers.sent] == [False]
        assert await running.broker.end(3, who) == E.PRODUCER_FENCED
        found = await running.broker.described()
        assert (found["transaction_state"], found["transaction_timeout_ms"]) == ("Empty", 60_000)


async def test_hanging_transactions_are_open_in_a_partition_and_unknown_to_coordinators(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with broker() as running:
        who = await running.broker.producer()
        await running.broker.add(3, who, t=[0])
        now = int(time.time() * 1000)
        running.left = [(0, 100, 5, 1_000), (1, 100, 7, 1_000), (1, 55, 9, 1_000), (1, 56, 11, now + 60_000)]
        assert await running.command("hanging", "--json") == 1
        told = capsys.readouterr()
        assert [(each["partition"], each["producer"], each["start"]) for each in json.loads(told.out)] == [
            (1, 100, 7),
            (1, 55, 9),
        ]
        assert "--abort" in told.err
        assert running.ended == []
        assert await running.command("hanging", "--topic", "t:0") == 0
        assert await running.command("hanging", "--abort") == 0
        assert [
            (each["producer_id"], each["producer_epoch"], each["transaction_result"]) for each in running.ended
        ] == [
            (100, 3, False),
            (55, 3, False),
        ]
        assert await running.command("hanging") == 0
        assert await running.command("hanging", "--topic", "unknown") == 1


async def test_transaction_that_ends_during_the_search_is_not_hanging() -> None:
    async with broker() as running:
        running.left = [(0, 55, 9, 1_000)]
        running.ends_by_itself = list(running.left)
        assert await running.command("hanging", "--abort") == 0
        assert running.ended == []


async def test_none_hangs_if_a_coordinator_partition_has_no_leader(capsys: pytest.CaptureFixture[str]) -> None:
    async with broker() as running:
        running.left = [(0, 55, 9, 1_000)]
        running.states = (1, -1)
        assert await running.command("hanging", "--abort", within_s=1) == 1
        assert "__transaction_state-1 has no leader" in capsys.readouterr().err
        assert running.ended == []
