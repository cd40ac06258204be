"""Nodes that somebody damaged, wishes that cannot be: each is said clearly and left, and all else goes on.

Each at a running controller, which has to do something sensible right afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import zab
from kraft_controller.core import controller_events as events
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.state import Assignment
from kraft_controller.runtime.controller import Controller, ControllerEnvironment, Pace
from kraft_controller.wire import znodes
from tests.integration.kraft_controller.site import Site, Wires, led, run, until

TORN = b'{"version":3,"partit'
NEWER = b'{"version":99,"things":{"0":[1]},"no_progress":true}'
DAMAGE = [
    pytest.param(TORN, "not JSON", id="torn"),
    pytest.param(b"", "not JSON", id="empty"),
    pytest.param(b"\xff\xfe\x00", "not JSON", id="no-text"),
    pytest.param(b"[1,2]", "expected a JSON object, not list", id="a-list"),
    pytest.param(b"{}", "version is missing", id="no-version"),
    pytest.param(b'{"version":0}', "version 0 is too old", id="too-old"),
    pytest.param(NEWER, "is missing", id="newer"),
    pytest.param(b"[" * 10_000, "not JSON", id="deep"),
]


@asynccontextmanager
async def cluster(path: Path) -> AsyncIterator[tuple[Site, Wires]]:
    async with led(path, dict.fromkeys((1, 2, 3))) as (here, wires):
        await here.done("topics", "create", "good", "--replica-assignment", "1:2,2:3", "--wait")
        yield here, wires


async def alive(here: Site, wires: Wires) -> None:
    """It does what it is there for, still in its first reign."""
    await here.done("topics", "create", "after", "--replica-assignment", "3:2", "--wait")
    assert wires.controller.active
    assert wires.controller.counts.gave_up == 0
    assert wires.controller.term is not None
    assert wires.controller.term.context.epoch == 1


async def said(caplog: pytest.LogCaptureFixture, *words: str) -> None:
    def heard() -> bool:
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        return any(all(word in line for word in words) for line in lines)

    while not heard():
        await trio.sleep(0.01)


@pytest.mark.parametrize(("data", "why"), DAMAGE)
def test_a_topic(data: bytes, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (here, wires):
            await here.session.create("/brokers/topics/bad", data)
            await said(caplog, "damaged", "/brokers/topics/bad", why)
            await alive(here, wires)
            assert (await here.session.get("/brokers/topics/bad"))[0] == data
            # Mended by hand, it is a topic like any other.
            held = {0: Assignment((BrokerId(2), BrokerId(3)))}
            await here.session.set("/brokers/topics/bad", znodes.topic(None, held))
            await until(lambda: here.session.exists("/brokers/topics/bad/partitions/0/state"))

    run(test)


@pytest.mark.parametrize(
    ("node", "data", "why"),
    [
        ("/brokers/topics/bad", b'{"version":3,"partitions":{"0":["x"]}}', "expected a list of broker ids"),
        ("/brokers/topics/bad", b'{"version":3,"partitions":{"0":[]}}', "has no replicas"),
        ("/brokers/topics/bad", b'{"version":3,"partitions":{"0":[1,1]}}', "a broker is listed twice"),
        ("/brokers/topics/bad", b'{"version":3,"partitions":{"-1":[1]}}', "-1 is not a valid partition"),
        (
            "/brokers/topics/bad",
            b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{"0":[7]}}',
            "are not among its replicas",
        ),
        ("/brokers/topics/sp ace", b'{"version":3,"partitions":{"0":[1]}}', "a topic name has ASCII letters"),
        ("/brokers/ids/7", TORN, "not JSON"),
        ("/brokers/ids/7", b'{"version":5,"endpoints":["nowhere"]}', "is not LISTENER://host:port"),
        ("/brokers/ids/7", b'{"version":5,"endpoints":["A://h:port"]}', "endpoints"),
        ("/admin/reassign_partitions", TORN, "not JSON"),
        ("/admin/reassign_partitions", b'{"version":1,"partitions":[{"topic":"good"}]}', "partition"),
        ("/admin/preferred_replica_election", TORN, "not JSON"),
        (
            "/admin/preferred_replica_election",
            b'{"version":1,"partitions":[],"election":"by lot"}',
            "expected preferred or unclean",
        ),
    ],
)
def test_damaged_node_of_any_kind_is_reported(
    node: str, data: bytes, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (here, wires):
            await here.session.create(node, data)
            await said(caplog, "damaged", why)
            await alive(here, wires)
            assert (await here.session.get(node))[0] == data

    run(test)


def test_state_and_topic_damaged_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (here, wires):
            state, topic = "/brokers/topics/good/partitions/0/state", "/brokers/topics/good"
            before, _ = await here.session.get(state)
            held, _ = await here.session.get(topic)
            await here.session.set(state, TORN)
            await here.session.set(topic, TORN)
            await said(caplog, "damaged", "topics/good: not JSON")
            await here.session.delete("/brokers/ids/1")
            await said(caplog, "damaged", "partitions/0/state: not JSON")
            await alive(here, wires)
            assert (await here.session.get(state))[0] == TORN
            assert (await here.session.get(topic))[0] == TORN
            # The other partition has lost nothing by it.
            assert (await here.node("/brokers/topics/good/partitions/1/state"))["leader"] == 2
            # The next controller finds it as it is, and hears when it is mended.
            await here.done("controller", "resign", "--wait")
            await here.session.set(topic, held)
            await said(caplog, "no_leader", "good-0")
            await here.session.set(state, before)

            async def led_by_two() -> bool:
                return bool((await here.node(state))["leader"] == 2)

            await until(led_by_two)

    run(test)


def test_impossible_requests_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (here, wires):
            before = await here.node("/brokers/topics/good")
            wishes = {
                TopicPartition("good", 0): (BrokerId(9),),
                TopicPartition("good", 1): (),
                TopicPartition("good", 7): (BrokerId(1),),
                TopicPartition("nope", 0): (BrokerId(1),),
            }
            await here.session.create(znodes.REASSIGN, znodes.reassignment(wishes))
            for why in ("brokers [9] are not alive", "the list of replicas is empty", "the partition does not exist"):
                await said(caplog, "reassignment_refused", why)

            async def dealt_with() -> bool:
                return await here.session.exists(znodes.REASSIGN) is None

            await until(dealt_with)
            assert await here.node("/brokers/topics/good") == before
            asked = await wires.controller.ask(
                events.AlterReassignmentsRequested({TopicPartition("good", 0): (BrokerId(9),)})
            )
            assert asked == {
                TopicPartition(
                    "good", 0
                ): "brokers [9] are not alive or are shutting down, so no replica can be added there"
            }
            await here.session.create(f"{znodes.DELETE_TOPICS}/nope")
            await here.session.create(
                f"{znodes.ISR_CHANGES}/isr_change_", TORN, sequential=True
            )  # nobody can say what it was about, so nothing is lost with it

            async def swept() -> bool:
                return not await here.session.children(znodes.DELETE_TOPICS) and not await here.session.children(
                    znodes.ISR_CHANGES
                )

            await until(swept)
            await here.session.create(f"{znodes.CONFIG_CHANGES}/config_change_", TORN, sequential=True)
            await here.session.create(f"{znodes.CONFIG_CHANGES}/by_hand", b"x")
            await here.session.set("/config/topics/good", TORN)
            note = znodes.config_change("topics", "good")
            await here.session.create(f"{znodes.CONFIG_CHANGES}/config_change_", note, sequential=True)
            await said(caplog, "damaged", "/config/topics/good: not JSON")
            await alive(here, wires)

    run(test)


def test_removed_lists_are_watched_until_they_exist_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (here, wires):
            await here.done("configs", "alter", "topics", "good", "--set", "flush.ms=1")
            for path in (znodes.DELETE_TOPICS, znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS, znodes.CONFIG_CHANGES):
                for name in await here.session.children(path):
                    await here.session.delete(f"{path}/{name}")
                await here.session.delete(path)
            await alive(here, wires)
            await here.done("topics", "delete", "after", "--wait")
            await here.done("configs", "alter", "topics", "good", "--set", "unclean.leader.election.enable=true")

            async def heard() -> bool:
                term = wires.controller.term
                return term is not None and "good" in term.context.unclean

            await until(heard)
            await alive(here, wires)

    run(test)


def test_topic_waits_for_unregistered_brokers(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (here, wires):
            held = {0: Assignment((BrokerId(8), BrokerId(9)))}
            await here.session.create("/brokers/topics/far", znodes.topic(None, held))
            await alive(here, wires)
            assert await here.session.exists("/brokers/topics/far/partitions/0/state") is None
            await here.register(9)
            await until(lambda: here.session.exists("/brokers/topics/far/partitions/0/state"))
            assert (await here.node("/brokers/topics/far/partitions/0/state"))["leader"] == 9

    run(test)


@pytest.mark.parametrize("node", [znodes.CONTROLLER, znodes.CONTROLLER_EPOCH])
def test_damaged_election_nodes_are_reported(node: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says so, again and again but not often, and stands for election when it is mended."""

    async def test() -> None:
        async with led(tmp_path, {1: None}) as (here, wires):
            if node == znodes.CONTROLLER_EPOCH:
                await here.session.set(node, b"many")
            else:
                await here.session.delete(node)
                await here.session.create(node, TORN)
            if node == znodes.CONTROLLER_EPOCH:
                await here.session.delete(znodes.CONTROLLER)
            await said(caplog, "cannot stand for election", node)
            assert (await here.session.get(node))[0] in (TORN, b"many")
            if node == znodes.CONTROLLER_EPOCH:
                await here.session.set(node, b"7")
            else:
                await here.session.delete(node)
            while not wires.controller.active:
                await trio.sleep(0.01)

    run(test)


def test_pause_after_failed_terms_doubles(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of ours in the midst of a reign: the broker lives on, somebody begins anew, and the store has peace."""
    paused: list[float] = []
    failing = True

    async def sleep(seconds: float) -> None:
        if seconds not in (3, 6, 12, 24, 30):
            await real(seconds)  # that is somebody else's
            return
        paused.append(seconds)
        await real(0)

    real = trio.sleep
    process = Controller._process

    async def broken(self: Controller, *arguments: object) -> None:
        if failing:
            monkeypatch.setattr("kraft_controller.runtime.controller.trio.sleep", sleep)
            raise ZeroDivisionError("a mistake")
        await process(self, *arguments)  # type: ignore[arg-type]

    async def test() -> None:
        nonlocal failing
        monkeypatch.setattr(Controller, "_process", broken)
        async with zab.open_store(tmp_path) as store, store.session() as session, trio.open_nursery() as nursery:
            for path in znodes.PERSISTENT:
                await session.ensure_path(path)
            wires = Wires(nursery)
            environment = ControllerEnvironment(lambda: 1, lambda size: bytes(range(1, size + 1)))
            pace = Pace(balance_s=None, pause_s=3, pause_s_max=30)
            wires.controller = Controller(session, BrokerId(1), wires, environment, pace=pace)
            nursery.start_soon(wires.controller.run)
            while len(paused) < 6:
                await real(0.01)
            assert paused[:6] == [3, 6, 12, 24, 30, 30]
            assert "a mistake" in caplog.text
            failing = False
            while not (wires.controller.active and wires.controller.counts.events["ControllerElected"]):
                await real(0.01)
            assert wires.controller.counts.gave_up >= 6
            epoch = int((await session.get(znodes.CONTROLLER_EPOCH))[0] or b"")
            assert epoch == wires.controller.counts.won
            nursery.cancel_scope.cancel()

    run(test)


@pytest.mark.mechanism(51)
def test_bounce_within_one_watch_delay(tmp_path: Path) -> None:
    """Gone and back in one step of the store: to who lists names nothing has happened, and yet it is another life."""

    async def test() -> None:
        async with cluster(tmp_path) as (here, wires):
            before = wires.known[BrokerId(2)].epoch
            data, _ = await here.session.get("/brokers/ids/2")
            await here.session.multi(
                zab.Multi().delete("/brokers/ids/2").create("/brokers/ids/2", data, ephemeral=True)
            )

            async def seen() -> bool:
                return BrokerId(2) in wires.known and wires.known[BrokerId(2)].epoch > before

            await until(seen)
            roles = [command for to, command in wires.said if to == 2 and command.broker_epoch > before]
            assert roles  # it is told all of it anew
            state = await here.node("/brokers/topics/good/partitions/1/state")
            assert (state["leader"], state["leader_epoch"] > 0) == (3, True)

    run(test)


@pytest.mark.parametrize("how", ["removed", "set back"])
def test_controller_epoch_set_back_is_raised(how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Brokers that have heard of later ones would obey nobody any more. It is counted on from what states say."""

    async def test() -> None:
        async with cluster(tmp_path) as (here, _):
            for _ in range(4):
                await here.done("controller", "resign", "--wait")
            path = "/brokers/topics/good/partitions/0/state"
            await here.done("topics", "create", "late", "--replica-assignment", "2:3", "--wait")
            newest = int((await here.node("/brokers/topics/late/partitions/0/state"))["controller_epoch"])
            assert newest >= 5
            if how == "removed":
                await here.session.delete(znodes.CONTROLLER_EPOCH)
            else:
                await here.session.set(znodes.CONTROLLER_EPOCH, b"2")
            await here.session.delete(znodes.CONTROLLER)

            async def counted_on() -> bool:
                return int((await here.session.get(znodes.CONTROLLER_EPOCH))[0] or b"") > newest

            await until(counted_on)
            await said(caplog, "epoch_set_back", f"found={newest}")
            await here.session.delete("/brokers/ids/1")

            async def led_by_another() -> bool:
                state = await here.node(path)
                return bool(state["leader"] == 2 and state["controller_epoch"] > newest)

            await until(led_by_another)

    run(test)
