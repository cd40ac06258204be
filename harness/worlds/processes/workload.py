"""What a script asks, asked of real servers by real clients.

Where a list is replicated, a write is a `set` of the one node `/list` in a session at every server that believes it
leads, and a barrier a `sync` and a `get` of it. Each write carries another value. Where the store is replicated, the
clients are those of the script.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from harness.faults import (
    JOINING,
    LEADER,
    Ask,
    Barrier,
    Connect,
    Fault,
    Leave,
    Op,
    Reconfigure,
    Snapshot,
    Vanish,
    Write,
)
from harness.history import Request
from harness.worlds.processes.clients import Client
from harness.worlds.processes.configuration import SUPER
from harness.worlds.processes.places import ADMIN_PORT, member
from harness.worlds.processes.server import Server
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import ZabError

if TYPE_CHECKING:
    from harness.worlds.processes.run import World

LIST: Final = "/list"
SESSION_MS: Final = 30_000
"""Of the clients that are not the script's: they are to outlast its faults."""
ADMIN: Final = 900
"""Numbers of clients begin here that change the membership."""


class Workload:
    def __init__(self, world: World) -> None:
        self._world = world
        self._number = 0
        self.writes: set[int] = set()
        """Calls that change something."""

    def perform(self, op: Op) -> None:
        self._PERFORM[type(op)](self, op)

    # -- a list ----------------------------------------------------------------------------------------

    def _writer(self, server: Server) -> Client:
        """By the number of its server."""
        client = self._world.client(server.sid)
        client.connect(server.sid, self._world.client_address(server.sid), SESSION_MS)
        return client

    def believers(self) -> list[Server]:
        servers = self._world.servers.values()
        return [each for each in servers if each.leads and each.serves]

    def _write(self, op: Write) -> None:
        for server in self.believers():
            for _ in range(op.count):
                self._number += 1
                data = b"%d/%d" % (self._number, server.sid) + b"." * op.size
                self._writer(server).request(Request("set", LIST, data))

    def _barrier(self, op: Barrier) -> None:
        named = self._world.servers.get(op.server)
        for server in self.believers() if op.server <= LEADER else [named]:
            if server is not None and server.up:
                writer = self._writer(server)
                writer.request(Request("sync", LIST))
                writer.request(Request("get", LIST))

    # -- the store -------------------------------------------------------------------------------------

    def _connect(self, op: Connect) -> None:
        world = self._world
        if op.server in world.servers:
            timeout_ms = max(1, round(op.timeout_ms * world.scale))
            world.client(op.client).connect(op.server, world.client_address(op.server), timeout_ms, op.user)

    def _ask(self, op: Ask) -> None:
        self._world.client(op.client).ask(op.steps)

    def _leave(self, op: Leave) -> None:
        self._world.beside(self._world.client(op.client).leave)

    def _vanish(self, op: Vanish) -> None:
        client = self._world.client(op.client)
        self._world.beside(client.vanish, op.for_ms * self._world.scale / 1000)

    async def probe(self) -> None:
        """Until a write is acknowledged that was asked now."""
        world = self._world
        await world.until(world.uptime.quorum)
        leader = world.leader()
        assert leader is not None
        await world.insist(leader.sid, Request("create", f"/probe-{self._world.tape.calls}", b""), ADMIN)

    # -- the rest --------------------------------------------------------------------------------------

    def _snapshot(self, op: Snapshot) -> None:
        server = self._world.leader() if op.server <= LEADER else self._world.servers.get(op.server)
        if server is not None and server.serves:
            self._world.beside(self._take_snapshot, server)

    async def _take_snapshot(self, server: Server) -> None:
        request = (
            "GET /commands/snapshot?streaming=false HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: digest {SUPER}\r\n\r\n"
        )
        status = b""
        try:
            stream = await trio.open_tcp_stream(self._world.places.own(server.sid), ADMIN_PORT)
            async with stream:
                await stream.send_all(request.encode())
                status = bytes(await stream.receive_some(4_096))
        except (OSError, trio.BrokenResourceError):
            pass
        taken = re.match(rb"HTTP/1.1 200", status) is not None and b"Not" not in status
        self._world.counted("snapshot taken" if taken else "snapshot refused")

    def _reconfigure(self, op: Reconfigure) -> None:
        leader = self._world.leader()
        if leader is not None and leader.serves:
            self._world.beside(self._change, op, leader)

    async def _change(self, op: Reconfigure, leader: Server) -> None:
        world = self._world
        sid = leader.sid if op.server <= LEADER else op.server
        client = world.client(ADMIN + leader.sid)
        client.connect(leader.sid, world.client_address(leader.sid), SESSION_MS)
        assert client.session is not None
        try:
            await client.session.add_auth("digest", SUPER.encode())
            text, _ = await client.session.config()
            ensemble = Ensemble.parse((text or b"").decode())
            asked = self._asked(ensemble, op.change, sid)
            if asked is None:
                return
            if op.change in JOINING and sid not in ensemble.by_id:
                world.join(sid, ensemble)
            joining, leaving = asked
            after, _ = await client.session.reconfigure(joining=joining, leaving=leaving)
        except ZabError as error:
            world.counted(f"membership change refused: {type(error).__name__}")
            return
        world.counted("membership changed")
        world.members_are(Ensemble.parse((after or b"").decode()))

    def _asked(self, ensemble: Ensemble, change: str, sid: int) -> tuple[str | None, str | None] | None:
        """Who is to join, who to leave; None where it would change nothing, or leave nobody to vote."""
        known = next((each for each in ensemble.servers if each.id == sid), None)
        if change == "add":
            return None if known else (member(self._world.places, sid).text(), None)
        if change == "replace":
            leader = self._world.leader()
            goes = [voter for voter in ensemble.voters if voter != sid and (leader is None or voter != leader.sid)]
            if not goes or sid in ensemble.voters:
                return None
            return member(self._world.places, sid).text(), str(goes[0])
        if known is None or (change != "promote" and list(ensemble.voters) == [sid]):
            return None
        if change == "remove":
            return None, str(sid)
        role = Role.PARTICIPANT if change == "promote" else Role.OBSERVER
        return None if known.role is role else (member(self._world.places, sid, role).text(), None)

    _PERFORM: Final[dict[type, Callable[[Any, Any], None]]] = {
        Write: _write,
        Barrier: _barrier,
        Connect: _connect,
        Ask: _ask,
        Leave: _leave,
        Vanish: _vanish,
        Snapshot: _snapshot,
        Reconfigure: _reconfigure,
    }


def can(item: Fault | Op) -> bool:
    return type(item) in Workload._PERFORM
