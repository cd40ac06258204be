"""A broker: what outlives its process, and the process. In that everything is as it is shipped but the replicas.

A life that is dead does nothing any more, at one instant: its streams are broken, and only then are its tasks
cancelled. One that stands still hears nothing and says nothing, and its tasks have no turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

import zab
from harness.checkers.controller.facts import Obeyed, Registered
from harness.checkers.ghost import Violation
from harness.checkers.service import NoCrash
from harness.worlds.controller.replicas import Replicas
from harness.worlds.stack.controller.links import Frail
from harness.worlds.stack.controller.observed_controller import Candidate, ObservedController
from harness.worlds.stack.controller.session import StoreClient
from harness.worlds.stack.network import LifeNetwork
from harness.worlds.stack.scheduler import WHOSE
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
from zab.net.wakeup import Wakeup

if TYPE_CHECKING:
    from harness.worlds.stack.controller.world import ControllerWorld

LOOKS_S: Final = 0.04
"""At its followers."""
PORT: Final = 9_092
CLIENTS_FROM, EARS_FROM = 1_000, 2_000
"""Where brokers stand in the network: as clients of the store, and as those who hear controllers."""
PACE: Final = Pace(balance_s=None, pause_s=0.05, pause_s_max=0.4)
PAUSE_S: Final = 0.05
CONNECT_S, ANSWER_S, BACKOFF_S = 0.3, 0.3, 0.02
FAREWELLS: Final = 5


def host_of(broker: int) -> str:
    return f"b{broker}"


class Ear(ClientPlace):
    """Where one life of a broker hears controllers, and from where it speaks when it is one."""

    def __init__(self, broker: int) -> None:
        super().__init__(EARS_FROM + broker)
        self.dead = False


class Life:
    """One process."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.world = broker.world
        self.number = broker.life
        self.scope = trio.CancelScope()
        self.ear = Ear(broker.id)
        self.killed = self.ending = False
        self.candidate: Candidate | None = None
        handler = ControllerCommandHandler(self._obeys_from, self._obey, me=broker.id)
        self.commands = CommandServer(handler, lambda request: grant_shutdown(self._controller, request))
        random = broker.random
        former = broker.sessions if random.random() < 0.7 else ()
        self.registration = Registration(
            self._open,
            broker.described,
            self._now_ms,
            former=former,
            remember=broker.sessions.append,
            settings=RegistrationSettings(pause_s=PAUSE_S),
        )

    # -- what it is given ------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self.world.now_ms

    def _open(self) -> AbstractAsyncContextManager[zab.Session]:
        return self.broker.store_client.opened(self.world.session_ms, lambda: self.killed or self.world.over)

    async def _dial(self, endpoint: Endpoint, _: object) -> trio.abc.Stream:
        return await self.world.network.connect(self.ear, endpoint.host, endpoint.port)

    # -- from its start to its end ---------------------------------------------------------------------

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            [listener] = await LifeNetwork(self.world.network, self.ear).listen(host_of(self.broker.id), PORT)
            nursery.start_soon(self._hear, listener, nursery)
            await self._prepare()
            while True:
                try:
                    await self.registration.run(self._live)
                except zab.ZabError:  # a store that cannot be reached at the start: somebody starts it again
                    await trio.sleep(PAUSE_S)

    async def _hear(self, listener: trio.abc.Listener[Any], nursery: trio.Nursery) -> None:
        while True:
            end = await listener.accept()
            nursery.start_soon(self.commands.serve, Frail(end, self.broker.random))

    async def _prepare(self) -> None:
        while True:
            try:
                async with self._open() as session:
                    await prepare(session)
                return
            except zab.ZabError:
                await trio.sleep(PAUSE_S)

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
                nursery.start_soon(self._keep_isrs, session)
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
        return None if acting is None else Endpoint("PLAINTEXT", host_of(acting), PORT)

    async def leave(self) -> None:
        WHOSE.set(self.broker)
        settings = ShutdownSettings(tries=FAREWELLS, pause_s=0.03, answer_s=ANSWER_S, dial=self._dial)
        await request_shutdown(self.broker.id, lambda: self.registration.epoch, self.find_controller, settings)

    # -- commands --------------------------------------------------------------------------------------

    def _obeys_from(self) -> BrokerEpoch:
        return UNREGISTERED if self.killed else self.registration.accepts_from

    def _obey(self, command: Command) -> Mapping[TopicPartition, int]:
        world, broker = self.world, self.broker
        world.record(0, f"broker {broker.id}", 0, f"obeys {command}" if world.trace is not None else "")
        world.fact(
            Obeyed(
                world.now, broker.id, self.number, command.broker_epoch, command.controller, command.controller_epoch
            )
        )
        return broker.replicas.obey(command)

    # -- the ISRs of what it leads -----------------------------------------------------------------------

    async def _keep_isrs(self, session: zab.Session) -> None:
        replicas, world = self.broker.replicas, self.world
        while True:
            await trio.sleep(LOOKS_S)
            before = dict(replicas.roles)
            for where, isr in replicas.wishes(world.now_ms, self._fetches).items():
                role = before[where]
                if replicas.roles.get(where) is role:  # else it has heard of another while it wrote the one before
                    await self._write_isr(session, role, isr)

    def _fetches(self, follower: BrokerId, where: TopicPartition, epoch: LeaderEpoch) -> bool:
        other = self.world.brokers[follower]
        return other.up and not other.paused and other.replicas.fetches(self.broker.id, where, epoch)

    async def _write_isr(self, session: zab.Session, role: Role, isr: tuple[BrokerId, ...]) -> None:
        """Only on the state that it knows. If that is not the one any more, what is there is looked at, not written."""
        where, path = role.where, znodes.state_path(role.where)
        wished = self.broker.replicas.wish(role, isr)
        try:
            await session.set(path, znodes.partition_state(wished), version=wished.version)
        except zab.NoNode:
            return
        except (zab.BadVersion, zab.OutcomeUnknown):
            await session.sync(path)
        try:
            data, stat = await session.get(path)
        except zab.NoNode:
            return
        state = znodes.read_partition_state(where, data, Version(stat.version))
        self.broker.replicas.written(role, state)
        if (state.leader_epoch, state.isr) == (wished.leader_epoch, wished.isr):
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


class Broker:
    def __init__(self, world: ControllerWorld, number: int) -> None:
        self.world = world
        self.id = BrokerId(number)
        self.random = Random(f"{world.script.seed}/broker/{number}")
        self.replicas = Replicas(self.id)
        self.described = Described(
            self.id, NO_EPOCH, (Endpoint("PLAINTEXT", host_of(number), PORT),), {"PLAINTEXT": "PLAINTEXT"}
        )
        self.sessions: list[int] = []
        """That were this broker's: on its disk."""
        self.store_client = StoreClient(world, CLIENTS_FROM + number)
        self.life = 0
        self.now: Life | None = None
        self.paused = False
        self._unheard = self._unseen = False
        self._wanted = self._begun = False
        self._bell = Wakeup()
        world.network.places[host_of(number)] = -(EARS_FROM + number)

    @property
    def up(self) -> bool:
        return self.now is not None and not self.now.ending

    @property
    def candidate(self) -> Candidate | None:
        return None if self.now is None else self.now.candidate

    # -- its lives -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Unless it runs. One that is about to end is started when it has."""
        if self.up:
            return
        self._wanted = True
        self._bell.ring()
        if not self._begun:
            self._begun = True
            self.world.beside(self._live)

    async def _live(self) -> None:
        WHOSE.set(self)
        while True:
            while not self._wanted:
                await self._bell.wait()
            self._wanted = False
            self.life += 1
            self.replicas.restarted()
            self.store_client.come_back()
            life = self.now = Life(self)
            try:
                with life.scope:
                    await life.run()
            except Exception as error:
                if not life.killed:
                    self.world.violated(Violation(NoCrash.promise, f"broker {self.id} fell over {error!r}"))
            self._take_away(life)

    def _take_away(self, life: Life) -> None:
        if not life.ear.dead:
            life.ear.dead = life.ending = life.killed = True
            self.paused = False
            self.world.still.go_on(self)
            for place in (self.store_client.place, life.ear):
                self.world.network.crashed(place)
            if self.now is life:
                self.now = None

    def die(self) -> None:
        """Killed: its session ends when its time is over."""
        life = self.now
        if life is not None and not life.killed:
            self.world.record(0, f"broker {self.id}", 0, "is killed")
            self._take_away(life)
            life.scope.cancel()

    def end(self) -> None:
        """In good order: it says goodbye, if it can."""
        life = self.now
        if life is not None and not life.ending:
            self.world.record(0, f"broker {self.id}", 0, "is told to end")
            life.ending = True
            self.go_on()
            life.scope.cancel()

    # -- what happens to it ------------------------------------------------------------------------------

    def pause(self) -> bool:
        if not self.up or self.paused:
            return False
        self.paused = True
        for place in (self.store_client.place.id, self._ear):
            self.world.network.stand_still(place)
        self.world.still.stop(self)
        return True

    def go_on(self) -> None:
        if self.paused:
            self.paused = False
            for place in (self.store_client.place.id, self._ear):
                self.world.network.go_on(place)
            self.world.still.go_on(self)

    def lose_store(self) -> bool:
        return self.up and self.store_client.vanish()

    def find_store(self) -> None:
        self.store_client.come_back()

    @property
    def unheard(self) -> bool:
        """No controller can reach it, or none hears what it answers."""
        return self._unheard

    @unheard.setter
    def unheard(self, unheard: bool) -> None:
        if unheard is self._unheard:
            return
        self._unheard = unheard
        network = self.world.network
        if unheard:
            self._unseen = self.random.random() < 0.5
        for other in self.world.brokers:
            if other != self.id:
                shut = network.clog if unheard else network.unclog
                shut(self._ear, -(EARS_FROM + other))
                if self._unseen:
                    shut(-(EARS_FROM + other), self._ear)

    @property
    def _ear(self) -> int:
        return -(EARS_FROM + self.id)
