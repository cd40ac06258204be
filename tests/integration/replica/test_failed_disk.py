"""A disk fails under a broker that runs: others lead what was on it, and what is on its other disks stays there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import trio
from attrs import evolve

import zab
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.meta_properties import former_sessions
from kraft_controller.wire.broker_identity import META
from replica.cli.produce_command import Producer
from replica.core.replica_settings import ReplicaSettings as ReplicationSettings
from replica.runtime.broker import Broker
from replica.runtime.configuration.broker_config import PLAINTEXT, BrokerConfig, Listener
from replica.runtime.network.broker_client import connect
from replica.storage.files import LOCK, StorageFailure
from replica.wire.compression import Codec
from tests.integration.brokers import PATIENCE_S, until

pytestmark = pytest.mark.slow

PARTITIONS = 6
LISTENER = Listener(PLAINTEXT, "127.0.0.1", 0)
BASE = BrokerConfig(
    BrokerId(0),
    (),
    partitions=PARTITIONS,
    replication_factor=2,
    listeners=(LISTENER,),
    replication=ReplicationSettings(lag_time_max_ms=5_000),
)
"""Who is on a disk that failed is waited for so long. Who only stood still for a moment must not be out of sync when
the other's disk fails: nobody could lead then."""


def fail(broker: Broker, directory: int) -> None:
    """As the next call would that does not get through."""
    files = broker.parts.log_manager._logs.directories[directory].files
    files.errors.error("write", "orders-0", errno.EIO)


def led(by: Broker, told: Broker) -> set[TopicPartition]:
    """By one broker, as another is told."""
    roles = told.parts.metadata_cache.topics["orders"].partitions.values()
    return {role.where for role in roles if role.state.leader == by.config.id}


def all_in_sync(told: Broker) -> bool:
    return all(len(role.state.isr) == 2 for role in told.parts.metadata_cache.topics["orders"].partitions.values())


async def ends(broker: Broker, *, task_status: trio.TaskStatus[None]) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(StorageFailure, match="all log directories have failed"), flatten_subgroups=True
    ):
        await broker.run(task_status=task_status)


async def test_partitions_of_a_failed_disk_fail_over_and_the_last_failure_ends_the_broker(tmp_path: Path) -> None:
    disks = tuple(tmp_path / name for name in ("x", "y", "z"))
    with trio.fail_after(PATIENCE_S):
        async with zab.open_store(tmp_path / "store") as store, trio.open_nursery() as nursery:
            one = Broker(evolve(BASE, id=BrokerId(1), log_dirs=disks), store.session)
            two = Broker(evolve(BASE, id=BrokerId(2), log_dirs=(tmp_path / "other",)), store.session)
            await nursery.start(two.run)
            async with trio.open_nursery() as ending:
                await ending.start(ends, one)
                await until(lambda: [len(each.parts.metadata_cache.brokers) for each in (one, two)] == [2, 2])
                async with connect([("127.0.0.1", two.ports[PLAINTEXT])]) as client:
                    producer = Producer(client, "orders", "all", Codec.NONE)
                    await producer.begin()
                    await until(lambda: len(led(one, two)) == PARTITIONS // 2)
                    lost = set(one.parts.log_manager.partitions_in(str(disks[0])))
                    kept = led(one, two) - lost
                    assert kept < led(one, two), "or there is nothing to be seen here"
                    await until(lambda: all_in_sync(two))
                    fail(one, 0)
                    await until(lambda: led(one, two) == kept)
                    for _ in range(PARTITIONS):  # to each in its turn
                        await producer.send([(None, b"x")])
                    assert producer.ends == dict.fromkeys(range(PARTITIONS), 1)
                fail(one, 1)
                fail(one, 2)
            await until(lambda: not led(one, two))
            nursery.cancel_scope.cancel()


async def test_a_broker_begins_with_the_disks_that_can_be_used(tmp_path: Path) -> None:
    """The first of its directories cannot be opened, neither to lock it nor to read whose it is."""
    bad, good = tmp_path / "bad", tmp_path / "good"
    for name in (LOCK, META):
        (bad / name).mkdir(parents=True)
    with trio.fail_after(PATIENCE_S):
        async with zab.open_store(tmp_path / "store") as store, trio.open_nursery() as nursery:
            config = evolve(BASE, id=BrokerId(1), log_dirs=(bad, good), replication_factor=1)
            broker = Broker(config, store.session)
            await nursery.start(broker.run)
            assert [where for where, why in broker.parts.log_manager.paths.items() if why is not None] == [str(bad)]
            assert former_sessions(good)
            async with connect([("127.0.0.1", broker.ports[PLAINTEXT])]) as client:
                producer = Producer(client, "orders", "all", Codec.NONE)
                await producer.begin()
                for _ in range(PARTITIONS):
                    await producer.send([(None, b"x")])
                assert producer.ends == dict.fromkeys(range(PARTITIONS), 1)
            assert len(broker.parts.log_manager.partitions_in(str(good))) == PARTITIONS
            nursery.cancel_scope.cancel()
