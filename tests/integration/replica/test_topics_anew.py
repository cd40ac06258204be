"""Topics that go and come again under the same name, and what is left of them where."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
import trio
from attrs import evolve

import zab
from kraft_controller.core.commands import UpdateMetadata
from kraft_controller.core.names import OFFSETS_TOPIC, ControllerEpoch, TopicId, TopicPartition
from kraft_controller.runtime.admin.entity_configs import Entity, alter_config
from kraft_controller.runtime.admin.topic_requests import create_topic, delete_topic
from kraft_controller.runtime.controller import Pace
from kraft_controller.wire import znodes
from replica.core.metadata_cache import MetadataCache
from replica.runtime.admin.overview import partitions_of, worries
from replica.runtime.broker import Broker
from replica.runtime.configuration.broker_config import OffsetsTopicSettings
from replica.runtime.store import topic_manager
from replica.runtime.store.topic_manager import Defaults, TopicManager
from replica.storage.checkpoint_files import METADATA
from replica.wire import records
from tests.integration.brokers import cluster, in_thread, until

T0 = TopicPartition("t", 0)
librdkafka: Any = confluent_kafka.admin


def ident(size: int) -> bytes:
    return bytes(range(1, size + 1))


def other_ident(size: int) -> bytes:
    return bytes(range(101, size + 101))


def held(broker: Broker, where: TopicPartition) -> Any:
    found = broker.parts.replica_manager.log_and_high_watermark(where)
    return None if found is None else found[0]


async def made_anew(session: Any, broker: Broker, name: str, partitions: int) -> None:
    await delete_topic(session, name)
    while await session.exists(f"{znodes.DELETE_TOPICS}/{name}") is not None:
        await trio.sleep(0.01)
    await create_topic(session, name, {n: [broker.config.id] for n in range(partitions)}, {}, other_ident)


async def test_deletion_is_answered_when_the_name_can_be_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller deletes the topic's node, its configuration, and then the request for the deletion."""
    monkeypatch.setattr(topic_manager, "DELETION_WAIT_S", 240)
    answered = trio.Event()

    async def delete(topics: TopicManager) -> None:
        await topics.until_deleted(["t"], 240_000)
        answered.set()

    async with zab.open_store(tmp_path) as store, store.session() as session, trio.open_nursery() as nursery:
        await session.ensure_path(f"{znodes.DELETE_TOPICS}/t")
        nursery.start_soon(delete, TopicManager(lambda: session, MetadataCache(), Defaults(), bytes))
        with trio.move_on_after(0.1):
            await answered.wait()
        assert not answered.is_set()
        await session.delete(f"{znodes.DELETE_TOPICS}/t")
        with trio.fail_after(120):
            await answered.wait()


def test_groups_are_looked_for_in_as_many_partitions_as_the_new_offsets_topic_has(tmp_path: Path) -> None:
    async def main() -> None:
        offsets = OffsetsTopicSettings(partitions=4, factor=1)
        async with cluster(tmp_path, 1, offsets=offsets) as made, made.store.session() as session:
            broker = made.brokers[1]
            await broker.parts.internal_topics.create(OFFSETS_TOPIC)
            await until(lambda: broker.parts.group_coordinator.coordinator.topic.partitions == 4)
            assert await broker.parts.internal_topics.offsets.count() == 4
            await made_anew(session, broker, OFFSETS_TOPIC, 2)
            await until(lambda: broker.parts.group_coordinator.coordinator.topic.partitions == 2)
            assert await broker.parts.internal_topics.offsets.count() == 2

    trio.run(main)


def test_positions_are_those_of_one_topic_also_when_one_word_says_that_there_is_another(tmp_path: Path) -> None:
    """As after a controller's end: the next one says all there is, and has never heard of the topic that was."""

    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session:
            broker = made.brokers[1]
            await create_topic(session, "t", {0: [broker.config.id]}, {"retention.ms": "5"}, ident)
            await until(lambda: held(broker, T0) is not None)
            await until(lambda: broker.parts.topic_configs["t"].retention_ms == 5 and T0 in broker.parts.metadata_cache)
            gone: list[str] = []
            broker.parts.group_coordinator.topics_deleted = gone.extend  # type: ignore[method-assign,assignment]
            role = broker.parts.metadata_cache.role(T0)
            assert role is not None
            anew = evolve(role, topic_id=TopicId("n" * 22))
            brokers = tuple(broker.parts.metadata_cache.brokers.values())
            told = UpdateMetadata(
                broker.config.id, ControllerEpoch(1), broker.parts.membership.epoch, (anew,), brokers, full=True
            )
            broker.parts.control_plane.apply(told)
            assert gone == ["t"]
            broker.parts.control_plane.apply(told)
            assert gone == ["t"]
            await until(lambda: broker.parts.topic_configs["t"].retention_ms == 5)  # it was read again

    trio.run(main)


def test_the_folder_of_a_topic_that_is_gone_is_set_aside_for_a_new_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session:
            broker = made.brokers[1]
            await create_topic(session, "t", {0: [broker.config.id]}, {}, ident)
            await until(lambda: held(broker, T0) is not None)
            log = held(broker, T0)
            batch = records.batch_of([(b"k", b"of the old one")], 1)
            await until(lambda: broker.parts.metadata_cache.leader(T0) is not None)
            broker.parts.replica_manager.append(T0, batch, 1_000, lambda error, offset: None)
            await until(lambda: log.end_offset == 1)
            await made.stop(1)
            for path in (
                znodes.state_path(T0),
                znodes.partition_path(T0),
                znodes.partitions_path("t"),
                znodes.topic_path("t"),
            ):
                await session.delete(path)  # by hand, while nobody is there to hear of it
            broker = await made.start(1)
            await create_topic(session, "t", {0: [broker.config.id]}, {}, other_ident)
            await until(lambda: held(broker, T0) is not None and broker.parts.metadata_cache.leader(T0) is not None)
            assert held(broker, T0).end_offset == 0
            folders = {path.name for path in (tmp_path / "broker1").iterdir() if path.name.startswith("t-0")}
            [aside] = folders - {"t-0"}
            assert aside.endswith("-stray")

    trio.run(main)


def test_log_of_another_topic_id_stays_and_blocks_leadership(tmp_path: Path) -> None:
    """One letter of its partition.metadata has rotted while every replica that was in sync was down."""
    file = tmp_path / "broker1" / "t-0" / METADATA

    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session:
            broker = made.brokers[1]
            await create_topic(session, "t", {0: [broker.config.id]}, {}, ident)
            await until(lambda: held(broker, T0) is not None)
            log = held(broker, T0)
            await until(lambda: broker.parts.metadata_cache.leader(T0) is not None)
            broker.parts.replica_manager.append(
                T0, records.batch_of([(b"k", b"v")], 1), 1_000, lambda error, offset: None
            )
            await until(lambda: log.end_offset == 1)
            await made.stop(1)
            right = file.read_bytes()
            file.write_bytes(right.replace(b"topic_id: A", b"topic_id: B"))
            broker = await made.start(1)
            await until(lambda: T0 in broker.parts.log_manager.mismatched_logs)
            assert held(broker, T0) is None
            [said] = [each for each in worries(broker, partitions_of(broker)) if "no replica" in each]
            written = right.decode().partition("topic_id: ")[2]
            assert str(file.parent) in said
            assert f"topic_id: {written} into" in said
            assert f"has topic id B{written[1:]} in its" in said
            await made.stop(1)
            file.write_bytes(right)
            broker = await made.start(1)
            await until(lambda: held(broker, T0) is not None)
            assert held(broker, T0).end_offset == 1
            assert not broker.parts.log_manager.mismatched_logs

    trio.run(main)


def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(tmp_path: Path) -> None:
    def work(hosts: str) -> None:
        admin = librdkafka.AdminClient({"bootstrap.servers": hosts})
        for name, policy in (("compacted", "compact"), ("both", "compact,delete")):
            [made] = admin.create_topics([librdkafka.NewTopic(name, 1, 1, config={"cleanup.policy": policy})]).values()
            made.result(120)
        [kept, deleted] = admin.delete_records(
            [confluent_kafka.TopicPartition(name, 0, -1) for name in ("compacted", "both")]
        ).values()
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            kept.result(120)
        assert refused.value.args[0].code() == confluent_kafka.KafkaError.POLICY_VIOLATION
        assert deleted.result(120).low_watermark == 0

    async def main() -> None:
        async with cluster(tmp_path, 1) as made:
            await in_thread(work, made.hosts)

    trio.run(main)


def test_old_config_notifications_are_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        pace = Pace(sweep_s=0.01, notes_s=-1e10)
        async with cluster(tmp_path, 1, pace=pace) as made, made.store.session() as session:
            heard = made.brokers[1].parts.topic_configs
            for number in count(7):
                await alter_config(session, Entity.of("brokers"), {"log.retention.ms": f"{number}"})
                while await session.children(znodes.CONFIG_CHANGES):
                    await trio.sleep(0.01)
                with trio.move_on_after(1):  # this note may have gone before the broker looked: they live for so short
                    while heard.defaults.retention_ms != number:
                        await trio.sleep(0.01)
                    return

    trio.run(main)
