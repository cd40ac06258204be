"""A broker without data: registration, controller and commands as shipped, and replicas without records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Final

import trio

import zab
from harness.checkers.controller.facts import CommandApplied, Registered
from harness.worlds.controller.replicas import Replicas
from harness.worlds.stack.controller import process
from harness.worlds.stack.controller.session import Candidate, ObservedController
from harness.worlds.stack.scheduler import OWNER
from harness.worlds.stack.store.client import ClientPlace
from kraft_controller.core.broker_epoch import UNREGISTERED
from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.commands import Command, Role
from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import Broker as Described
from kraft_controller.core.state import Endpoint
from kraft_controller.runtime.command_connections import CommandConnections, ConnectionSettings
from kraft_controller.runtime.command_server import CommandServer
from kraft_controller.runtime.controller import ControllerEnvironment, Pace
from kraft_controller.runtime.registration import NO_EPOCH, Registration, RegistrationSettings, prepare
from kraft_controller.runtime.shutdown_request import ShutdownSettings, grant_shutdown, request_shutdown
from kraft_controller.wire import znodes
from zab.net.memory_network import MemoryStream, ProcessNetwork

ISR_CHECK_S: Final = 0.04
"""The interval at which a leader checks its followers."""
PORT: Final = 9_092
PACE: Final = Pace(balance_s=None, pause_s=0.05, pause_s_max=0.4)
CONNECT_S, ANSWER_S, BACKOFF_S = 0.3, 0.3, 0.02
SHUTDOWN_TRIES: Final = 5
BREAK_CHANCE: Final = 0.01
"""The probability that the connection breaks at a command or at a reply."""


class UnreliableStream(trio.abc.Stream):
    """A broker's end of a controller's connection, which may break before it receives a command or sends a reply."""

    def __init__(self, end: MemoryStream, random: Random) -> None:
        self._end = end
        self._random = random

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = await self._end.receive_some(max_bytes)
        self._may_break()
        if self._end.broken:
            raise trio.BrokenResourceError("the connection broke")
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._may_break()
        await self._end.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._end.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._end.aclose()

    def _may_break(self) -> None:
        if self._random.random() < BREAK_CHANCE:
            self._end.break_off()
            self._end.net.reset(self._end.other)


class Life:
    """One process of a broker, from its start to its end."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.world = broker.world
        self.number = broker.life
        self.scope = trio.CancelScope()
        self.control = ClientPlace(process.CONTROL_FROM + broker.id)
        self.killed = self.ending = False
        self.candidate: Candidate | None = None
        handler = ControllerCommandHandler(self._accepts_from, self._apply_command, me=broker.id)
        self.commands = CommandServer(handler, lambda request: grant_shutdown(self._controller, request))
        random = broker.random
        former = broker.sessions if random.random() < 0.7 else ()
        self.registration = Registration(
            self._open,
            broker.described,
            self._now_ms,
            former=former,
            remember=broker.sessions.append,
            settings=RegistrationSettings(pause_s=process.PAUSE_S),
        )

    # -- its environment -------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self.world.now_ms)

    def _open(self) -> AbstractAsyncContextManager[zab.Session]:
        return self.broker.store_client.opened(self.world.session_ms, lambda: self.killed or self.world.over)

    async def _dial(self, endpoint: Endpoint, _: object) -> trio.abc.Stream:
        stream: trio.abc.Stream = await self.world.network.connect(self.control, endpoint.host, endpoint.port)
        return stream

    # -- from its start to its end ---------------------------------------------------------------------

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            [listener] = await ProcessNetwork(self.world.network, self.control).listen(
                process.host_of(self.broker.id), PORT
            )
            nursery.start_soon(self._accept, listener, nursery)
            await self._prepare()
            while True:
                try:
                    await self.registration.run(self._live)
                except zab.ZabError:  # the store cannot be reached at the start: retry, as an operator does
                    await trio.sleep(process.PAUSE_S)

    async def _accept(self, listener: trio.abc.Listener[Any], nursery: trio.Nursery) -> None:
        while True:
            end = await listener.accept()
            nursery.start_soon(self.commands.serve, UnreliableStream(end, self.broker.random))

    async def _prepare(self) -> None:
        while True:
            try:
                async with self._open() as session:
                    await prepare(session)
                return
            except zab.ZabError:
                await trio.sleep(process.PAUSE_S)

    async def _live(self, session: zab.Session) -> None:
        world, broker = self.world, self.broker
        world.fact(Registered(world.now, broker.id, self.number, session.id, self.registration.epoch))
        settings = ConnectionSettings(BACKOFF_S, CONNECT_S, ANSWER_S, dial=self._dial)
        links = CommandConnections(self._answered, settings)
        environment = ControllerEnvironment(self._now_ms, broker.random.randbytes)
        controller = ObservedController(session, broker.id, links, environment, pace=PACE)
        controller.broker = broker
        self.candidate = Candidate(world, controller)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(links.run)
                nursery.start_soon(controller.run)
                nursery.start_soon(self._update_isrs, session)
        finally:
            self.candidate = None

    @property
    def _controller(self) -> ObservedController | None:
        controller: Any = None if self.candidate is None else self.candidate.controller
        return controller  # type: ignore[no-any-return]

    def _answered(self, event: Any) -> None:
        if self._controller is not None:
            self._controller.note(event)

    def find_controller(self) -> Endpoint | None:
        acting = None if self._controller is None else self._controller.controller
        return None if acting is None else Endpoint("PLAINTEXT", process.host_of(acting), PORT)

    async def leave(self) -> None:
        OWNER.set(self.broker)
        settings = ShutdownSettings(tries=SHUTDOWN_TRIES, pause_s=0.03, answer_s=ANSWER_S, dial=self._dial)
        await request_shutdown(self.broker.id, lambda: self.registration.epoch, self.find_controller, settings)

    # -- commands --------------------------------------------------------------------------------------

    def _accepts_from(self) -> BrokerEpoch:
        return UNREGISTERED if self.killed else self.registration.accepts_from

    def _apply_command(self, command: Command) -> Mapping[TopicPartition, int]:
        world, broker = self.world, self.broker
        world.record(0, f"broker {broker.id}", 0, f"obeys {command}" if world.trace is not None else "")
        world.fact(
            CommandApplied(
                world.now, broker.id, self.number, command.broker_epoch, command.controller, command.controller_epoch
            )
        )
        return broker.replicas.apply_command(command)

    # -- the ISRs of what it leads -----------------------------------------------------------------------

    async def _update_isrs(self, session: zab.Session) -> None:
        replicas, world = self.broker.replicas, self.world
        while True:
            await trio.sleep(ISR_CHECK_S)
            before = dict(replicas.roles)
            for where, isr in replicas.wanted_isrs(world.now_ms, self._fetches).items():
                role = before[where]
                if replicas.roles.get(where) is role:  # it may have received another role during the previous write
                    await self._write_isr(session, role, isr)

    def _fetches(self, follower: BrokerId, where: TopicPartition, epoch: LeaderEpoch) -> bool:
        other = self.world.brokers[follower]
        return other.up and not other.paused and other.replicas.fetches(self.broker.id, where, epoch)

    async def _write_isr(self, session: zab.Session, role: Role, isr: tuple[BrokerId, ...]) -> None:
        """Write an ISR if its state has not changed. Then adopt the current state, also if the write failed."""
        where, path = role.where, znodes.state_path(role.where)
        wanted = self.broker.replicas.with_isr(role, isr)
        try:
            await session.set(path, znodes.partition_state(wanted), version=wanted.version)
        except zab.NoNode:
            return
        except (zab.BadVersion, zab.OutcomeUnknown):
            await session.sync(path)
        try:
            data, stat = await session.get(path)
        except zab.NoNode:
            return
        state = znodes.read_partition_state(where, data, Version(stat.version))
        self.broker.replicas.state_written(role, state)
        if (state.leader_epoch, state.isr) == (wanted.leader_epoch, wanted.isr):
            self.world.counted("isr written")
            await self._note_isr(session, where)

    @staticmethod
    async def _note_isr(session: zab.Session, where: TopicPartition) -> None:
        while True:
            try:
                await session.create(f"{znodes.ISR_CHANGES}/isr_change_", znodes.partitions([where]), sequential=True)
            except zab.OutcomeUnknown:
                continue
            return


class Broker(process.BrokerProcess):
    def __init__(self, world: Any, number: int) -> None:
        super().__init__(world, number)
        self.replicas = Replicas(self.id)
        self.described = Described(
            self.id, NO_EPOCH, (Endpoint("PLAINTEXT", process.host_of(number), PORT),), {"PLAINTEXT": "PLAINTEXT"}
        )
        self.sessions: list[int] = []
        """The former sessions of this broker, which are on its disk."""
        world.network.places[process.host_of(number)] = -(process.CONTROL_FROM + number)

    def make_life(self) -> Life:
        self.replicas.restarted()
        return Life(self)
