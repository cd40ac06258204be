"""Elections and reassignments that a client asks the controller for."""

from __future__ import annotations

from pathlib import Path

import trio

from kraft_controller.runtime.admin.topic_requests import create_topic
from replica.core.errors import ErrorCode
from replica.runtime.network.broker_client import connect
from replica.wire.api import ApiKey
from tests.integration.brokers import cluster, until
from tests.kafka_bodies import ask


def test_a_timeout_of_zero_does_not_time_out_the_controllers_answer(tmp_path: Path) -> None:
    """kafka-go sends zero unless its caller sets a timeout. Kafka's brokers answer, since nothing needs electing."""

    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session:
            broker = made.brokers[1]
            await create_topic(session, "t", {0: [broker.config.id]}, {}, lambda size: bytes(range(1, size + 1)))
            await until(
                lambda: "t" in broker.parts.metadata_cache.topics and broker.parts.membership.acting_controller() == 1
            )
            async with connect([("127.0.0.1", made.ports[1])]) as client:
                partitions = [{"topic": "t", "partitions": [0]}]
                asked = {"election_type": 0, "topic_partitions": partitions, "timeout_ms": 0}
                elected = await ask(client, ApiKey.ELECT_LEADERS, asked)
                moves = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
                moved = await ask(client, ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"topics": moves, "timeout_ms": 0})
            [result] = elected["replica_election_results"]
            [partition] = result["partition_result"]
            assert (elected["error_code"], partition["error_code"]) == (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
            assert (moved["error_code"], len(moved["responses"])) == (ErrorCode.NONE, 1)

    trio.run(main)
