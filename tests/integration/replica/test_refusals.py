"""Requests that clients are refused, each with the error's word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft_controller.runtime.admin.topic_requests import create_topic
from replica.core.errors import ErrorCode
from replica.runtime.admin.broker_metrics import samples
from replica.runtime.network.broker_client import connect
from replica.wire.api import ApiKey
from tests.integration.brokers import cluster, until
from tests.kafka_bodies import ask, request_frame
from zab.host.logs import LINES_MAX


def test_a_reassignment_of_an_unknown_partition_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session:
            await create_topic(
                session, "t", {0: [made.brokers[1].config.id]}, {}, lambda size: bytes(range(1, size + 1))
            )
            await until(lambda: "t" in made.brokers[1].parts.metadata_cache.topics)
            await until(lambda: made.brokers[1].parts.membership.acting_controller() == 1)
            asked = {
                "topics": [
                    {"name": "no-such-topic", "partitions": [{"partition_index": 0, "replicas": [1]}]},
                    {
                        "name": "t",
                        "partitions": [
                            {"partition_index": 7, "replicas": [1]},
                            {"partition_index": 0, "replicas": [9]},
                        ],
                    },
                ],
                "timeout_ms": 60_000,
            }
            async with connect([("127.0.0.1", made.ports[1])]) as client:
                reply = await ask(client, ApiKey.ALTER_PARTITION_REASSIGNMENTS, asked)
            told = [(one["name"], [part["error_code"] for part in one["partitions"]]) for one in reply["responses"]]
            assert told == [
                ("no-such-topic", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
                ("t", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT]),
            ]

    trio.run(main)


def test_a_produce_of_an_unknown_version_ends_its_connection_is_logged_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With acks=0 the client waits for no answer: nothing else tells that its records are lost."""

    async def main() -> None:
        async with cluster(tmp_path, 1) as made:
            body: dict[str, Any] = {"transactional_id": None, "acks": 0, "timeout_ms": 1_000, "topic_data": []}
            request = bytearray(request_frame(ApiKey.PRODUCE, 11, 1, "old-faithful", body))
            request[6:8] = (12).to_bytes(2, "big")
            for _ in range(3):
                stream = await trio.open_tcp_stream("127.0.0.1", made.ports[1])
                async with stream:
                    await stream.send_all(request)
                    assert await stream.receive_some() == b""
            values = {sample.name: sample.value for sample in samples(made.brokers[1])}
            assert values["kafka_server_unsupported_version_count"] == 3

    trio.run(main)
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("client_protocol_error")]
    assert len(said) == 1, "a line for each request"
    assert "client=old-faithful" in said[0]
    assert "PRODUCE v12: versions 3 to 11 are supported" in said[0]


def test_each_client_and_version_that_is_refused_has_a_line_of_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients behind one address lose their records each for itself, and invented names fill no log."""

    async def main() -> None:
        async with cluster(tmp_path, 1) as made:
            body: dict[str, Any] = {"transactional_id": None, "acks": 0, "timeout_ms": 1_000, "topic_data": []}

            async def refused(client: str, api: ApiKey, version: int) -> None:
                request = bytearray(request_frame(ApiKey.PRODUCE, 11, 1, client, body))
                request[4:8] = api.to_bytes(2, "big") + version.to_bytes(2, "big")
                async with await trio.open_tcp_stream("127.0.0.1", made.ports[1]) as stream:
                    await stream.send_all(request)
                    assert await stream.receive_some() == b""

            for _ in range(2):
                await refused("a", ApiKey.PRODUCE, 12)
                await refused("b", ApiKey.PRODUCE, 13)
                await refused("c", ApiKey.PRODUCE, 2)
                await refused("d", ApiKey.FETCH, 99)
                await refused("d", ApiKey.FETCH, 98)
            for number in range(LINES_MAX + 20):
                await refused(f"invented-{number}", ApiKey.PRODUCE, 12)

    trio.run(main)
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("client_protocol_error")]
    named = [re.findall(r"client=(\w+) why='(\w+ v\d+):", line) for line in said[:5]]
    assert named == [
        [("a", "PRODUCE v12")],
        [("b", "PRODUCE v13")],
        [("c", "PRODUCE v2")],
        [("d", "FETCH v99")],
        [("d", "FETCH v98")],
    ]
    assert len(said) == LINES_MAX + 1
    assert "cause=127.0.0.1" in said[-1]


def test_refused_fetches_are_counted_and_fill_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A leader that changes refuses the fetches of many partitions at once, and that is normal."""
    caplog.set_level("INFO", "replica")

    async def main() -> None:
        async with cluster(tmp_path, 1) as made:
            replication = made.brokers[1].parts.replica_manager
            for number in range(1_000):
                replication.core._outbox.note(
                    "fetch_refused",
                    key=(2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
                    partition=f"t-{number}",
                    leader=2,
                    error="NOT_LEADER_OR_FOLLOWER",
                )
            replication._turn()
            values = {sample.name: sample.value for sample in samples(made.brokers[1])}
            assert values["kafka_server_refused_fetches_count"] == 1_000

    trio.run(main)
    assert sum("fetch_refused" in record.getMessage() for record in caplog.records) == 1
