"""A world of whole servers of the store, with real clients around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import evolve

from harness.changes import changes_of_batch
from harness.checkers import ALL, Checker
from harness.checkers.store import ended_early, quotas
from harness.checkers.store.case import Case
from harness.checkers.store.judge import kept
from harness.faults import Script
from harness.history import Event, History, Jump
from harness.outcome import Outcome
from harness.worlds.cores.liveness import PROMISE
from harness.worlds.cores.store.checks import committed
from harness.worlds.cores.store.simulator import INSTEAD, with_cause
from harness.worlds.cores.store.workload import StoreWorkload as CoreWorkload
from harness.worlds.recorded import Tape
from harness.worlds.stack.server import Server
from harness.worlds.stack.store.client import Client
from harness.worlds.stack.store.liveness import StoreLiveness
from harness.worlds.stack.store.server import StoreLife
from harness.worlds.stack.world import EveryWorkload, World
from zab.core.zxid import ServerId, Zxid


class StoreTape(Tape):
    """Of a world: when that is over, nothing is seen any more."""

    def __init__(self, world: StoreWorld) -> None:
        super().__init__(lambda: world.now)
        self._world = world

    def add(self, event: Event) -> None:
        if not self._world.over:
            super().add(event)
            self._world.record(0, "client", event.client, event)


class StoreWorkload(EveryWorkload, CoreWorkload):
    clients_reconfigure = False

    def client(self, number: int) -> Any:
        client = self.clients.get(number)
        if client is None:
            same: Any = self.world
            made: Any = Client(same, number)
            client = self.clients[number] = made
        return client


class StoreWorld(World):
    workload: StoreWorkload

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.tape = StoreTape(self)
        self._jumps: list[Jump] = []
        self.prepared: dict[int, int] = {}
        """By the zxid of a transaction: what its leader had applied when it made it."""
        super().__init__(script, trace=trace, checkers=[INSTEAD.get(checker, checker) for checker in checkers])

    def life(self, server: Server) -> StoreLife:
        return StoreLife(server)

    def make_workload(self) -> StoreWorkload:
        same: Any = self
        return StoreWorkload(same)

    def make_liveness(self) -> StoreLiveness:
        return StoreLiveness(self)

    # -- what clients see ------------------------------------------------------------------------------

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
        return History(tuple(self.tape.events), tuple(changes), tuple(self._jumps))

    def outcome(self) -> Outcome:
        """What the clients saw is judged when it is over, as in the world of cores."""
        outcome = evolve(super().outcome(), acknowledged=self.tape.acknowledged)
        if outcome.promise not in (None, PROMISE):
            return outcome
        assert outcome.history is not None, "clients of a store see something"
        case = Case.of(outcome.history)
        verdict = kept(case)
        if verdict.held:  # all have one clock here, and clients can tell by it who was ended too early
            early = ended_early(case.history)
            verdict = evolve(verdict, broken=(*quotas.check(case, self.prepared), *early))
        return with_cause(outcome, verdict)
