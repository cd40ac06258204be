"""Measurements and health over HTTP, read by Prometheus' own parser."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from bench.ports import free_port
from kraft_controller.core import controller_events as events
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.controller_metrics import samples
from kraft_controller.runtime.operator_port import OperatorPort, controller_health
from tests.integration.kraft_controller.site import command, led, run, site, until
from tests.integration.processes import ROOT
from zab.admin.admin_settings import AdminSettings
from zab.admin.exposition import GAUGE, MetricSample


def get(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=120) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def values(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name + "".join(f" {value}" for value in sample.labels.values()), sample.value


def test_operator_port_serves_metrics_and_health(tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path, dict.fromkeys((1, 2, 3))) as (here, wires), trio.open_nursery() as nursery:
            controller = wires.controller
            look = partial(controller_health, controller)
            port = OperatorPort(AdminSettings(port=0), [partial(samples, controller)], look, BrokerId(1))
            url = f"http://127.0.0.1:{await nursery.start(port.run)}"
            await here.done("topics", "create", "t", "--replica-assignment", "1:2:3,2:3:1", "--wait")
            wires.stuck.add(3)
            await here.session.delete("/brokers/ids/2")

            async def measured(name: str, value: float) -> bool:
                _, text = await trio.to_thread.run_sync(get, f"{url}/metrics")
                return dict(values(text)).get(name) == value

            await until(lambda: measured("kafka_controller_under_replicated_partitions_count", 2))
            await here.register(2)
            await until(lambda: measured("kafka_controller_under_replicated_partitions_count", 0))
            code, text = await trio.to_thread.run_sync(get, f"{url}/metrics")
            found = dict(values(text))
            assert code == 200
            assert found["kafka_controller_active_controller_count"] == 1
            assert found["kafka_controller_global_partition_count"] == 2
            assert found["kafka_controller_preferred_replica_imbalance_count"] == 1
            assert found["kafka_controller_broker_leader_count 3"] == 1
            assert found["kafka_controller_controller_stats_leader_elections_total"] == 1
            assert found["kafka_controller_controller_stats_controller_elections_won_total"] == 1
            assert found["kafka_controller_controller_stats_controller_failover_time_ms"] > 0
            assert found["kafka_controller_controller_event_manager_events_by_kind_total BrokersChanged"] >= 2
            assert found["kafka_controller_controller_epoch"] == 1
            await controller.ask(events.ElectLeadersRequested((TopicPartition("t", 1),)))
            assert await measured("kafka_controller_preferred_replica_imbalance_count", 0)

            code, text = await trio.to_thread.run_sync(get, f"{url}/health")
            assert (code, json.loads(text)) == (
                200, {"healthy": True, "active": True, "controller": 1, "epoch": 1, "worries": []},
            )  # fmt: skip
            assert (await trio.to_thread.run_sync(get, f"{url}/elsewhere"))[0] == 404
            nursery.cancel_scope.cancel()

    run(test)


@pytest.mark.parametrize("known", [None, 2])
def test_other_brokers_report_no_cluster_counts(known: int | None, tmp_path: Path) -> None:
    async def test() -> None:
        async with led(tmp_path, {1: None}) as (_, wires):
            controller = wires.controller
            controller._queue = controller.term = None  # as between two terms
            controller._candidacy.controller = None if known is None else BrokerId(known)
            found = {sample.name: sample.value for sample in samples(controller)}
            assert found["kafka_controller_active_controller_count"] == 0
            assert found["kafka_controller_active_broker_count"] == 0
            assert controller_health(controller)["healthy"] is (known is not None)

    run(test)


async def test_others_get_turns_while_many_measurements_are_written() -> None:
    lines = 20_000
    found = [MetricSample("size", GAUGE, "of a log", number, {"partition": str(number)}) for number in range(lines)]
    port = OperatorPort(AdminSettings(port=0), [lambda: found], partial(controller_health, None), BrokerId(1))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        text = await port._metrics()
        assert (text.count(b"\n"), turns >= 15) == (lines + 2, True)
        nursery.cancel_scope.cancel()


def test_broker_process_reports_health(tmp_path: Path) -> None:
    """`zab-broker serve --operators`, from before it has a session until it is the controller."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    async def answers(path: str) -> tuple[int, str]:
        while True:
            try:
                return await trio.to_thread.run_sync(get, f"{url}{path}")
            except URLError:
                await trio.sleep(0.05)

    async def test() -> None:
        async with site(tmp_path / "store") as here, trio.open_nursery() as nursery:
            file = tmp_path / "server.properties"
            file.write_text(
                f"broker.id=7\nzookeeper.connect={here.at}\nlog.dirs={tmp_path / 'logs'}\n"
                f"listeners=PLAINTEXT://127.0.0.1:{free_port()}\n"
            )
            words = [sys.executable, "-m", "replica.cli", "serve", str(file), "--operators", str(port)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            process = await nursery.start(partial(trio.run_process, words, env=environment, capture_stderr=True))
            while (await answers("/health"))[0] != 200:
                await trio.sleep(0.05)
            code, text = await answers("/health")
            assert (code, json.loads(text)["controller"]) == (200, 7)

            async def took_over() -> bool:
                found = dict(values((await answers("/metrics"))[1]))
                return found.get("kafka_controller_active_broker_count") == 1

            await until(took_over)
            process.terminate()

    run(test)


@pytest.mark.parametrize("where", ["here", "127.0.0.1:x", "99999"])
def test_operator_port_refuses_writes_and_unknown_pages(where: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=7\nzookeeper.connect=h\nlog.dirs={tmp_path}\n")
    said = command("serve", str(file), "--operators", where)
    assert (said.code, "PORT or HOST:PORT" in said.err) == (2, True)


@pytest.mark.parametrize(("where", "warned"), [("9308", 0), ("[::1]:9308", 0), ("0.0.0.0:9308", 1)])
def test_a_port_for_operators_beyond_loopback_is_warned_of(where: str, warned: int, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=7\nzookeeper.connect=h\nlog.dirs={tmp_path}\n")
    said = command("serve", str(file), "--operators", where, "--check")
    assert (said.code, said.err.count("neither authentication nor TLS")) == (0, warned)
