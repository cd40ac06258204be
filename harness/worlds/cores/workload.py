"""The operations of a script on the servers of an ensemble, and the replies.

Each write is submitted at every server that believes that it leads, so that deposed leaders receive writes, too. All
writes differ, so that no mix-up stays unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from attrs import evolve

from harness.faults import JOINING, LEADER, Barrier, Op, Reconfigure, Snapshot, Write
from harness.members import member, with_server, without_server
from harness.worlds.cores.server import Server
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import LocalProtocolError, ZabError
from zab.core.messages import State
from zab.core.zxid import ServerId, Zxid


class Workload:
    def __init__(self, world: Any) -> None:
        self.world = world
        self._number = 0
        self._token = 0
        self.acknowledged = 0

    def perform(self, op: Op, _: object) -> None:
        getattr(self, self.PERFORM[type(op)].__name__)(op)  # a subclass may override the method

    def believers(self) -> list[Server]:
        """Return the servers that consider themselves leaders and may propose."""
        return [
            server
            for server in self.world.running()
            if server.node.state is State.LEADING and server.node.serving and not server.paused
        ]

    # -- writes ----------------------------------------------------------------------------------------

    def write(self, op: Write) -> None:
        for server in self.believers():
            self.write_at(server, op.count, op.size)

    def write_at(self, server: Server, count: int, size: int) -> None:
        numbers = range(self._number + 1, self._number + 1 + count)
        self._number += count
        self.submit(server, [b"%d/%d" % (number, server.id) + b"." * size for number in numbers])

    def submit(self, server: Server, payloads: list[bytes]) -> None:
        self.world.record(server.id, "is asked to write", 0, str(len(payloads)))
        try:
            server.submit(payloads)
        except ZabError as error:
            self._refused(server, error)

    def write_acknowledged(self, server: Any, zxid: Zxid) -> None:
        self.acknowledged += 1
        self.world.judge.acknowledged(server.id, zxid)

    def _refused(self, server: Server, error: ZabError) -> None:
        if isinstance(error, LocalProtocolError):
            self.world.report_failure(server, "refuses a legal request", error)
        self.world.record(server.id, "refuses", 0, type(error).__name__)

    # -- barriers --------------------------------------------------------------------------------------

    def _barrier(self, op: Barrier) -> None:
        """Submit a barrier at a server, or at every server that believes it leads: a deposed leader must not answer."""
        world = self.world
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
        server = self.world.leader() if op.server <= LEADER else self.world.servers[op.server]
        if server is not None:
            server.snapshot()

    def _reconfigure(self, op: Reconfigure) -> None:
        for server in self.believers():
            sid = server.id if op.server <= LEADER else ServerId(op.server)
            wanted = self._changed(server.node.ensemble, op.change, sid, server.id)
            if wanted is None:
                continue
            if op.change in JOINING:
                self.world.join(sid, server.node.ensemble)
            if not self.world.nemesis.can_spare(None, wanted):
                continue  # an operator waits until servers that may have lost their disk have healed
            self.world.record(server.id, "is asked to", 0, f"{op.change} {sid}")
            try:
                server.reconfigure(wanted)
            except ZabError as error:
                self._refused(server, error)

    @staticmethod
    def _changed(ensemble: Ensemble, change: str, sid: ServerId, leader: ServerId) -> Ensemble | None:
        """Return the requested membership; None if it would change nothing, or have no voter."""
        known = ensemble.by_id.get(sid)
        if change == "add":
            return None if known else with_server(ensemble, member(sid))
        if change == "replace":
            replaceable = [voter for voter in ensemble.voters if voter not in (sid, leader)]
            left = without_server(ensemble, replaceable[0]) if replaceable and sid not in ensemble.voters else None
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

    PERFORM: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        Write: write,
        Barrier: _barrier,
        Snapshot: _snapshot,
        Reconfigure: _reconfigure,
    }
