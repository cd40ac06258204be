"""After the last fault: servers as always, and the clients have their sessions and their watches again.

Then a client with a fresh session reads everything, behind a sync, so that few outcomes stay unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from harness.history import Request
from harness.script.workload import has_lists
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.cores.store.checks import exactly_once, owned, same_counts, same_lists
from harness.worlds.cores.store.client_service import TICKS_MAX
from harness.worlds.cores.store.liveness import CLIENT_ROUNDS, KINDS, ONCE
from harness.worlds.cores.store.server_deletions import left_over, timely
from harness.worlds.stack.store.client import Client
from harness.worlds.stack.store.server import StoreLife
from zab.core.errors import OutcomeUnknown
from zab.session.session_errors import StoreError
from zab.store.paths import ROOT, SYSTEM, child_of

if TYPE_CHECKING:
    from harness.worlds.stack.store.world import StoreWorld


class Reader(Client):
    """Reads every node once, the children of a node side by side: the time must not grow with the number of nodes."""

    done = False

    async def read(self) -> None:
        await self._insist(Request("sync", ROOT))
        async with trio.open_nursery() as nursery:
            await self._read(ROOT, nursery)
        self.done = True

    async def _read(self, path: str, nursery: trio.Nursery) -> None:
        await self._insist(Request("get", path))
        for name in await self._insist(Request("children", path)) or ():
            if (child := child_of(path, name)) != SYSTEM:
                nursery.start_soon(self._read, child, nursery)

    async def _insist(self, request: Request) -> Any:
        while True:
            found, error = await self.outcome(request)
            if error is None:
                return found[0] if request.op == "children" else found
            if isinstance(error, StoreError) and not isinstance(error, OutcomeUnknown) and self.alive is not None:
                return None  # that there is no such node is an answer, too


class StoreLiveness(Liveness):
    """Knows of clients, too."""

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
        """The new write is that which makes the session of the reader."""
        world = self._store_world
        for client in world.clients():
            if client is not self._reader and not client.settled:
                return client.state
        if self._reader is None:
            self._reader = Reader(world, max((client.id for client in world.clients()), default=0) + 1)
            world.add(self._reader)
            world.beside(self._reader.read)
        return None if self._reader.done else "the last reader has not been told of all nodes"

    def _unequal(self, leader: CoreServer) -> str | None:
        missing = super()._unequal(leader)
        if missing is not None:
            return missing
        world = self._store_world
        for client in world.clients():
            if client.connected and (missed := self._unwatched(client)):
                return f"client {client.id} watches {missed}, and its server does not know"
        holds: Any = leader.machine
        still = left_over(holds.store.tree.nodes, world.servers[leader.id].clock.wall_ms())
        if still is not None:
            return still
        exactly_once(world.ghost)
        timely(world.ghost)
        for server in world.servers[1:]:
            if server.up:
                same: Any = server.machine
                owned(server.id, same)
        there, machines = leader.machine.zxid, [(each.id, each.machine) for each in world.servers[1:] if each.up]
        alike: Any = [(server, machine) for server, machine in machines if machine.zxid == there]
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
            for paths, kind in zip(client.book.lists(), KINDS, strict=True)
            for path in paths
            if (connection is None or not watches.has(path, connection, kind)) and not (self._lists and kind in ONCE)
        ]
