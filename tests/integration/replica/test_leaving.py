"""A broker that leaves in an orderly way gives away what it leads before it goes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import trio

import zab
from bench.ports import free_port
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.admin.cluster_description import describe_cluster
from kraft_controller.runtime.admin.topic_requests import create_topic
from kraft_controller.runtime.shutdown_request import ShutdownSettings, request_shutdown
from replica.runtime.network.broker_client import Client, connect
from replica.wire.api import ApiKey
from tests import forkserver
from tests.integration.broker_processes import store_processes
from tests.integration.brokers import cluster
from tests.kafka_bodies import ask

T0 = TopicPartition("t", 0)
QUICK = ShutdownSettings(tries=2, pause_s=0.01)


async def isr_is(session: zab.Session, *brokers: int) -> None:
    while (await describe_cluster(session)).isr(T0) != brokers:
        await trio.sleep(0.02)


def test_its_partitions_are_led_by_others_before_it_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 2, leaving=QUICK) as made, made.store.session() as session:
            for leaver, stayer in ((2, 1), (1, 2)):  # one of these is the controller, and asks itself
                name = f"t{leaver}"
                where = TopicPartition(name, 0)
                await create_topic(session, name, {0: [BrokerId(leaver), BrokerId(stayer)]}, {}, os.urandom)
                while len((await describe_cluster(session)).isr(where)) < 2:
                    await trio.sleep(0.02)
                await made.brokers[leaver].leave()
                described = await describe_cluster(session)
                assert leaver in described.brokers
                assert described.leader(where) == stayer
                await made.stop(leaver)
                await made.start(leaver)
                while len((await describe_cluster(session)).isr(where)) < 2:
                    await trio.sleep(0.02)

    trio.run(main)


def test_partitions_without_another_leader_are_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 2, leaving=QUICK) as made, made.store.session() as session:
            await create_topic(session, "t", {0: [BrokerId(2), BrokerId(1)]}, {}, os.urandom)
            await isr_is(session, 2, 1)
            await made.stop(1)
            await isr_is(session, 2)
            two = made.brokers[2].parts
            while not two.membership.is_controller:
                await trio.sleep(0.02)

            def here() -> object:
                return two.metadata_cache.endpoint(BrokerId(2), "CONTROLLER")

            left = await request_shutdown(BrokerId(2), lambda: two.membership.epoch, here, QUICK)  # type: ignore[arg-type]
            assert left == (T0,)
            stale = await request_shutdown(BrokerId(2), lambda: two.membership.epoch - 1, here, QUICK)  # type: ignore[arg-type,return-value]
            assert stale is None
            assert await request_shutdown(BrokerId(2), lambda: two.membership.epoch, lambda: None, QUICK) is None
            assert await request_shutdown(BrokerId(2), lambda: two.membership.epoch, lambda: None, None) == ()

    trio.run(main)


def test_brokers_end_though_the_store_is_gone(tmp_path: Path) -> None:
    """Each asks a controller that waits for the store, and would go on to ask for hours."""

    async def main() -> None:
        async with store_processes(tmp_path) as stores:
            ports = [free_port(), free_port()]
            brokers = [_serving(tmp_path, number, port, stores.hosts) for number, port in enumerate(ports, start=1)]
            try:
                for number in (1, 2):
                    log = tmp_path / f"broker{number}.log"
                    while " serves " not in log.read_text():
                        await trio.sleep(0.05)
                async with connect([("127.0.0.1", ports[0])]) as client:
                    await ask(client, ApiKey.METADATA, {"topics": [{"name": "t"}], "allow_auto_topic_creation": True})
                    await _all_in_sync(client)
                for sid in list(stores.running):
                    stores.kill(sid)
                for broker in brokers:
                    broker.send_signal(signal.SIGTERM)
                with trio.fail_after(120):
                    while any(broker.poll() is None for broker in brokers):
                        await trio.sleep(0.05)
                assert [broker.returncode for broker in brokers] == [0, 0]
            finally:
                for broker in brokers:
                    broker.kill()
                    broker.wait()

    trio.run(main)
    logs = [(tmp_path / f"broker{number}.log").read_text() for number in (1, 2)]
    assert any("why='the store has been unreachable for 0.5 s'" in log for log in logs)


async def _all_in_sync(client: Client) -> None:
    while True:
        [topic] = (await client.metadata(["t"])).topics
        if len(topic.partitions) == 4 and all(len(each.isr_nodes) == 2 for each in topic.partitions):
            return
        await trio.sleep(0.05)


def _serving(path: Path, number: int, port: int, store: str) -> subprocess.Popen[bytes]:
    properties = path / f"server{number}.properties"
    properties.write_text(
        f"broker.id={number}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={path / f'broker{number}'}\n"
        f"zookeeper.connect={store}\ncontrolled.shutdown.max.retries=1000\n"
        "default.replication.factor=2\nnum.partitions=4\nzab.controlled.shutdown.store.timeout.ms=500\n"
    )
    with (path / f"broker{number}.log").open("wb") as log:
        command = ["-m", "replica.cli", "serve", str(properties)]
        return forkserver.start(command, stdout=subprocess.DEVNULL, stderr=log)
