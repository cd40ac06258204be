"""The requests of clients, and their replies.

A write is asked of every server that believes it leads, so that a deposed leader gets its share. Each write
is a different one, so that any two that are confused with each other show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from harness.faults import JOINING, LEADER, Barrier, Op, Reconfigure, Snapshot, Write
from harness.members import with_server, without_server
from harness.worlds.cores.server import Server
from zab.core.ensemble import Ensemble, Role
from zab.core.ensemble import Server as Member
from zab.core.errors import LocalProtocolError, ZabError
from zab.core.messages import State
from zab.core.zxid import ServerId, Zxid

if TYPE_CHECKING:
    from harness.worlds.cores.world import World


def member(sid: ServerId, role: Role = Role.PARTICIPANT) -> Member:
    return Member(sid, f"s{sid}", 2888, 3888, role)


class Workload:
    def __init__(self, world: World) -> None:
        self._world = world
        self._number = 0
        self._token = 0
        self.submitted = 0
        self.acknowledged = 0
        self.changes = 0

    def perform(self, op: Op, _: object) -> None:
        self.PERFORM[type(op)](self, op)

    def believers(self) -> list[Server]:
        """Return the servers that consider themselves leaders and may propose."""
        return [
            server
            for server in self._world.running()
            if server.node.state is State.LEADING and server.node.serving and not server.paused
        ]

    # -- writes ----------------------------------------------------------------------------------------

    def write(self, op: Write) -> None:
        for server in self.believers():
            payloads = []
            for _ in range(op.count):
                self._number += 1
                payloads.append(self.payload(self._number, server.id, op.size))
            self.submit(server, payloads)

    def submit(self, server: Server, payloads: list[bytes]) -> None:
        self._world.record(server.id, "is asked to write", 0, str(len(payloads)))
        try:
            server.submit(payloads)
        except ZabError as error:
            self._refused(server, error)
        else:
            self.submitted += len(payloads)

    def payload(self, number: int, server: ServerId, size: int) -> bytes:
        return b"%d/%d" % (number, server) + b"." * size

    def told(self, server: Server, zxid: Zxid) -> None:
        self.acknowledged += 1
        self._world.judge.acknowledged(server.id, zxid)

    def _refused(self, server: Server, error: ZabError) -> None:
        if isinstance(error, LocalProtocolError):
            self._world.fell(server, "was asked for something reasonable", error)
        self._world.record(server.id, "refuses", 0, type(error).__name__)

    # -- barriers --------------------------------------------------------------------------------------

    def _barrier(self, op: Barrier) -> None:
        """`LEADER` means every server that believes it leads: a deposed one must not answer."""
        world = self._world
        named = world.servers[min(max(op.server, 0), len(world.servers) - 1)]
        for server in self.believers() if op.server <= LEADER else [named]:
            if not server.up or server.paused:
                continue
            self._token += 1
            world.record(server.id, "is asked for a barrier", 0, str(self._token))
            world.judge.barrier_asked(server.id, self._token)
            server.ask(self._token)

    # -- the rest --------------------------------------------------------------------------------------

    def _snapshot(self, op: Snapshot) -> None:
        server = self._world.leader() if op.server <= LEADER else self._world.servers[op.server]
        if server is not None:
            server.snapshot()

    def _reconfigure(self, op: Reconfigure) -> None:
        for server in self.believers():
            sid = server.id if op.server <= LEADER else ServerId(op.server)
            wanted = self._changed(server.node.ensemble, op.change, sid, server.id)
            if wanted is None:
                continue
            if op.change in JOINING:
                self._world.join(sid, server.node.ensemble)
            if not self._world.nemesis.can_spare(None, wanted):
                continue  # nobody asks for members who may have lost what they had, before they have healed
            self._world.record(server.id, "is asked to", 0, f"{op.change} {sid}")
            try:
                server.reconfigure(wanted)
            except ZabError as error:
                self._refused(server, error)
            else:
                self.changes += 1

    @staticmethod
    def _changed(ensemble: Ensemble, change: str, sid: ServerId, leader: ServerId) -> Ensemble | None:
        """Return the requested membership; None if it would change nothing, or have no voter with weight."""
        known = ensemble.by_id.get(sid)
        if change == "add":
            return None if known else with_server(ensemble, member(sid))
        if change == "replace":
            goes = [voter for voter in ensemble.voters if voter not in (sid, leader)]
            left = without_server(ensemble, goes[0]) if goes and sid not in ensemble.voters else None
            return None if left is None else with_server(left, member(sid))
        if known is None:
            return None
        voters = [voter for voter in ensemble.voters if voter != sid]
        if not voters and change != "promote":
            return None
        if change == "remove":
            return without_server(ensemble, sid)
        role = Role.PARTICIPANT if change == "promote" else Role.OBSERVER
        return None if known.role is role else with_server(ensemble, evolve(known, role=role))

    PERFORM: Final[dict[type, Callable[[Any, Any], None]]] = {
        Write: write,
        Barrier: _barrier,
        Snapshot: _snapshot,
        Reconfigure: _reconfigure,
    }
