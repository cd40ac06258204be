"""What is configured while brokers run is what they do, at once; and in the next session, too."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from kraft_controller.core.names import TopicPartition
from kraft_controller.runtime.admin import reassignment_requests as moves
from kraft_controller.runtime.admin.cluster_description import describe_cluster
from kraft_controller.runtime.admin.entity_configs import Entity, alter_config
from kraft_controller.runtime.admin.topic_requests import create_topic
from replica.runtime.broker import Broker
from tests.integration.brokers import cluster, until

HOUR_MS = 3_600_000
T0 = TopicPartition("t", 0)


def rate(broker: Broker) -> int | None:
    return broker.parts.replica_manager.core.fetchers.quota.bytes_s


def slowed(broker: Broker) -> set[TopicPartition]:
    return set(broker.parts.replica_manager.core.fetchers.quota.partitions)


def held(broker: Broker, where: TopicPartition) -> bool:
    return where in broker.parts.replica_manager.core.high_watermarks()


def test_defaults_of_brokers_reach_the_logs_of_topics_that_say_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session:
            broker = made.brokers[1]
            for name, said in (("t", {}), ("u", {"retention.ms": "5"})):
                await create_topic(session, name, {0: [broker.config.id]}, said, lambda size: bytes(range(1, size + 1)))
                await until(partial(held, broker, TopicPartition(name, 0)))
            everybody, me = Entity.of("brokers"), Entity.of("brokers", "1")
            await alter_config(session, everybody, {"log.retention.ms": str(HOUR_MS)})
            await until(lambda: broker.parts.topic_configs["t"].retention_ms == HOUR_MS)
            await alter_config(session, me, {"log.retention.ms": str(2 * HOUR_MS)})
            await until(lambda: broker.parts.topic_configs["t"].retention_ms == 2 * HOUR_MS)
            assert broker.parts.topic_configs["u"].retention_ms == 5
            assert broker.parts.log_manager.clean_pause_s == 15.0
            await alter_config(session, me, {"log.cleaner.backoff.ms": "250", "sasl.kerberos.service.name": "kafka"})
            await until(lambda: broker.parts.log_manager.clean_pause_s == 0.25)
            await session.set(me.node, b'{"version":1,"config":{"log.retention.ms":"long","log.segment.bytes":"4096"}}')
            await alter_config(session, me, {"num.replica.fetchers": "2"})
            await until(lambda: broker.parts.topic_configs["t"].segment_bytes == 4096)
            assert broker.parts.topic_configs["t"].retention_ms == HOUR_MS
            await alter_config(session, everybody, {}, ["log.retention.ms"])
            await alter_config(session, me, {}, ["log.segment.bytes", "log.retention.ms"])
            await until(lambda: broker.parts.topic_configs["t"] == broker.config.log)

    trio.run(main)
    said = [record.getMessage() for record in caplog.records if "sasl.kerberos" in record.getMessage()]
    assert len(said) == 1, said
    assert "PLAIN and SCRAM are the only supported mechanisms of SASL" in said[0]


def test_joining_replica_fetches_within_its_throttle(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 2) as made, made.store.session() as session:
            one, two = made.brokers[1].config.id, made.brokers[2].config.id
            await create_topic(session, "t", {0: [one]}, {}, lambda size: bytes(range(1, size + 1)))
            plan = {T0: (one, two)}
            await moves.throttle(session, await describe_cluster(session), plan, 1_000)
            await moves.ask_for(session, plan)
            await until(lambda: slowed(made.brokers[2]) == {T0} and rate(made.brokers[2]) == 1_000)
            assert slowed(made.brokers[1]) == set()  # who leads it fetches nothing
            while moves.moving(described := await describe_cluster(session)) or described.isr(T0) != (one, two):
                await trio.sleep(0.05)
            await moves.unthrottle(session, described, ["t"])
            await until(lambda: slowed(made.brokers[2]) == set() and rate(made.brokers[2]) is None)

    trio.run(main)
