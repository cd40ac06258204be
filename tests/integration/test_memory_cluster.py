"""A cluster of brokers in memory, with clients that we did not write, in other threads and in other processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import kafka
import pytest
import trio
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

import zab
from replica.core.errors import ErrorCode, KafkaError
from replica.testing import AsyncMemoryCluster, MemoryCluster, open_memory_cluster
from tests.integration.kafka_clients import Aio, Client, Confluent, KafkaPython, Pairs

ROOT: Final = Path(__file__).parents[2]
PATIENCE_S: Final = 300.0
PAIRS: Final = [(b"%d" % number, b"value %d" % number) for number in range(200)]


@pytest.fixture
def cluster() -> Iterator[MemoryCluster]:
    with open_memory_cluster() as cluster:
        yield cluster


def read_all(cluster: MemoryCluster, topic: str, partitions: int) -> Pairs:
    """Return all committed records of a topic, by partition and offset."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        for number in range(partitions):
            where = confluent_kafka.TopicPartition(topic, number, 0)
            begin, end = consumer.get_watermark_offsets(where, PATIENCE_S)
            consumer.assign([where])
            while begin < end and consumer.position([where])[0].offset < end:
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                if message.error() is None:
                    found.append((message.key(), message.value()))
    finally:
        consumer.close()
    return found


# -- clients -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [Confluent(), KafkaPython(), Aio()], ids=lambda client: client.name)
def test_group_reads_what_a_producer_wrote(cluster: MemoryCluster, client: Client) -> None:
    cluster.create_topic("orders", partitions=3)
    client.write(cluster.bootstrap_servers, "orders", PAIRS)
    first = client.read(cluster.bootstrap_servers, "orders", "readers", 150)
    second = client.read(cluster.bootstrap_servers, "orders", "readers", 50)
    assert sorted(first + second) == sorted(PAIRS)


def test_clients_in_another_process(cluster: MemoryCluster) -> None:
    script = f"""
from tests.integration.kafka_clients import Confluent
Confluent().write({cluster.bootstrap_servers!r}, "orders", [(b"key", b"from another process")])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    cluster.create_topic("orders")
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=ROOT, check=True, timeout=PATIENCE_S)
    assert read_all(cluster, "orders", 1) == [(b"key", b"from another process")]


def test_topic_is_created_on_demand(cluster: MemoryCluster) -> None:
    KafkaPython().write(cluster.bootstrap_servers, "events", PAIRS[:1])
    cluster.wait_in_sync("events")
    assert read_all(cluster, "events", 1) == PAIRS[:1]


def test_transaction_is_read_once(cluster: MemoryCluster) -> None:
    cluster.create_topic("orders")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "copier"})
    producer.init_transactions(PATIENCE_S)
    for value, ends in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("orders", value, "key")
        ends(PATIENCE_S)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    try:
        consumer.assign([kafka.TopicPartition("orders", 0)])
        assert next(consumer).value == b"committed"
        assert consumer.poll(500) == {}
    finally:
        consumer.close()


# -- topics and settings -------------------------------------------------------------------------------


def test_topic_has_its_settings(cluster: MemoryCluster) -> None:
    cluster.create_topic("table", 2, 2, {"cleanup.policy": "compact", "min.insync.replicas": 1})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    partitions = admin.list_topics("table", PATIENCE_S).topics["table"].partitions
    assert [len(each.replicas) for each in partitions.values()] == [2, 2]
    resource = ConfigResource(ConfigResource.Type.TOPIC, "table")
    settings = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert settings["cleanup.policy"].value == "compact"
    with pytest.raises(KafkaError, match="already exists") as caught:
        cluster.create_topic("table")
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        cluster.create_topic("other", config={"cleanup.policy": "shred"})


def test_brokers_have_their_settings() -> None:
    with open_memory_cluster(1, config={"auto.create.topics.enable": False, "num.partitions": 7}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert list(admin.list_topics(timeout=PATIENCE_S).brokers) == [1]
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        settings = admin.describe_configs([resource])[resource].result(PATIENCE_S)
        assert settings["num.partitions"].value == "7"
        assert settings["auto.create.topics.enable"].value == "false"
        assert settings["min.insync.replicas"].value == "1"
        assert cluster.controller() == 1


# -- faults --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power_loss", [False, True])
def test_acknowledged_records_survive_the_leader(cluster: MemoryCluster, power_loss: bool) -> None:
    cluster.create_topic("orders")
    for round_ in range(3):
        Confluent().write(cluster.bootstrap_servers, "orders", [(b"%d" % round_, b"acknowledged")], acks="all")
        leader = cluster.leader("orders", 0)
        cluster.kill(leader, power_loss=power_loss)
        assert cluster.leader("orders", 0) != leader
        cluster.restart(leader)
        cluster.wait_in_sync()
    assert [key for key, _ in read_all(cluster, "orders", 1)] == [b"0", b"1", b"2"]


def test_unsynced_records_are_lost_with_the_power_of_all_brokers(cluster: MemoryCluster) -> None:
    topics = {"synced": {"flush.messages": 1}, "unsynced": {}}
    for topic, config in topics.items():
        cluster.create_topic(topic, config=config)
        Confluent().write(cluster.bootstrap_servers, topic, PAIRS, acks="all")
    for broker in (1, 2, 3):
        cluster.kill(broker, power_loss=True)
    for broker in (1, 2, 3):
        cluster.restart(broker)
    cluster.wait_in_sync()
    assert read_all(cluster, "synced", 1) == PAIRS
    assert read_all(cluster, "unsynced", 1) == []


def test_producer_goes_on_while_brokers_are_killed(cluster: MemoryCluster) -> None:
    cluster.create_topic("orders", partitions=2)
    failed: list[object] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 0}
    )
    for broker in (1, 2, 3):
        for key, value in PAIRS:
            producer.produce("orders", value, key, on_delivery=lambda error, _: failed.append(error) if error else None)
            producer.poll(0)
        cluster.kill(broker)
        cluster.restart(broker)
        cluster.wait_in_sync()
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []
    assert sorted(read_all(cluster, "orders", 2)) == sorted(PAIRS * 3)


def test_controller_is_replaced(cluster: MemoryCluster) -> None:
    former = cluster.controller()
    cluster.kill(former)
    assert cluster.controller() != former
    cluster.create_topic("orders", replication_factor=2)
    cluster.restart(former)
    cluster.create_topic("more", replication_factor=3)


def test_restart_in_good_order_keeps_the_address_and_the_records(cluster: MemoryCluster) -> None:
    cluster.create_topic("orders", partitions=3)
    servers = cluster.bootstrap_servers
    Confluent().write(servers, "orders", PAIRS, acks="all")
    for broker in (1, 2, 3):
        cluster.restart(broker)
        cluster.wait_in_sync()
    assert cluster.bootstrap_servers == servers
    assert sorted(read_all(cluster, "orders", 3)) == sorted(PAIRS)


def test_clients_are_refused_while_a_broker_is_down(cluster: MemoryCluster) -> None:
    host, _, port = cluster.bootstrap_servers.split(",")[0].partition(":")
    cluster.kill(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_partition_removes_followers_from_the_isr() -> None:
    with open_memory_cluster(config={"replica.lag.time.max.ms": 600}) as cluster:
        cluster.create_topic("orders")
        leader = cluster.leader("orders")
        cluster.partition(leader)
        Confluent().write(cluster.bootstrap_servers, "orders", PAIRS, acks=1)
        assert led_alone(cluster, "orders")
        assert cluster.leader("orders") == leader
        cluster.heal()
        cluster.wait_in_sync("orders", timeout_s=PATIENCE_S)
        assert read_all(cluster, "orders", 1) == PAIRS


def led_alone(cluster: MemoryCluster, topic: str) -> bool:
    """Wait until a partition of the topic has fewer in-sync replicas than its leader has followers."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            cluster.wait_in_sync(topic, timeout_s=0)
        except TimeoutError as error:
            return "are not in sync with broker" in str(error)
        time.sleep(0.05)
    return False


def test_broker_cannot_start_without_the_controller(cluster: MemoryCluster) -> None:
    broker = next(number for number in (1, 2, 3) if number != cluster.controller())
    cluster.kill(broker)
    cluster.partition(broker)
    with pytest.raises(
        TimeoutError, match=rf"after 0.5 s: broker {broker} has not restarted; heal\(\) ends partitions"
    ):
        cluster.restart(broker, timeout_s=0.5)
    cluster.heal()
    cluster.restart(broker)
    cluster.wait_in_sync()


def test_missing_leader_is_reported(cluster: MemoryCluster) -> None:
    cluster.create_topic("orders", replication_factor=1)
    leader = cluster.leader("orders")
    cluster.kill(leader)
    with pytest.raises(TimeoutError, match=rf"orders-0 has no leader: .*\[{leader}\]; brokers \[{leader}\] are down"):
        cluster.leader("orders", timeout_s=0.05)
    with pytest.raises(TimeoutError, match="orders-0 has no leader"):
        cluster.wait_in_sync("orders", timeout_s=0.05)
    with pytest.raises(TimeoutError, match="there is no partition orders-1; topics: orders;"):
        cluster.leader("orders", 1, timeout_s=0.05)
    for call in (cluster.leader, cluster.wait_in_sync):
        with pytest.raises(zab.LocalProtocolError, match="there is no topic 'order'; topics: orders; create_topic cr"):
            call("order")


def test_all_brokers_may_be_down(cluster: MemoryCluster) -> None:
    for broker in (1, 2, 3):
        cluster.kill(broker)
    with pytest.raises(TimeoutError, match=r"no broker is the controller: brokers \[1, 2, 3\] are down"):
        cluster.controller(timeout_s=0.05)
    cluster.restart(2)
    assert cluster.controller() == 2


# -- clusters ------------------------------------------------------------------------------------------


def test_two_clusters_at_once() -> None:
    with open_memory_cluster() as one, open_memory_cluster(1) as other:
        for cluster, value in ((one, b"one"), (other, b"other")):
            cluster.create_topic("orders")
            Confluent().write(cluster.bootstrap_servers, "orders", [(None, value)])
        assert [value for _, value in read_all(one, "orders", 1)] == [b"one"]
        assert [value for _, value in read_all(other, "orders", 1)] == [b"other"]


def test_calls_from_many_threads(cluster: MemoryCluster) -> None:
    def create(number: int) -> None:
        cluster.create_topic(f"topic{number}", partitions=2)
        leaders[number] = cluster.leader(f"topic{number}", 1)

    leaders: dict[int, int] = {}
    threads = [threading.Thread(target=create, args=[number]) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(leaders) == 10
    assert set(leaders.values()) <= {1, 2, 3}


def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = count_open(), threading.enumerate()
    with open_memory_cluster() as cluster:
        cluster.create_topic("orders")
        KafkaPython().write(cluster.bootstrap_servers, "orders", PAIRS)
        cluster.kill(1)
        cluster.restart(2)
        [thread] = set(threading.enumerate()) - set(before[1])
        assert thread.name == "Kafka cluster in memory"
    assert (count_open(), threading.enumerate()) == before
    assert list(tmp_path.iterdir()) == []
    assert not Path("/in-memory").exists()


def count_open() -> int:
    return len(os.listdir("/dev/fd"))


def test_cluster_in_a_trio_program() -> None:
    async def main() -> None:
        async with open_memory_cluster() as cluster:
            await use(cluster)

    async def use(cluster: AsyncMemoryCluster) -> None:
        await cluster.create_topic("orders")
        servers = cluster.bootstrap_servers
        await trio.to_thread.run_sync(lambda: Confluent().write(servers, "orders", PAIRS, acks="all"))
        leader = await cluster.leader("orders")
        await cluster.kill(leader, power_loss=True)
        found = await trio.to_thread.run_sync(lambda: Confluent().read(servers, "orders", "readers", len(PAIRS)))
        assert found == PAIRS
        await cluster.restart(leader)
        cluster.partition(leader)
        cluster.heal()
        await cluster.wait_in_sync()
        assert await cluster.controller() in (1, 2, 3)

    trio.run(main)


def test_start_and_stop_times(capsys: pytest.CaptureFixture[str]) -> None:
    """Report the times: they depend on the machine, so nothing is asserted."""
    times: dict[str, list[tuple[float, float]]] = {"start": [], "stop": []}

    def timed(what: str, act: Callable[..., object], *arguments: object) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        act(*arguments)
        times[what].append((time.perf_counter() - wall, time.process_time() - cpu))

    for _ in range(5):
        opening = open_memory_cluster()
        timed("start", opening.__enter__)
        timed("stop", opening.__exit__, None, None, None)
    with capsys.disabled():
        for what, measured in times.items():
            wall, cpu = min(measured)
            print(f"\n{what} of a memory cluster of three brokers: {wall:.3f} s, {cpu:.3f} s of processor time", end="")
