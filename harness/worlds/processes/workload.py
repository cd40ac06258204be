"""The operations of a script, performed by real clients of real servers.

For the machine `list`, a write sets the node `/list` to a new value, in a session at every server that considers itself
the leader. A barrier is a `sync` and a `get` of that node. For the other machines, the clients are those of the script.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import trio

from harness import faults
from harness.history import Request
from harness.worlds.processes.addresses import ADMIN_PORT, member
from harness.worlds.processes.cluster import ADMIN, Cluster
from harness.worlds.processes.configuration import SUPER
from harness.worlds.processes.server import Server
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import ZabError

LIST: Final = "/list"


class Workload:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._number = 0

    def perform(self, op: faults.Op) -> None:
        _PERFORM[type(op)](self, op)

    # -- a list ----------------------------------------------------------------------------------------

    def _serving_leaders(self) -> list[Server]:
        return [each for each in self._cluster.servers.values() if each.leads and each.serves]

    def _write(self, op: faults.Write) -> None:
        for server in self._serving_leaders():
            for _ in range(op.count):
                self._number += 1
                data = b"%d/%d" % (self._number, server.sid) + b"." * op.size
                self._cluster.connected(server.sid, server.sid).request(Request("set", LIST, data))

    def _barrier(self, op: faults.Barrier) -> None:
        named = self._cluster.servers.get(op.server)
        for server in self._serving_leaders() if op.server <= faults.LEADER else [named]:
            if server is not None and server.up:
                client = self._cluster.connected(server.sid, server.sid)
                client.request(Request("sync", LIST))
                client.request(Request("get", LIST))

    # -- the store -------------------------------------------------------------------------------------

    def _connect(self, op: faults.Connect) -> None:
        cluster = self._cluster
        if op.server in cluster.servers:
            timeout_ms = max(1, round(op.timeout_ms * cluster.scale))
            cluster.client(op.client).connect(op.server, cluster.client_address(op.server), timeout_ms, op.user)

    def _ask(self, op: faults.Ask) -> None:
        self._cluster.client(op.client).ask(op.steps)

    def _leave(self, op: faults.Leave) -> None:
        self._cluster.spawn_until_healed(self._cluster.client(op.client).leave)

    def _vanish(self, op: faults.Vanish) -> None:
        client = self._cluster.client(op.client)
        self._cluster.spawn_until_healed(client.vanish, op.for_ms * self._cluster.scale / 1000)

    # -- snapshots and membership ----------------------------------------------------------------------

    def _snapshot(self, op: faults.Snapshot) -> None:
        server = self._cluster.leader() if op.server <= faults.LEADER else self._cluster.servers.get(op.server)
        if server is not None and server.serves and server.ours:
            self._cluster.spawn_until_healed(self._take_snapshot, server)

    async def _take_snapshot(self, server: Server) -> None:
        request = (
            "GET /commands/snapshot?streaming=false HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: digest {SUPER}\r\n\r\n"
        )
        status = b""
        try:
            stream = await trio.open_tcp_stream(self._cluster.addresses.own(server.sid), ADMIN_PORT)
            async with stream:
                await stream.send_all(request.encode())
                status = bytes(await stream.receive_some(4_096))
        except (OSError, trio.BrokenResourceError):
            pass
        taken = re.match(rb"HTTP/1.1 200", status) is not None and b"Not" not in status
        self._cluster.counted("snapshot taken" if taken else "snapshot refused")

    def _reconfigure(self, op: faults.Reconfigure) -> None:
        leader = self._cluster.leader()
        if leader is not None and leader.serves and not self._cluster.mixed:  # a leader of a mixed ensemble may refuse
            self._cluster.spawn_until_healed(self._change, op, leader)

    async def _change(self, op: faults.Reconfigure, leader: Server) -> None:
        cluster = self._cluster
        sid = leader.sid if op.server <= faults.LEADER else op.server
        session = cluster.connected(ADMIN + leader.sid, leader.sid).session
        assert session is not None
        try:
            await session.add_auth("digest", SUPER.encode())
            text, _ = await session.config()
            ensemble = Ensemble.parse((text or b"").decode())
            asked = self._asked(ensemble, op.change, sid)
            if asked is None:
                return
            if op.change in faults.JOINING and sid not in ensemble.by_id:
                cluster.join(sid, ensemble)
            joining, leaving = asked
            after, _ = await session.reconfigure(joining=joining, leaving=leaving)
        except ZabError as error:
            cluster.counted(f"membership change refused: {type(error).__name__}")
            return
        cluster.counted("membership changed")
        cluster.members_are(Ensemble.parse((after or b"").decode()))

    def _asked(self, ensemble: Ensemble, change: str, sid: int) -> tuple[str | None, str | None] | None:
        """Return the joining and the leaving servers; None if that would change nothing, or leave no voter."""
        addresses = self._cluster.addresses
        known = next((each for each in ensemble.servers if each.id == sid), None)
        if change == "add":
            return None if known else (member(addresses, sid).text(), None)
        if change == "replace":
            leader = self._cluster.leader()
            goes = [voter for voter in ensemble.voters if voter != sid and (leader is None or voter != leader.sid)]
            if not goes or sid in ensemble.voters:
                return None
            return member(addresses, sid).text(), str(goes[0])
        if known is None or (change != "promote" and list(ensemble.voters) == [sid]):
            return None
        if change == "remove":
            return None, str(sid)
        role = Role.PARTICIPANT if change == "promote" else Role.OBSERVER
        return None if known.role is role else (member(addresses, sid, role).text(), None)


_PERFORM: Final[dict[type, Callable[[Any, Any], None]]] = {
    faults.Write: Workload._write,
    faults.Barrier: Workload._barrier,
    faults.Connect: Workload._connect,
    faults.Ask: Workload._ask,
    faults.Leave: Workload._leave,
    faults.Vanish: Workload._vanish,
    faults.Snapshot: Workload._snapshot,
    faults.Reconfigure: Workload._reconfigure,
}


def can(item: faults.Fault | faults.Op) -> bool:
    return type(item) in _PERFORM
