"""The clients of a run, and what the script lets them do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from harness.faults import LEADER, Ask, Connect, Leave, Op, Vanish
from harness.worlds.cores.store.client import Client
from harness.worlds.cores.workload import Workload

if TYPE_CHECKING:
    from harness.worlds.cores.store.world import StoreWorld


class StoreWorkload(Workload):
    def __init__(self, world: StoreWorld) -> None:
        super().__init__(world)
        self._store_world = world
        self.clients: dict[int, Client] = {}

    def perform(self, op: Op, _: object) -> None:
        act = self._CLIENTS.get(type(op))
        if act is None:
            super().perform(op, _)
        else:
            act(self, op)

    def client(self, number: int) -> Client:
        client = self.clients.get(number)
        if client is None:
            client = self.clients[number] = Client(self._store_world, number)
        return client

    def _connect(self, op: Connect) -> None:
        world = self._store_world
        leader = world.leader()
        named = op.server if op.server > LEADER else 1 if leader is None else leader.id
        server = world.servers[min(named, len(world.servers) - 1)]
        if server.founded:
            self.client(op.client).connect(server, op.timeout_ms, op.user, op.late_ms)

    def _ask(self, op: Ask) -> None:
        self.client(op.client).ask(op.steps)

    def _leave(self, op: Leave) -> None:
        self.client(op.client).leave()

    def _vanish(self, op: Vanish) -> None:
        client, world = self.client(op.client), self._store_world
        if client.vanish():
            world.counted("vanish")
            world.push_fault_end(world.now + op.for_ms * 1_000, self._come_back, client, None)

    @staticmethod
    def _come_back(client: Client, _: None) -> None:
        client.come_back()

    _CLIENTS: Final[dict[type, Callable[[Any, Any], None]]] = {
        Connect: _connect,
        Ask: _ask,
        Leave: _leave,
        Vanish: _vanish,
    }
