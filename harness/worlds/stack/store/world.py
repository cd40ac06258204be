"""A simulated cluster of store servers with real clients: its workload, liveness check and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import trio
from attrs import evolve

from harness.changes import changes_of_batch
from harness.checkers import ALL, Checker
from harness.faults import Script
from harness.history import Event, History, Jump, Request
from harness.outcome import Outcome
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.cores.store.checks import committed
from harness.worlds.cores.store.liveness import StoreLiveness as CoreLiveness
from harness.worlds.cores.store.simulator import INSTEAD, with_clients_judged
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
    world: Any
    clients_reconfigure = False

    def _new_client(self, number: int) -> Client:
        return Client(self.world, self.world.recorder, number)


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


class StoreLiveness(CoreLiveness):
    """The check of the simulator of cores, without the invariants of its client ports."""

    def _is_settled(self, client: Client) -> bool:
        return client is self._reader or client.settled

    def _new_reader(self, number: int) -> Reader:
        reader = Reader(self.world, self.world.recorder, number)
        self.world.spawn(reader.read)
        return reader

    def _abandoned(self, machine: Any) -> str | None:
        return None

    def _judge_replies(self) -> None: ...

    def _judge_port(self, server: Any, leader: CoreServer) -> None: ...

    def _sessions(self, server: Server) -> Any:
        assert isinstance(server.now, StoreLife)
        return server.now.store.clients.sessions


class StoreWorld(World):
    workload: Any
    workload_type: ClassVar[Any] = StoreWorkload
    liveness_type: ClassVar[Any] = StoreLiveness

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.recorder = StoreRecorder(self)
        self._jumps: list[Jump] = []
        self._prepared: dict[int, int] = {}
        """The last zxid that the leader had applied when it made a transaction, by the zxid of the transaction."""
        super().__init__(script, trace=trace, checkers=[INSTEAD.get(checker, checker) for checker in checkers])

    def life(self, server: Server) -> StoreLife:
        return StoreLife(server, self._prepared)

    def jumped(self, server: ServerId, zxid: Zxid) -> None:
        self._jumps.append(Jump(server, zxid))

    def history(self) -> History:
        changes = [change for batch in committed(self.ghost) for change in changes_of_batch(batch)]
        return History(tuple(self.recorder.events), tuple(changes), tuple(self._jumps))

    def outcome(self) -> Outcome:
        """Judge the clients as the simulator of cores does. All servers and clients have one clock here."""
        outcome = evolve(super().outcome(), acknowledged=self.recorder.acknowledged)
        return with_clients_judged(outcome, self._prepared, early=True, wait_ms=None)
