"""A broker notices a loop that stalls, and one that does not turn any more: health and the page show it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft_controller.core import controller_events as events
from kraft_controller.runtime.operator_port import controller_health
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.runtime.admin.overview import DEGRADED, DOWN, health, overview
from replica.runtime.broker import Broker
from replica.wire.api import ApiKey as A
from tests.integration.brokers import cluster, until
from tests.kafka_bodies import request_frame
from zab.host.watchdog import STALL_S

LOOPS = {
    "group coordinator": "group_coordinator",
    "transaction coordinator": "transaction_coordinator",
    "replica manager": "replica_manager",
}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.host.watchdog.POKE_S", 0.05)
    monkeypatch.setattr("zab.host.watchdog.DEAD_S", 1.0)


async def test_loop_that_does_not_turn_makes_the_broker_unhealthy(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as running:
        broker = running.brokers[1]
        await until(lambda: health(broker)["healthy"])
        for name, attribute in LOOPS.items():
            driver: Any = getattr(broker.parts, attribute)
            driver._turns.running = True  # as an exception left it once
            await until(lambda: not health(broker)["healthy"])
            assert any(name in each for each in _worries(broker)), name
            assert overview(broker)["health"] == DOWN
            driver._turns.running = False
            driver._wakeup.ring()
            await until(lambda: health(broker)["healthy"])
        assert overview(broker)["health"] != DOWN


async def test_controller_that_leaves_events_waiting_makes_its_broker_unhealthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = trio.Event()

    async def process(*_: object) -> None:
        await stuck.wait()

    async with cluster(tmp_path, 1) as running:
        broker = running.brokers[1]
        await until(lambda: health(broker)["healthy"])
        controller = broker.parts.membership.controller
        assert controller is not None
        with monkeypatch.context() as patched:
            patched.setattr(controller, "_process", process)
            for _ in range(2):
                controller.note(events.AutoPreferredElection())
                controller.note(events.TopicsChanged())
                await trio.sleep(0.1)
            await until(lambda: not health(broker)["healthy"])
            assert not controller_health(controller)["healthy"]
            assert any("'controller'" in each for each in _worries(broker))
        stuck.set()
        await until(lambda: health(broker)["healthy"])


async def test_request_that_stalls_the_loop_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usual = GroupCoordinator.step

    def slow(self: GroupCoordinator, *arguments: Any) -> None:
        time.sleep(1.5 * STALL_S)
        usual(self, *arguments)

    async with cluster(tmp_path, 1) as running:
        broker = running.brokers[1]
        await until(lambda: health(broker)["healthy"])
        monkeypatch.setattr(GroupCoordinator, "step", slow)
        async with await trio.open_tcp_stream("127.0.0.1", running.ports[1]) as stream:
            await stream.send_all(request_frame(A.LIST_GROUPS, 2, 1, "slow one", {}))
            assert await stream.receive_some()
        lines = [each.getMessage() for each in caplog.records if "loop_stalled" in each.getMessage()]
        [of_groups] = [line for line in lines if "group coordinator" in line]
        assert "cause=ListGroups" in of_groups
        [of_requests] = [line for line in lines if "client requests" in line]
        assert "LIST_GROUPS v2" in of_requests
        assert "slow one" in of_requests
        assert "127.0.0.1" in of_requests
        assert health(broker)["healthy"]
        assert overview(broker)["health"] == DEGRADED
        assert any("held up" in each and "slow one" in each for each in _worries(broker))


def _worries(broker: Broker) -> list[str]:
    found = health(broker)["worries"]
    assert isinstance(found, list)
    return found
