"""A cluster without disks: a store with a port, brokers that are registered and obey, controllers, and commands."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

import zab
from kraft_controller.core import controller_events as events
from kraft_controller.core.commands import Command, LeaderAndIsr, StopReplica
from kraft_controller.core.event_queue import NotController
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.core.topics.alter_partition import IsrChange, IsrMember
from kraft_controller.runtime.controller import Controller, ControllerEnvironment, Pace
from kraft_controller.wire import znodes
from replica.cli import main

SECONDS = 240


@frozen
class Said:
    code: int
    out: str
    err: str

    @property
    def told(self) -> tuple[int, Any]:
        return self.code, json.loads(self.out)

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Site:
    def __init__(self, store: zab.StoreServer, session: zab.Session) -> None:
        self.store = store
        self.session = session
        self.at = f"127.0.0.1:{store.client_port}"

    async def command(self, *words: str) -> Said:
        """As a person types it."""
        return await trio.to_thread.run_sync(lambda: command(*words, "--store", self.at))

    async def done(self, *words: str) -> Any:
        said = await self.command(*words)
        assert said.code == 0, said
        return json.loads(said.out) if "--json" in words else said.out

    async def node(self, path: str) -> Any:
        data, _ = await self.session.get(path)
        return json.loads(data or b"null")

    async def register(self, number: int, rack: str | None = None) -> None:
        ends = (Endpoint("PLAINTEXT", f"h{number}", 9092),)
        known = Broker(BrokerId(number), BrokerEpoch(0), ends, {"PLAINTEXT": "PLAINTEXT"}, rack)
        await self.session.create(znodes.broker_path(BrokerId(number)), znodes.broker(known, 1), ephemeral=True)


def command(*words: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code: Any = main(words)
        except SystemExit as end:
            code = end.code
    return Said(int(code), out.getvalue(), err.getvalue())


class Wires:
    """Every command arrives at once, at brokers that do as they are told: who is told to follow catches up.

    `stuck` do not catch up, and `silent` do not say that they have deleted anything.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.controller: Controller
        self.known: Mapping[BrokerId, Broker] = {}
        self.said: list[tuple[BrokerId, Command]] = []
        self.stuck: set[int] = set()
        self.silent: set[int] = set()
        self.scope = trio.CancelScope()
        self._nursery = nursery

    async def run(self) -> None:
        """Its controller, until `scope` is cancelled."""
        with self.scope:
            await self.controller.run()

    def update_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        self.known = dict(brokers)

    def send(self, to: BrokerId, command: Command) -> None:
        self.said.append((to, command))
        if isinstance(command, StopReplica):
            done = tuple(stop.where for stop in command.stops if stop.delete)
            if done and to not in self.silent:
                self.controller.note(events.StopReplicaReplied(to, command.broker_epoch, done, ()))
        if isinstance(command, LeaderAndIsr):
            for role in command.roles:
                self._nursery.start_soon(self.catch_up, role.where)

    async def catch_up(self, where: TopicPartition) -> None:
        """What followers fetch makes the leader ask for a greater ISR."""
        term = self.controller.term
        state = None if term is None else term.context.states.get(where)
        if term is None or state is None or state.leader not in self.known:
            return
        held = term.context.replicas_of(where)
        isr = [b for b in held if b in self.known and (b in state.isr or b not in self.stuck)]
        if set(isr) > set(state.isr) & set(self.known):
            change = IsrChange(where, state.leader_epoch, state.version, tuple(map(IsrMember, isr)))
            with suppress(NotController):
                await self.controller.ask(
                    events.AlterPartitionRequested(state.leader, self.known[state.leader].epoch, (change,))
                )

    def close(self) -> None:
        pass


@asynccontextmanager
async def led(path: Path, racks: Mapping[int, str | None], **pace: Any) -> AsyncIterator[tuple[Site, Wires]]:
    """The same with a controller."""
    async with site(path, racks) as here, here.store.session() as session, trio.open_nursery() as nursery:
        wires = Wires(nursery)
        environment = ControllerEnvironment(lambda: 1_700_000_000_000, secrets.token_bytes)
        slow = Pace(**{"balance_s": None, "pause_s": 0.01, **pace})
        wires.controller = Controller(session, BrokerId(1), wires, environment, pace=slow)
        nursery.start_soon(wires.run)
        while not wires.controller.active:
            await trio.sleep(0.01)
        yield here, wires
        nursery.cancel_scope.cancel()


async def until(check: Callable[[], Awaitable[Any]]) -> None:
    """Whatever it takes to come about; the test as a whole has an end."""
    while True:
        with suppress(zab.NoNode, KeyError):
            if await check():
                return
        await trio.sleep(0.01)


@asynccontextmanager
async def site(path: Path, racks: Mapping[int, str | None] | None = None) -> AsyncIterator[Site]:
    async with zab.open_store(path, client_port=0) as store, store.session() as session:
        for node in znodes.PERSISTENT:
            await session.ensure_path(node)
        made = Site(store, session)
        for number, rack in (racks or {}).items():
            await made.register(number, rack)
        yield made


def run(test: Callable[[], Any]) -> None:
    async def bounded() -> None:
        with trio.fail_after(SECONDS):
            await test()

    trio.run(bounded)
