"""A broker: a process with a session of the store, replicas that follow commands, and a candidacy.

Its own actions go through `later`: they are dropped if the process has ended, and postponed while it is paused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from random import Random
from typing import Any, Final

from harness.checkers.controller.facts import CommandApplied, Registered
from harness.checkers.oracle_state import Violation
from harness.checkers.service import NoCrash
from harness.history import Request
from harness.worlds.controller.administration import NEEDED, prepare
from harness.worlds.controller.replicas import Replicas
from harness.worlds.cores.controller.candidate import Candidate
from harness.worlds.cores.controller.nodes import Job, NodesClient, Note, Pause, Strike
from harness.worlds.cores.controller.simulator import ControllerSimulator
from kraft_controller.core import store_requests as requests
from kraft_controller.core.broker_epoch import BrokerEpochFence
from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.commands import Answer, Command, Numbered, Role
from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Broker as Registration
from kraft_controller.core.state import Endpoint, PartitionState
from kraft_controller.wire import znodes

CHECK_MS: Final = 40
"""The period of the check of its followers."""
PIECE_US: Final = 500
"""The pause between two pieces of a command."""
RETRY_MS: Final = 30
"""The pause before it checks again whether its last registration has ended, or whether it reaches the store."""


class Broker:
    needed: tuple[str, ...] = NEEDED
    """The nodes that a broker creates if they are missing."""

    def __init__(self, world: ControllerSimulator, number: int) -> None:
        self.world = world
        self.id = BrokerId(number)
        self.replicas = Replicas(self.id)
        self.random = Random(f"{world.script.seed}/broker/{number}")
        self.up = self.paused = False
        self.unreachable = False
        """True while no controller can reach the broker."""
        self.life = 0
        self.session = 0
        self._fence = BrokerEpochFence()
        self.client: NodesClient | None = None
        self.candidate: Candidate | None = None
        self._jobs: list[Job] = []
        self._writing: set[TopicPartition] = set()
        self._backlog: list[Callable[[], None]] = []

    # -- the process -------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.up:
            return
        self.up, self.life = True, self.life + 1
        self._fence, self.session = BrokerEpochFence(), 0
        self.replicas.restarted()
        self.commands = ControllerCommandHandler(lambda: self.epoch, self._apply_command, me=self.id)
        self._writing.clear()
        self._begin()
        self.later(CHECK_MS * 1_000, self._check_followers)

    def _begin(self) -> None:
        life = self.life

        def on_watch_event(path: str) -> None:
            if self.life == life:
                self._on_watch_event(path)

        def on_session_event(state: str) -> None:
            if self.life == life:
                self._on_session_event(state)

        self.client = self.world.new_client(on_watch_event, on_session_event)
        self.client.strike_at = self._strike_at
        self._connect(self.client)

    def _connect(self, client: NodesClient) -> None:
        server = self.world.servers[1 + int(self.random.random() * self.world.script.voters)]
        client.connect(server, self.world.session_ms)

    def die(self) -> None:
        """Kill the process. Its session expires later."""
        if self.up:
            self._stop()
            assert self.client is not None
            self.client.die()

    def end(self) -> None:
        """End the process in good order, and close its session."""
        if self.up:
            client = self.client
            assert client is not None
            reachable = not client.vanished
            self._stop()
            client.leave()
            if not reachable:  # the session expires later
                client.die()

    def _stop(self) -> None:
        self._over()
        self.up = self.paused = False
        self._backlog.clear()

    def _over(self) -> None:
        """End everything that belongs to the session."""
        for job in self._jobs:
            job.drop()
        self._jobs.clear()
        self._writing.clear()
        if self.candidate is not None:
            self.candidate.end()
            self.candidate = None
        self.session = 0

    def pause(self) -> bool:
        if not self.up or self.paused:
            return False
        assert self.client is not None
        self.paused = True
        self.client.vanish()
        return True

    def resume(self) -> None:
        """Resume the process. It carries out its postponed actions, and reconnects its session after that."""
        if not self.paused:
            return
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for act in backlog:
            act()
        self.find_store()

    def lose_store(self) -> bool:
        return self.up and self.client is not None and self.client.vanish()

    def _strike_at(self, request: Request) -> Strike | None:
        op = self.world.strikes.due(self.id, request)
        return None if op is None else Strike(op.edge, lambda: self.world.workload.strike(op, self))

    def find_store(self) -> None:
        if self.client is not None and not self.paused:
            self.client.come_back()

    def later(self, wait_us: int, act: Callable[[], None]) -> None:
        self.world.push(self.world.now + wait_us, self._now, act, self.life)

    def _now(self, act: Callable[[], None], life: int) -> None:
        if life != self.life or not self.up:
            return
        if self.paused:
            self._backlog.append(lambda: self._now(act, life))
        else:
            act()

    def soon(self, act: Callable[[], None]) -> None:
        """Call `act` at once, or when the broker is resumed, unless the process ends before."""
        self._now(act, self.life)

    @property
    def epoch(self) -> BrokerEpoch:
        """The zxid of its node, or the lowest zxid that the node can get."""
        return self._fence.accepts_from

    def do(self, work: Any, done: Callable[[Any], None], failed: Callable[[Exception], None] | None = None) -> Job:
        """Run a procedure while the session lasts."""
        assert self.client is not None
        self._jobs = [job for job in self._jobs if not job.over]
        job = Job(self.client, self.later, work, done, failed or self._fail)
        self._jobs.append(job)
        return job

    def _fail(self, error: Exception) -> None:
        self.world.violated(Violation(NoCrash.invariant, f"broker {self.id} fails with {error!r}"))

    # -- its session -------------------------------------------------------------------------------------

    def _on_session_event(self, state: str) -> None:
        client = self.client
        if client is None or not self.up:
            return
        if state == "connected" and client.session != self.session:
            self.session = client.session
            self.do(self._register(), self._registered)
        elif state in ("expired", "closed"):
            self._over()
            self.later(1_000, self._reconnect)

    def _reconnect(self) -> None:
        if not self.session and self.client is not None and not self.client.wanted:
            if self.client.vanished:  # the client cannot dial now, and would not try again
                self.later(RETRY_MS * 1_000, self._reconnect)
                return
            self._connect(self.client)

    def _register(self) -> requests.StoreRequests[int]:
        """Create the node of the broker, once the node of an earlier session is gone."""
        yield from prepare(self.needed)
        path, session = znodes.broker_path(self.id), self.session
        if not self._fence.listed:
            yield [requests.Sync(znodes.BROKERS)]
            [above] = yield [requests.Exists(znodes.BROKERS)]
            assert isinstance(above, requests.Node)
            self._fence.list_read(above.below)
        endpoint = Endpoint("PLAINTEXT", f"b{self.id}", 9_092)
        registration = Registration(self.id, BrokerEpoch(0), (endpoint,), {"PLAINTEXT": "PLAINTEXT"})
        while True:
            [there] = yield [requests.Exists(path)]
            if isinstance(there, requests.Node):
                if there.owner == session:
                    return there.made
                yield [Pause(RETRY_MS)]  # type: ignore[list-item]  # `Job` handles pauses
                continue
            data = znodes.broker(registration, self.world.now_ms)
            [made] = yield [requests.Multi((requests.Create(path, data, ephemeral=True),))]
            if isinstance(made, requests.Failed) and made.why is requests.Why.UNKNOWN:
                yield [requests.Sync(path)]

    def _registered(self, made: int) -> None:
        self._fence.registered(BrokerEpoch(made))
        self.world.fact(Registered(self.world.now, self.id, self.life, self.session, made))
        self.candidate = Candidate(self)

    def _on_watch_event(self, path: str) -> None:
        if self.up and self.candidate is not None:
            candidate = self.candidate
            self.later(0, lambda: candidate.on_watch_event(path))

    # -- commands ----------------------------------------------------------------------------------------

    def receive(self, numbered: Numbered, answered: Callable[[Answer], None]) -> None:
        def begin() -> None:
            pieces = self.commands.handle_in_pieces(numbered)
            next(pieces)
            self._handle(pieces, answered)

        self.later(0, begin)

    def _handle(self, pieces: Generator[None, None, Answer], answered: Callable[[Answer], None]) -> None:
        """Execute the next piece of a command, and the others later. A command with few partitions has one piece."""
        try:
            next(pieces)
        except StopIteration as end:
            answered(end.value)
        else:
            self.later(PIECE_US, lambda: self._handle(pieces, answered))

    def _apply_command(self, command: Command) -> Mapping[TopicPartition, int]:
        self._record_command(command)
        return self.replicas.apply_command(command)

    def _record_command(self, command: Command) -> None:
        world = self.world
        if world.trace is not None:
            world.record(0, f"broker {self.id}", 0, f"obeys {command}")
        epochs = command.broker_epoch, command.controller, command.controller_epoch
        world.fact(CommandApplied(world.now, self.id, self.life, *epochs))

    # -- the ISRs of led partitions ----------------------------------------------------------------------

    def _check_followers(self) -> None:
        self.later(CHECK_MS * 1_000, self._check_followers)
        if not self.session or self.candidate is None:
            return
        for where, isr in self.replicas.wanted_isrs(self.world.now_ms, self._fetches).items():
            if where not in self._writing:
                self._writing.add(where)
                role = self.replicas.roles[where]
                self.do(self._write_isr(role, isr), lambda _, where=where: self._writing.discard(where))  # type: ignore[misc]

    def _fetches(self, follower: BrokerId, where: TopicPartition, epoch: LeaderEpoch) -> bool:
        other = self.world.brokers[follower]
        return other.up and not other.paused and other.replicas.fetches(self.id, where, epoch)

    def _write_isr(self, role: Role, isr: tuple[BrokerId, ...]) -> requests.StoreRequests[None]:
        """Write an ISR over the state that the leader has. If that state is outdated, read the present one instead."""
        where, path = role.where, znodes.state_path(role.where)
        wished = self.replicas.with_isr(role, isr)
        [outcome] = yield [requests.Multi((requests.Set(path, znodes.partition_state(wished), wished.version),))]
        if isinstance(outcome, requests.Done):
            [version] = outcome.versions
            assert version is not None
        elif outcome.why is requests.Why.NO_NODE:  # type: ignore[union-attr]
            return
        else:
            yield [requests.Sync(path)]
        [node] = yield [requests.Get(path)]
        if not isinstance(node, requests.Node):
            return
        state = znodes.read_partition_state(where, node.data, node.version)
        self.replicas.state_written(role, state)
        if _is_from(state, wished):
            self.world.counted("isr written")
            note = Note(f"{znodes.ISR_CHANGES}/isr_change_", znodes.partitions([where]))
            while isinstance((yield [note])[0], requests.Failed):  # type: ignore[list-item]
                pass


def _is_from(state: PartitionState, wished: PartitionState) -> bool:
    return (state.leader_epoch, state.isr) == (wished.leader_epoch, wished.isr)
