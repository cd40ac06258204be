"""WriteTxnMarkers and DescribeProducers at the leader of a partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.partition_log import ActiveProducer
from replica.runtime.handlers.marker_requests import handlers
from replica.runtime.requests import ApiKey, Request
from replica.wire.records import ControlType, read_control, read_records
from tests.kafka_bodies import on_values, response_frame, response_values
from tests.unit.replica.storage.logs import NOW

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
G0, G1 = TopicPartition(OFFSETS_TOPIC, 0), TopicPartition(OFFSETS_TOPIC, 1)


class Leader:
    """Keeps each append until the test reports its outcome."""

    def __init__(self) -> None:
        self.written: list[tuple[TopicPartition, bytes, Callable[[ErrorCode, int], None]]] = []
        self.told: list[tuple[int, int, bool, int]] = []

    def append(
        self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[ErrorCode, int], None]
    ) -> None:
        self.written.append((where, records, done))

    def active_producers(self, where: TopicPartition) -> tuple[ActiveProducer, ...]:
        if where != A0:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{where} is led by broker 2")
        return (ActiveProducer(7, 1, 12, NOW, 4, 100), ActiveProducer(9, 0, 0, NOW, -1, -1))

    def ended(self, partition: int, producer_id: int, committed: bool, offset: int) -> None:
        self.told.append((partition, producer_id, committed, offset))

    async def ask(self, api: ApiKey, body: dict[str, Any], version: int) -> dict[str, Any]:
        answer = on_values(handlers(self, lambda: NOW, self.ended))[api]
        reply = await answer(Request(api, version, 1, None, body))
        assert reply is not None
        return response_values(api, version, response_frame(api, version, 1, reply)[4:])[1]


def marker(producer: int, committed: bool, *wheres: TopicPartition, coordinator: int = 3) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for where in wheres:
        topics.setdefault(where.topic, []).append(where.partition)
    return {
        "producer_id": producer,
        "producer_epoch": 1,
        "transaction_result": committed,
        "topics": [{"name": name, "partition_indexes": numbers} for name, numbers in topics.items()],
        "coordinator_epoch": coordinator,
    }


async def test_response_waits_for_all_markers_and_has_result_of_each() -> None:
    leader = Leader()
    asked = {"markers": [marker(7, True, A0, A1, B0), marker(8, False, A0)]}
    replies = []

    async def ask() -> None:
        replies.append(await leader.ask(ApiKey.WRITE_TXN_MARKERS, asked, 1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert [where for where, _, _ in leader.written] == [A0, A1, B0, A0]
        for place, error in ((2, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.NONE), (3, ErrorCode.NONE)):
            leader.written[place][2](error, 40 + place)
        await trio.testing.wait_all_tasks_blocked()
        assert replies == []
        leader.written[1][2](ErrorCode.NONE, 41)
    assert leader.told == []
    [reply] = replies
    shown = [
        (each["producer_id"], topic["name"], part["partition_index"], part["error_code"])
        for each in reply["markers"]
        for topic in each["topics"]
        for part in topic["partitions"]
    ]
    assert shown == [(7, "a", 0, 0), (7, "a", 1, 0), (7, "b", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (8, "a", 0, 0)]
    [record] = read_records(leader.written[3][1])
    assert read_control(record) == (ControlType.ABORT, 3)


async def test_committed_marker_of_offsets_partition_is_reported() -> None:
    leader = Leader()
    asked = {"markers": [marker(7, True, A0, G0, G1), marker(8, False, G1)]}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.ask, ApiKey.WRITE_TXN_MARKERS, asked, 1)
        await trio.testing.wait_all_tasks_blocked()
        for place, error in ((0, ErrorCode.NONE), (2, ErrorCode.NONE), (1, ErrorCode.REQUEST_TIMED_OUT)):
            leader.written[place][2](error, 40 + place)
        leader.written[3][2](ErrorCode.NONE, 43)
    assert leader.told == [(1, 7, True, 42), (1, 8, False, 43)]


async def test_marker_counts_after_client_disconnects() -> None:
    leader = Leader()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader.ask, ApiKey.WRITE_TXN_MARKERS, {"markers": [marker(7, True, G0)]}, 0)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    leader.written[0][2](ErrorCode.NONE, 5)
    assert leader.told == [(0, 7, True, 5)]


async def test_request_without_markers_is_answered_at_once() -> None:
    for asked in ([], [marker(7, True)]):
        reply = await Leader().ask(ApiKey.WRITE_TXN_MARKERS, {"markers": asked}, 0)
        assert len(reply["markers"]) == len(asked)


async def test_leader_describes_producers() -> None:
    asked = {"topics": [{"name": "a", "partition_indexes": [0, 1]}]}
    reply = await Leader().ask(ApiKey.DESCRIBE_PRODUCERS, asked, 0)
    [there, elsewhere] = reply["topics"][0]["partitions"]
    assert there["error_code"] == 0
    assert there["active_producers"][0] == {
        "producer_id": 7,
        "producer_epoch": 1,
        "last_sequence": 12,
        "last_timestamp": NOW,
        "coordinator_epoch": 4,
        "current_txn_start_offset": 100,
    }
    assert [each["current_txn_start_offset"] for each in there["active_producers"]] == [100, -1]
    assert elsewhere["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert elsewhere["error_message"] == "a-1 is led by broker 2"
