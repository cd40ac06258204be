"""Candidates at a real store: one is elected, leads and is deposed, and the next one finishes what it began."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import zab
from kraft_controller.core import controller_events as events
from kraft_controller.core.commands import Command, LeaderAndIsr, StopReplica
from kraft_controller.core.event_queue import EventFailed, NotController
from kraft_controller.core.kafka_controller import KafkaController
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.state import Assignment, Broker, Endpoint
from kraft_controller.runtime import controller
from kraft_controller.runtime.controller import Controller, ControllerEnvironment, Pace, event_of_path
from kraft_controller.wire import znodes

T0 = TopicPartition("t", 0)
SECONDS = 240
PACE = Pace(balance_s=None)


class Wires:
    """Every command arrives at once. Replicas that are told to go say that they went."""

    def __init__(self) -> None:
        self.controller: Controller
        self.known: Mapping[BrokerId, Broker] = {}
        self.said: list[tuple[BrokerId, Command]] = []
        self.closed = 0

    def update_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        self.known = dict(brokers)

    def send(self, to: BrokerId, command: Command) -> None:
        self.said.append((to, command))
        if isinstance(command, StopReplica):
            done = tuple(stop.where for stop in command.stops if stop.delete)
            if done:
                self.controller.note(events.StopReplicaReplied(to, command.broker_epoch, done, ()))

    def close(self) -> None:
        self.closed += 1


class Candidate:
    def __init__(self, session: zab.Session, number: int, pace: Pace) -> None:
        self.session = session
        self.wires = Wires()
        chances = iter(range(1, 10_000))
        environment = ControllerEnvironment(lambda: 1_700_000_000_000, lambda size: next(chances).to_bytes(size))
        self.controller = Controller(session, BrokerId(number), self.wires, environment, pace=pace)
        self.wires.controller = self.controller
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            await self.controller.run()


@asynccontextmanager
async def cluster(
    path: Path, candidates: int = 1, brokers: int = 3, pace: Pace = PACE
) -> AsyncIterator[tuple[zab.Session, list[Candidate]]]:
    """A store with the nodes that brokers make, registered brokers, and candidates that run."""
    async with zab.open_store(path) as store, store.session() as session, trio.open_nursery() as nursery:
        for node in znodes.PERSISTENT:
            await session.ensure_path(node)
        for number in range(1, brokers + 1):
            await register(session, number)
        made = []
        for number in range(1, candidates + 1):
            own = await nursery.start(_session, store)
            made.append(Candidate(own, number, pace))
            nursery.start_soon(made[-1].run)
        yield session, made
        nursery.cancel_scope.cancel()


async def _session(store: zab.StoreServer, *, task_status: trio.TaskStatus[zab.Session]) -> None:
    async with store.session() as session:
        task_status.started(session)
        await trio.sleep_forever()


async def register(session: zab.Session, number: int) -> None:
    known = Broker(
        BrokerId(number), BrokerEpoch(0), (Endpoint("PLAINTEXT", f"h{number}", 9092),), {"PLAINTEXT": "PLAINTEXT"}
    )
    await session.create(znodes.broker_path(BrokerId(number)), znodes.broker(known, 1), ephemeral=True)


async def create_topic(session: zab.Session, name: str, *replicas: tuple[int, ...]) -> None:
    held = {number: Assignment(tuple(map(BrokerId, brokers))) for number, brokers in enumerate(replicas)}
    await session.create(znodes.topic_path(name), znodes.topic(None, held))


async def state(session: zab.Session, where: TopicPartition) -> dict[str, Any]:
    data, _ = await session.get(znodes.state_path(where))
    found: dict[str, Any] = json.loads(data or b"")
    return found


def led_by(session: zab.Session, leader: int, where: TopicPartition = T0) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return bool((await state(session, where))["leader"] == leader)

    return check


async def until(check: Any) -> None:
    """Whatever it takes to come about; the test as a whole has an end."""
    while True:
        try:
            if await check():
                return
        except (zab.NoNode, KeyError):
            pass
        await trio.sleep(0.01)


async def active(candidates: list[Candidate]) -> Candidate:
    while True:
        leading = [each for each in candidates if each.controller.active]
        if leading:
            return leading[0]
        await trio.sleep(0.01)


def run(test: Any) -> None:
    async def main() -> None:
        with trio.fail_after(SECONDS):
            await test()

    trio.run(main)


@pytest.mark.mechanism(34, 35, 37, 57, 58, 59, 70)
def test_one_of_three_is_elected_and_creates_a_topic(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path, 3) as (session, candidates):
            leading = await active(candidates)
            await create_topic(session, "t", (2, 3), (3, 1))

            async def led() -> bool:
                return (
                    bool((await state(session, T0))["leader"] == 2)
                    and (await state(session, TopicPartition("t", 1)))["leader"] == 3
                )

            await until(led)
            assert [each.controller.active for each in candidates].count(True) == 1
            assert (await session.get(znodes.CONTROLLER_EPOCH))[0] == b"1"
            data, _ = await session.get(znodes.CONTROLLER)
            assert json.loads(data or b"")["brokerid"] == leading.controller.controller
            topic = json.loads((await session.get(znodes.topic_path("t")))[0] or b"")
            assert len(topic["topic_id"]) == 22
            with pytest.raises(NotController):
                other = next(each for each in candidates if each is not leading)
                await other.controller.ask(events.ElectLeadersRequested((T0,)))

    run(test)


@pytest.mark.mechanism(36, 49, 57, 59, 76)
def test_next_controller_has_the_next_epoch(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path, 3) as (session, candidates):
            first = await active(candidates)
            await create_topic(session, "t", (1, 2))

            await until(led_by(session, 1))
            await session.delete(znodes.CONTROLLER)  # as when its session ends
            first.scope.cancel()
            left = [each for each in candidates if each is not first]
            await active(left)
            assert not first.controller.active
            assert first.wires.closed == 1
            await session.delete(znodes.broker_path(BrokerId(1)))

            await until(led_by(session, 2))
            assert (await state(session, T0))["controller_epoch"] == 2

    run(test)


@pytest.mark.mechanism(55, 79, 84)
def test_fenced_controller_writes_nothing(tmp_path: Path) -> None:
    """The epoch is counted up behind its back: its next change fails as a whole, and it steps down."""

    async def test() -> None:
        async with cluster(tmp_path, 1) as (session, [candidate]):
            await active([candidate])
            await create_topic(session, "t", (1, 2))

            await until(led_by(session, 1))
            await session.set(znodes.CONTROLLER_EPOCH, b"7")
            before = await state(session, T0)
            with pytest.raises(NotController):
                await candidate.controller.ask(events.AlterReassignmentsRequested({T0: (BrokerId(3),)}))
            assert await state(session, T0) == before

    run(test)


@pytest.mark.mechanism(50, 52, 66)
def test_broker_fails_and_returns(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (session, [candidate]):
            await create_topic(session, "t", (1, 2, 3))
            await active([candidate])

            await until(led_by(session, 1))
            await session.delete(znodes.broker_path(BrokerId(1)))

            async def led_by_two() -> bool:
                found = await state(session, T0)
                return bool(found["leader"] == 2 and found["isr"] == [2, 3])

            await until(led_by_two)

            async def known() -> bool:  # it stands in the store before it is said
                return set(candidate.wires.known) == {2, 3}

            await until(known)
            candidate.wires.said.clear()
            await register(session, 1)

            async def told() -> bool:
                return any(to == 1 and isinstance(command, LeaderAndIsr) for to, command in candidate.wires.said)

            await until(told)

    run(test)


@pytest.mark.mechanism(61, 65)
def test_reassignment_and_deletion_through_nodes(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (session, [candidate]):
            await create_topic(session, "t", (1, 2))
            await active([candidate])

            await until(led_by(session, 1))
            await session.create(znodes.REASSIGN, znodes.reassignment({T0: (BrokerId(3), BrokerId(2))}))

            async def moving() -> bool:
                return bool((await state(session, T0))["leader_epoch"] >= 1)

            await until(moving)
            data, stat = await session.get(znodes.state_path(T0))
            caught_up = json.loads(data or b"") | {"isr": [1, 2, 3]}
            await session.set(znodes.state_path(T0), json.dumps(caught_up).encode(), stat.version)

            async def moved() -> bool:
                return await session.exists(znodes.REASSIGN) is None

            await until(moved)
            assert (await state(session, T0))["leader"] == 3
            topic = json.loads((await session.get(znodes.topic_path("t")))[0] or b"")
            assert topic["partitions"] == {"0": [3, 2]}
            assert not topic["adding_replicas"]
            await session.create(f"{znodes.DELETE_TOPICS}/t")

            async def gone() -> bool:
                return await session.exists(znodes.topic_path("t")) is None and not await session.children(
                    znodes.DELETE_TOPICS
                )

            await until(gone)
            assert await session.exists(znodes.topic_path("t")) is None

    run(test)


def test_damaged_node_delays_no_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as (session, [candidate]):
            await active([candidate])
            await session.create(znodes.topic_path("broken"), b'{"version":3,"partit')
            await create_topic(session, "t", (1, 2))

            await until(led_by(session, 1))
            assert (await session.get(znodes.topic_path("broken")))[0] == b'{"version":3,"partit'
            assert candidate.controller.active

    run(test)


def test_request_that_fails_the_controller_is_not_retried_at_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usual = KafkaController.process

    def process(self: KafkaController, event: Any) -> Any:
        if isinstance(event, events.ElectLeadersRequested):
            raise KeyError("unforeseen")
        return usual(self, event)

    async def test() -> None:
        async with cluster(tmp_path, 3) as (_, candidates):
            first = await active(candidates)
            monkeypatch.setattr(KafkaController, "process", process)
            with pytest.raises(EventFailed, match="ElectLeadersRequested: KeyError"):
                await first.controller.ask(events.ElectLeadersRequested((T0,), False))
            while first.controller.active:
                await trio.sleep(0.01)
            assert [each.exc_info is not None for each in caplog.records if "resigns" in each.getMessage()] == [True]
            second = await active(candidates)
            assert await second.controller.ask(events.AlterReassignmentsRequested({})) == {}

    run(test)


def test_controller_resigns_at_once_if_events_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        too_many = trio.Event()

        async def note_changes(*_: object) -> None:
            await too_many.wait()
            raise zab.EventsLost("too many events were not read")

        monkeypatch.setattr(controller, "_note_changes", note_changes)
        async with cluster(tmp_path, 2, pace=Pace(balance_s=None, pause_s=SECONDS)) as (_, candidates):
            first = await active(candidates)
            monkeypatch.undo()
            too_many.set()
            while first.controller.active:
                await trio.sleep(0.01)
            assert "resigns as the controller: too many events were not read" in caplog.text
            with trio.fail_after(SECONDS / 8):
                assert await active(candidates) is not first, "the first one pauses"

    run(test)


def test_events_of_paths() -> None:
    assert event_of_path("/brokers/topics/a.b/partitions/7/state") == events.PartitionStateChanged(
        TopicPartition("a.b", 7)
    )
    assert event_of_path("/brokers/topics/t") == events.TopicModified("t")
    assert event_of_path("/brokers/ids/3") == events.BrokerModified(BrokerId(3))
    assert event_of_path("/brokers/ids/x") is None
    assert event_of_path("/elsewhere") is None
