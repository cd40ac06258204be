"""A simulated cluster of store servers with real clients: its workload, liveness check and verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import trio
from attrs import evolve

from harness.changes import changes_of_batch
from harness.checkers import ALL, Checker
from harness.checkers.store import ended_early, quotas
from harness.checkers.store.case import Case
from harness.checkers.store.judge import check_invariants
from harness.faults import Script
from harness.history import Event, History, Jump, Request
from harness.outcome import Outcome
from harness.script.workload import has_lists
from harness.worlds.cores.liveness import INVARIANT, Liveness
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.cores.store.checks import committed, exactly_once, owned, same_counts, same_lists
from harness.worlds.cores.store.client_service import TICKS_MAX
from harness.worlds.cores.store.liveness import CLIENT_ROUNDS, KINDS, ONCE
from harness.worlds.cores.store.server_deletions import left_over, timely
from harness.worlds.cores.store.simulator import INSTEAD, with_cause
from harness.worlds.cores.store.workload import StoreWorkload as CoreWorkload
from harness.worlds.recorded import Recorder
from harness.worlds.stack.members import AnyServerWorkload, World
from harness.worlds.stack.server import Server
from harness.worlds.stack.store.client import Client
from harness.worlds.stack.store.server import StoreLife
from zab.core.errors import OutcomeUnknown
from zab.core.zxid import ServerId, Zxid
from zab.session.session_errors import StoreError
from zab.store.paths import ROOT, SYSTEM, child_of


class StoreRecorder(Recorder):
    """A recorder that ignores events after the end of the run."""

    def __init__(self, world: StoreWorld) -> None:
        super().__init__(lambda: world.now)
        self._world = world

    def add(self, event: Event) -> None:
        if not self._world.over:
            super().add(event)
            self._world.record(0, "client", event.client, event)


class StoreWorkload(AnyServerWorkload, CoreWorkload):
    clients_reconfigure = False

    def client(self, number: int) -> Any:
        client = self.clients.get(number)
        if client is None:
            world: Any = self.world
            made: Any = Client(world, world.recorder, number)
            client = self.clients[number] = made
        return client


class Reader(Client):
    """Reads every node once. It reads the children of a node concurrently, so that the time does not grow with them."""

    done = False

    async def read(self) -> None:
        await self._ask_until_answered(Request("sync", ROOT))
        async with trio.open_nursery() as nursery:
            await self._read(ROOT, nursery)
        self.done = True

    async def _read(self, path: str, nursery: trio.Nursery) -> None:
        await self._ask_until_answered(Request("get", path))
        for name in await self._ask_until_answered(Request("children", path)) or ():
            if (child := child_of(path, name)) != SYSTEM:
                nursery.start_soon(self._read, child, nursery)

    async def _ask_until_answered(self, request: Request) -> Any:
        while True:
            found, error = await self.outcome(request)
            if error is None:
                return found[0] if request.op == "children" else found
            if isinstance(error, StoreError) and not isinstance(error, OutcomeUnknown) and self.alive is not None:
                return None  # a refusal, for example of a missing node, is an answer


class StoreLiveness(Liveness):
    """Waits after the last fault until servers agree and clients have their sessions and their watches again.

    A client with a new session reads everything after a sync, so that few outcomes stay unknown.
    """

    def __init__(self, world: StoreWorld) -> None:
        same: Any = world
        super().__init__(same)
        self._store_world = world
        self._reader: Reader | None = None
        self._lists = has_lists(world.script.ops)
        self.bound_ms += CLIENT_ROUNDS * world.settings.tick_ms * TICKS_MAX

    def begin(self) -> None:
        for client in self._store_world.clients():
            client.come_back()
        super().begin()

    def _unwritten(self) -> str | None:
        """Start the last reader, and wait for it. The creation of its session is the new write."""
        world = self._store_world
        for client in world.clients():
            if client is not self._reader and not client.settled:
                return client.state
        if self._reader is None:
            number = max((client.id for client in world.clients()), default=0) + 1
            self._reader = Reader(world, world.recorder, number)
            world.add(self._reader)
            world.spawn(self._reader.read)
        return None if self._reader.done else "the last reader has not read all nodes"

    def _unequal(self, leader: CoreServer) -> str | None:
        missing = super()._unequal(leader)
        if missing is not None:
            return missing
        world = self._store_world
        for client in world.clients():
            if client.connected and (missed := self._unwatched(client)):
                return f"client {client.id} watches {missed}, but its server has no such watches"
        state: Any = leader.machine
        still = left_over(state.store.tree.nodes, world.servers[leader.id].clock.wall_ms())
        if still is not None:
            return still
        exactly_once(world.ghost)
        timely(world.ghost)
        machines: list[tuple[int, Any]] = [(each.id, each.machine) for each in world.servers[1:] if each.up]
        for number, machine in machines:
            owned(number, machine)
        alike: Any = [each for each in machines if each[1].zxid == leader.machine.zxid]
        same_lists(alike)
        same_counts(alike)
        return None

    def _unwatched(self, client: Client) -> list[str]:
        """Return the watches that the client has and its server does not."""
        server = self._store_world.servers[client.server]
        life = server.now
        assert isinstance(life, StoreLife)
        assert client.session is not None
        connection: Any = life.store.clients.sessions.attached.get(client.session.id) if server.up else None
        watches = life.store.machine.watches
        return [
            f"{path} ({kind.name.lower()})"
            for paths, kind in zip(client.watch_manager.lists(), KINDS, strict=True)
            for path in paths
            if (connection is None or not watches.has(path, connection, kind)) and not (self._lists and kind in ONCE)
        ]


class StoreWorld(World):
    workload: StoreWorkload

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.recorder = StoreRecorder(self)
        self._jumps: list[Jump] = []
        self._prepared: dict[int, int] = {}
        """The last zxid that the leader had applied when it made a transaction, by the zxid of the transaction."""
        super().__init__(script, trace=trace, checkers=[INSTEAD.get(checker, checker) for checker in checkers])

    def life(self, server: Server) -> StoreLife:
        return StoreLife(server, self._prepared)

    def make_workload(self) -> StoreWorkload:
        same: Any = self
        return StoreWorkload(same)

    def make_liveness(self) -> Liveness:
        return StoreLiveness(self)

    def clients(self) -> list[Client]:
        found: Iterable[Any] = self.workload.clients.values()
        return list(found)

    def add(self, client: Client) -> None:
        made: Any = client
        self.workload.clients[client.id] = made

    def jumped(self, server: ServerId, zxid: Zxid) -> None:
        self._jumps.append(Jump(server, zxid))

    def history(self) -> History:
        changes = [change for batch in committed(self.ghost) for change in changes_of_batch(batch)]
        return History(tuple(self.recorder.events), tuple(changes), tuple(self._jumps))

    def outcome(self) -> Outcome:
        """Judge the history of the clients at the end of the run, as the simulator of cores does."""
        outcome = evolve(super().outcome(), acknowledged=self.recorder.acknowledged)
        if outcome.invariant not in (None, INVARIANT):
            return outcome
        assert outcome.history is not None, "a run of the store has a history"
        case = Case.of(outcome.history)
        verdict = check_invariants(case)
        if verdict.valid:  # all have one clock here, so clients can tell whether a session was ended too early
            early = ended_early(case.history)
            verdict = evolve(verdict, broken=(*quotas.check(case, self._prepared), *early))
        return with_cause(outcome, verdict)
