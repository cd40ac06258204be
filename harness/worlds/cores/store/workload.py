"""The clients of a run, and the operations of a script that they carry out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, ClassVar

from harness.faults import JOINING, LEADER, Ask, Connect, Leave, Reconfigure, Vanish
from harness.worlds.cores.store.client import Client
from harness.worlds.cores.store.membership_client import NUMBER as MEMBERSHIP_CLIENT
from harness.worlds.cores.store.membership_client import MembershipClient
from harness.worlds.cores.store.simulator import StoreSimulator
from harness.worlds.cores.workload import Workload
from zab.core.zxid import ServerId


class StoreWorkload(Workload):
    world: StoreSimulator
    clients_reconfigure = True
    """True if a client of the store requests some of the membership changes."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.clients: dict[int, Any] = {}
        self._chance = Random(f"{world.script.seed}/reconfigurations")

    def client(self, number: int) -> Any:
        if number not in self.clients:
            self.clients[number] = self._new_client(number)
        return self.clients[number]

    def _new_client(self, number: int) -> Any:
        return Client(self.world, number)

    def _reconfigure(self, op: Reconfigure) -> None:
        """Request a membership change at a server, or as a client of the store with the rights of the super user."""
        leader = self.world.leader()
        if leader is None or not self.clients_reconfigure or self._chance.random() < 0.5:
            super()._reconfigure(op)
            return
        sid = leader.id if op.server <= LEADER else ServerId(op.server)
        old = leader.node.ensemble
        wanted = self._changed(old, op.change, sid, leader.id)
        if wanted is None:
            return
        if op.change in JOINING:
            self.world.join(sid, old)
        client = self.clients.get(MEMBERSHIP_CLIENT)
        if client is None:
            client = self.clients[MEMBERSHIP_CLIENT] = MembershipClient(self.world)
        assert isinstance(client, MembershipClient), "no script has so many clients"
        client.change(old, wanted)

    def _connect(self, op: Connect) -> None:
        world = self.world
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
        client, world = self.client(op.client), self.world
        if client.vanish():
            world.counted("vanish")
            world.push_fault_end(world.now + op.for_ms * 1_000, lambda *_: client.come_back(), None, None)

    PERFORM: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **Workload.PERFORM,
        Connect: _connect,
        Ask: _ask,
        Leave: _leave,
        Vanish: _vanish,
    }
