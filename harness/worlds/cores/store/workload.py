"""The clients of a run, and what the script lets them do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from harness.faults import JOINING, LEADER, Ask, Connect, Leave, Op, Reconfigure, Vanish
from harness.worlds.cores.store.client import Client
from harness.worlds.cores.store.membership_client import NUMBER as MEMBERSHIP_CLIENT
from harness.worlds.cores.store.membership_client import MembershipClient
from harness.worlds.cores.workload import Workload
from zab.core.zxid import ServerId

if TYPE_CHECKING:
    from harness.worlds.cores.store.world import StoreWorld


class StoreWorkload(Workload):
    clients_reconfigure = True
    """Whether a client of the store asks for some of the changes of the membership."""

    def __init__(self, world: StoreWorld) -> None:
        super().__init__(world)
        self._store_world = world
        self.clients: dict[int, Client] = {}
        self._chance = Random(f"{world.script.seed}/reconfigurations")

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

    def _reconfigure(self, op: Reconfigure) -> None:
        """Ask for a change as an operator does, or as a client of the store with the rights of the super user."""
        leader = self._store_world.leader()
        if leader is None or not self.clients_reconfigure or self._chance.random() < 0.5:
            super()._reconfigure(op)
            return
        sid = leader.id if op.server <= LEADER else ServerId(op.server)
        old = leader.node.ensemble
        wanted = self._changed(old, op.change, sid, leader.id)
        if wanted is None:
            return
        if op.change in JOINING:
            self._store_world.join(sid, old)
        client = self.clients.get(MEMBERSHIP_CLIENT)
        if client is None:
            client = self.clients[MEMBERSHIP_CLIENT] = MembershipClient(self._store_world)
        assert isinstance(client, MembershipClient), "no script has so many clients"
        client.change(old, wanted)

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
        Reconfigure: _reconfigure,
        Connect: _connect,
        Ask: _ask,
        Leave: _leave,
        Vanish: _vanish,
    }
