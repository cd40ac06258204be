"""A reader comes upon a segment that is not what it was: its broker gives the log up, and another one leads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import trio

from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.admin.topic_requests import create_topic
from replica.cli.produce_command import Producer
from replica.core.errors import ErrorCode
from replica.core.partitions.log_config import LogConfig
from replica.runtime.admin.overview import partitions_of, worries
from replica.runtime.broker import Broker
from replica.runtime.network.broker_client import connect
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings
from replica.runtime.requests import ApiKey
from replica.wire.compression import Codec
from tests.integration.brokers import cluster, until
from tests.kafka_bodies import ask

WHERE = TopicPartition("orders", 0)


async def error_of_fetch(port: int, offset: int) -> ErrorCode:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    body: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": WHERE.topic, "partitions": [part]}]}
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        connection = BrokerConnection(stream, ClientSettings())
        reply = await ask(connection, ApiKey.FETCH, body)
    return ErrorCode(reply["responses"][0]["partitions"][0]["error_code"])


def leader(as_told: Broker) -> int | None:
    topic = as_told.parts.metadata_cache.topics.get(WHERE.topic)
    return None if topic is None else topic.partitions[0].state.leader


async def test_it_is_led_by_another_and_stays_so(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2, log=LogConfig.of({"segment.bytes": "300"})) as made:
        one, two = (made.brokers[number] for number in (1, 2))
        async with made.store.session() as session:
            await create_topic(session, WHERE.topic, {0: [BrokerId(1), BrokerId(2)]}, {}, os.urandom)
        await until(lambda: leader(one) == leader(two) == 1)
        async with connect([("127.0.0.1", made.ports[1])]) as client:
            producer = Producer(client, WHERE.topic, "all", Codec.NONE)
            await producer.begin()
            for n in range(6):
                await producer.send([(None, b"%d" % n * 100)])
        second = sorted((tmp_path / "broker1" / "orders-0").glob("*.log"))[1]
        os.truncate(second, 50)
        assert await error_of_fetch(made.ports[1], int(second.stem)) is ErrorCode.KAFKA_STORAGE_ERROR
        await until(lambda: leader(two) == 2)
        assert await error_of_fetch(made.ports[2], int(second.stem)) is ErrorCode.NONE
        assert [text for text in worries(one, partitions_of(one)) if text.startswith("the log of orders-0 is damaged")]
        await trio.sleep(1)  # time for it to be told again, and to take it up again, as it must not
        assert leader(two) == 2
        assert one.parts.replica_manager.log_and_high_watermark(WHERE) is None
