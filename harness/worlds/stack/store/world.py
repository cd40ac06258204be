"""A simulated cluster of store servers with real clients: its workload, liveness check and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import trio
from attrs import evolve

from harness.checkers import ALL, Checker
from harness.faults import Script
from harness.history import Request
from harness.outcome import Outcome
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.cores.store.liveness import StoreLiveness as CoreLiveness
from harness.worlds.cores.store.simulator import StoreHistory, with_clients_judged
from harness.worlds.cores.store.workload import StoreWorkload as CoreWorkload
from harness.worlds.recorded import Recorder
from harness.worlds.stack.members import AnyServerWorkload, World
from harness.worlds.stack.server import Server
from harness.worlds.stack.store.client import Client
from harness.worlds.stack.store.server import StoreLife
from zab.core.errors import OutcomeUnknown
from zab.session.session_errors import StoreError
from zab.store.paths import ROOT, SYSTEM, child_of


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


class StoreWorld(StoreHistory, World):
    workload: Any
    workload_type: ClassVar[Any] = StoreWorkload
    liveness_type: ClassVar[Any] = StoreLiveness

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.recorder = Recorder(lambda: self.now, self.saw)
        self.client_events = self.recorder.events
        super().__init__(script, trace=trace, checkers=checkers)

    def life(self, server: Server) -> StoreLife:
        return StoreLife(server, self.prepared)

    def outcome(self) -> Outcome:
        """Judge the clients as the simulator of cores does. All servers and clients have one clock here."""
        outcome = evolve(super().outcome(), acknowledged=self.recorder.acknowledged)
        return with_clients_judged(outcome, self.prepared, early=True, wait_ms=None)
