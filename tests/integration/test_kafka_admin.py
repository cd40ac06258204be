"""Clients of Kafka that we did not write look at a cluster, and make, change and delete topics."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import pytest
import trio
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import NewPartitions, NewTopic

from kraft_controller.runtime.admin.entity_configs import Entity, alter_config
from tests.integration.brokers import cluster, in_thread, until

pytestmark = pytest.mark.slow
librdkafka: Any = confluent_kafka.admin


def listed(admin: KafkaAdminClient, *names: str) -> None:
    """Each question goes to some broker, and not all of them may have heard of a change already."""
    while set(admin.list_topics()) != set(names):
        time.sleep(0.01)


def described(admin: KafkaAdminClient, name: str, count: int) -> Any:
    """Its partitions, when there are so many and each is led."""
    while True:
        [topic] = admin.describe_topics([name])
        partitions = topic["partitions"]
        if len(partitions) == count and all(each["leader_id"] >= 0 for each in partitions):
            return partitions
        time.sleep(0.01)


def test_kafka_python_makes_grows_and_deletes_topics(tmp_path: Path) -> None:
    def work(hosts: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=hosts)
        try:
            assert {each["broker_id"] for each in admin.describe_cluster()["brokers"]} == {1, 2, 3}
            admin.create_topics([NewTopic("t", 4, 3), NewTopic("one", 1, 2)])
            listed(admin, "t", "one")
            [partition] = described(admin, "one", 1)
            assert len(set(partition["replica_nodes"])) == 2
            assert partition["leader_id"] == partition["replica_nodes"][0]
            with pytest.raises(kafka_errors.TopicAlreadyExistsError):
                admin.create_topics([NewTopic("t", 1, 1)])
            with pytest.raises(kafka_errors.InvalidTopicError):
                admin.create_topics([NewTopic("no/name", 1, 1)])
            with pytest.raises(kafka_errors.InvalidReplicationFactorError):
                admin.create_topics([NewTopic("too-many", 1, 4)])
            with pytest.raises(kafka_errors.InvalidConfigurationError):
                admin.create_topics([NewTopic("odd", 1, 1, topic_configs={"retention.ms": "soon"})])
            admin.create_partitions({"t": NewPartitions(6)})
            described(admin, "t", 6)
            admin.delete_topics(["t", "one"])
            listed(admin)
            admin.create_topics([NewTopic("t", 1, 3)])  # at once
        finally:
            admin.close()

    async def main() -> None:
        async with cluster(tmp_path, 3) as running:
            await in_thread(work, running.hosts)

    trio.run(main)


def test_librdkafka_configures_topics(tmp_path: Path) -> None:
    def resource(name: str, **values: str) -> Any:
        kind = librdkafka.ResourceType.TOPIC
        return librdkafka.ConfigResource(kind, name, set_config=values or None)

    def done(futures: dict[Any, Any]) -> Any:
        [future] = futures.values()
        return future.result(120)

    def work(hosts: str) -> None:
        admin = librdkafka.AdminClient({"bootstrap.servers": hosts})
        config = {"retention.ms": "1000", "cleanup.policy": "compact"}
        done(admin.create_topics([librdkafka.NewTopic("t", 2, 1, config=config)]))
        found = done(admin.describe_configs([resource("t")]))
        assert found["retention.ms"].value == "1000"
        assert found["retention.ms"].source == 1
        assert found["segment.bytes"].is_default
        with pytest.warns(DeprecationWarning, match="alter_configs"):  # it is, in the protocol as in this client
            done(admin.alter_configs([resource("t", **{"retention.ms": "2000"})]))
        found = done(admin.describe_configs([resource("t")]))
        assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("2000", "delete")
        change = resource("t")
        change.add_incremental_config(
            librdkafka.ConfigEntry(
                "cleanup.policy", "compact", incremental_operation=librdkafka.AlterConfigOpType.APPEND
            )
        )
        done(admin.incremental_alter_configs([change]))
        found = done(admin.describe_configs([resource("t")]))
        assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("2000", "delete,compact")
        with pytest.raises(confluent_kafka.KafkaException, match=r"there is no topic nobody"):
            done(admin.describe_configs([resource("nobody")]))
        with (
            pytest.raises(confluent_kafka.KafkaException, match=r"retention\.ms=x"),
            pytest.warns(DeprecationWarning, match="alter_configs"),
        ):
            done(admin.alter_configs([resource("t", **{"retention.ms": "x"})]))

    async def main() -> None:
        async with cluster(tmp_path, 1) as running:
            await in_thread(work, running.hosts)
            broker = running.brokers[1]
            await until(lambda: broker.parts.topic_configs["t"].retention_ms == 2000)

    trio.run(main)


def test_topics_are_made_when_somebody_asks_for_them_if_they_may_be(tmp_path: Path) -> None:
    def asked(hosts: str, topic: str) -> Any:
        admin = librdkafka.AdminClient({"bootstrap.servers": hosts, "allow.auto.create.topics": True})
        return admin.list_topics(topic, timeout=120).topics[topic]

    async def main() -> None:
        async with cluster(tmp_path, 1, auto_create=True, partitions=3) as running:
            while (found := await in_thread(asked, running.hosts, "made")).error is not None:
                assert found.error.code() == confluent_kafka.KafkaError.LEADER_NOT_AVAILABLE
            assert len(found.partitions) == 3
        async with cluster(tmp_path / "other", 1, auto_create=False) as running:
            found = await in_thread(asked, running.hosts, "not-made")
            assert found.error.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART

    trio.run(main)


def test_aiokafka_sees_leaders_move_when_a_broker_ends_and_comes_back(tmp_path: Path) -> None:
    async def made(hosts: str) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=hosts)
        await admin.start()
        await admin.create_topics([AioNewTopic("t", 6, 3)])
        await admin.close()

    async def leaders(hosts: str) -> set[int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=hosts)
        try:
            await admin.start()
            [topic] = await admin.describe_topics(["t"])
        except aiokafka.errors.KafkaError:
            return set()  # it was told of a broker that had just gone
        finally:
            await admin.close()
        return {each["leader"] for each in topic["partitions"]}

    async def main() -> None:
        async with cluster(tmp_path, 3) as running:
            await in_thread(asyncio.run, made(running.hosts))
            while await in_thread(asyncio.run, leaders(running.hosts)) != {1, 2, 3}:
                await trio.sleep(0.05)  # whoever is asked may not have heard of the topic already
            controller = next(
                number for number in running.brokers if running.brokers[number].parts.membership.is_controller
            )
            await running.stop(controller)
            others = set(running.brokers)
            while await in_thread(asyncio.run, leaders(running.hosts)) != others:
                await trio.sleep(0.05)
            await running.start(controller)
            await running.all_know_all()

    trio.run(main)


def test_librdkafka_configures_running_brokers_and_reads_config_sources(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def resource(kind: str, name: str, **values: tuple[str, str | None]) -> Any:
        made = librdkafka.ConfigResource(librdkafka.ResourceType[kind], name)
        for key, (operation, value) in values.items():
            entry = librdkafka.ConfigEntry(
                key.replace("_", "."), value, incremental_operation=librdkafka.AlterConfigOpType[operation]
            )
            made.add_incremental_config(entry)
        return made

    def done(futures: dict[Any, Any]) -> Any:
        [future] = futures.values()
        return future.result(120)

    def work(hosts: str) -> None:
        admin = librdkafka.AdminClient({"bootstrap.servers": hosts})
        done(admin.create_topics([librdkafka.NewTopic("t", 1, 1)]))

        def alter(kind: str, name: str, **values: tuple[str, str | None]) -> None:
            done(admin.incremental_alter_configs([resource(kind, name, **values)]))

        def described(kind: str, name: str) -> Any:
            return done(admin.describe_configs([resource(kind, name)]))

        alter("BROKER", "1", log_retention_ms=("SET", "2000"), log_cleaner_enable=("SET", "false"))
        found = described("TOPIC", "t")["retention.ms"]
        assert (found.value, found.source) == ("2000", 2)
        alter("TOPIC", "t", retention_ms=("SET", "1000"), cleanup_policy=("APPEND", "compact"))
        topic = described("TOPIC", "t")
        assert topic["cleanup.policy"].value == "delete,compact"
        assert topic["retention.ms"].value == "1000"
        broker = described("BROKER", "1")
        assert (broker["log.retention.ms"].value, broker["log.retention.ms"].source) == ("2000", 2)
        assert (broker["max.connections.per.ip"].value, broker["max.connections.per.ip"].source) == ("77", 3)
        assert not broker["log.retention.ms"].is_read_only
        alter("BROKER", "1", cleanup_policy=("SET", "compact"))
        custom = described("BROKER", "1")["cleanup.policy"]
        assert (custom.value, custom.source, custom.is_read_only, custom.is_sensitive) == (None, 2, True, True)
        alter("BROKER", "1", cleanup_policy=("DELETE", None))
        assert "cleanup.policy" not in described("BROKER", "1")
        for kind, name, values, code, why in (
            (
                "BROKER",
                "1",
                {"broker_id": ("SET", "7")},
                "INVALID_REQUEST",
                "configs dynamically: broker.id. Set them in",
            ),
            ("BROKER", "1", {"num_cats": ("APPEND", "1")}, "INVALID_REQUEST", "num.cats is not a list"),
            ("BROKER", "1", {"message_max_bytes": ("SET", "many")}, "INVALID_REQUEST", "many: expected a whole number"),
            (
                "TOPIC",
                "t",
                {"segment_bytes": ("SET", "13")},
                "INVALID_CONFIG",
                "13: expected a whole number, 14 or more",
            ),
        ):
            with pytest.raises(confluent_kafka.KafkaException, match=re.escape(why)) as refused:
                alter(kind, name, **values)
            assert refused.value.args[0].name() == code

    async def main() -> None:
        async with cluster(tmp_path, 1) as running, running.store.session() as session:
            await alter_config(
                session, Entity.of("brokers"), {"log.retention.ms": "3000", "max.connections.per.ip": "77"}
            )
            await in_thread(work, running.hosts)
            broker = running.brokers[1]
            await until(lambda: broker.parts.topic_configs["t"].retention_ms == 1000)
            await until(lambda: broker.parts.topic_configs["other"].retention_ms == 2000)
            await until(lambda: not broker.parts.log_manager.cleans)
            await until(lambda: broker.listeners[0].settings.connections_per_host_max == 77)

    trio.run(main)
    [line] = [record.getMessage() for record in caplog.records if record.getMessage().startswith("without_effect")]
    assert "broker_config=cleanup.policy why='brokers have no such key; did you mean log.cleanup.policy?'" in line
