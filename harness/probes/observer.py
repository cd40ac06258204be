"""Count the probes that a run hits, in the facts of its servers and in the history of its clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers.judge import Checker
from harness.checkers.oracle_state import OracleState, ServerState
from harness.history import History, Info, Invoke, Request, Response, SessionEvent, WatchFired
from harness.probes import NAMES, PREFIX
from harness.quorums import is_quorum
from zab.core import ready
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, AckNewLeader, NewLeader, State
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, epoch_of

_COUNTED: Final = {name: name for name in ("sync diff", "sync trunc", "sync snap", "readmitted")} | {
    "log": "sync from disk"
}
"""The probe of each counter of a world that is one."""


class Probes(Checker):
    """Count the probes about servers. This checker never fails."""

    invariant = "coverage probes"

    def __init__(self, ghost: OracleState) -> None:
        super().__init__(ghost)
        self.hits: dict[str, int] = {}
        self._offered: dict[ServerId, Epoch] = {}
        """The epoch of the NEWLEADER that was sent to each server and is not acknowledged."""
        self._barriers: dict[ServerId, int] = {}
        """The number of barrier requests that each deposed leader received."""
        self._proposed: dict[ServerId, Zxid] = {}
        """The last proposal of each server."""
        self._cut: set[ServerId] = set()
        """The servers that have truncated their logs and adopted no epoch since."""
        self._promotion = NOTHING
        """The last uncommitted change that gave an observer a vote, or `NOTHING`."""

    def hit(self, name: str) -> None:
        assert name in NAMES, name
        self.hits[name] = self.hits.get(name, 0) + 1

    # -- leaders -------------------------------------------------------------------------------------------

    def role(self, server: ServerState, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        ghost = self.ghost
        if state is server.state:
            return
        if state is State.LEADING:
            if any(other.up and other.state is State.LEADING for other in ghost.servers[1:]):
                self.hit("two candidates")
        elif server.state is State.LEADING:
            if ghost.ruler.get(server.epoch) != server.id:
                self.hit("candidate fails")
            self._deposed(server)
        elif state is State.FOLLOWING and leader is not None:
            found = ghost.servers[leader]
            if found.up and found.state is State.LEADING and found.serving:
                self.hit("late voter")
        self._unanswered(server)

    def established(self, server: ServerState, epoch: Epoch) -> None:
        ghost, tip = self.ghost, server.tip
        newest = ghost.newest
        if newest:
            if epoch > newest + 1:
                self.hit("epochs skipped")
            if ghost.initial[newest] == tip:
                self.hit("epoch without a transaction")
        for other in ghost.servers[1:]:
            if other.up and other is not server and other.serving and other.state is State.LEADING:
                self.hit("deposed leader serves")
            if other is not server and other.tip > 0 and not ghost.holds(tip, other.tip):
                self.hit("histories diverge")
        if tip not in ghost.place:
            self.hit("tail inherited")
            if ghost.governing[tip] is not ghost.governing[ghost.committed]:
                self.hit("change inherited")

    def barrier_asked(self, server: ServerState, token: int) -> None:
        if server.state is State.LEADING and server.serving and self.ghost.newest > server.epoch:
            self._barriers[server.id] = self._barriers.get(server.id, 0) + 1

    def _deposed(self, server: ServerState) -> None:
        if self._barriers.pop(server.id, 0):
            self.hit("deposed leader gets barrier")

    # -- histories -----------------------------------------------------------------------------------------

    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        if path:
            if server.durable < zxid:
                self.hit("leader behind its commit")
            if epoch_of(path[0]) < server.epoch:
                self.hit("tail decided")

    def truncated(self, server: ServerState, zxid: Zxid) -> None:
        ghost = self.ghost
        self._cut.add(server.id)
        if zxid not in ghost.depth:
            return
        mine = self._proposed.get(server.id)
        if mine is not None and mine > zxid and ghost.holds(server.tip, mine):
            self.hit("own tail truncated")
        if len({first for first in ghost.batches if zxid < first <= server.tip and ghost.holds(server.tip, first)}) > 1:
            self.hit("long truncation")

    def appended(self, server: ServerState, batch: Batch) -> None:
        if server.state is not State.LEADING or epoch_of(batch.first) != server.epoch:
            return
        if batch.config:
            self._change(server, batch)
        elif self._promotion not in self.ghost.place:
            self._promotion = NOTHING
            self.hit("observer promoted under load")

    def proposed(self, server: ServerState, first: Zxid, payloads: Sequence[bytes]) -> None:
        self._proposed[server.id] = first

    def said_new_leader(self, server: ServerState, to: ServerId, message: NewLeader) -> None:
        self._offered[to] = message.epoch

    def said_ack_new_leader(self, server: ServerState, to: ServerId, message: AckNewLeader) -> None:
        self._offered.pop(server.id, None)
        self._cut.discard(server.id)

    def _unanswered(self, server: ServerState) -> None:
        if self._offered.pop(server.id, None) is not None:
            self.hit("NEWLEADER unanswered")

    def said_ack(self, server: ServerState, to: ServerId, message: Ack) -> None:
        if message.zxid in self.ghost.place:
            self.hit("late acknowledgement")

    # -- disks ---------------------------------------------------------------------------------------------

    def crashed(self, server: ServerState, unfinished: Sequence[ready.Write]) -> None:
        kinds = {type(write) for write in unfinished}
        if kinds & {ready.BeginSnapshot, ready.SnapshotChunk, ready.InstallSnapshot}:
            self.hit("dies in a snapshot")
        if server.id in self._cut:
            self.hit("dies after a truncation")
            self._cut.discard(server.id)
        if ready.SaveEpochs in kinds and kinds & {ready.Append, ready.Truncate, ready.InstallSnapshot}:
            self.hit("dies at adoption")
        if server.state is State.LEADING:
            self._deposed(server)
            if server.serving:
                self._leader_dies(server)
        if not any(other.up for other in self.ghost.servers if other is not server):
            self.hit("all servers down")
        self._unanswered(server)

    def _leader_dies(self, server: ServerState) -> None:
        ghost = self.ghost
        zxid = server.tip
        if zxid in ghost.place:
            return
        while ghost.parent[zxid] not in ghost.place:
            zxid = ghost.parent[zxid]
        decided = is_quorum(ghost.governing[zxid], ghost.had(zxid))
        self.hit("quorum acked, leader dies" if decided else "unacked, leader dies")

    def started(self, server: ServerState, recovered: ready.Recovered) -> None:
        last = recovered.batches[-1].last if recovered.batches else recovered.snapshot
        if server.went_back:
            self.hit("old disk unnoticed")
        elif last > server.durable and not server.impaired:
            self.hit("unreported write found")

    def installed(self, server: ServerState, zxid: Zxid) -> None:
        if server.impaired:
            self.hit("healed by a snapshot")

    # -- memberships ---------------------------------------------------------------------------------------

    def _change(self, server: ServerState, batch: Batch) -> None:
        ghost = self.ghost
        old, new = ghost.governing[server.tip], Ensemble.parse(batch.payloads()[0].decode())
        if server.id not in new.voters:
            self.hit("leader leaves")
        if any(sid in old.observers for sid in new.voters):
            if server.tip not in ghost.place:
                self.hit("observer promoted under load")
            else:
                self._promotion = batch.first


def probes_hit(probes: Probes, counts: dict[str, int], history: History | None) -> dict[str, int]:
    """Return the probes that a run hit, by their names in the counts of an outcome."""
    hits = dict(probes.hits)
    for counted, name in _COUNTED.items():
        if counts.get(counted):
            hits[name] = counts[counted]
    if history is not None:
        _clients(history, hits)
    return {PREFIX + name: times for name, times in hits.items()}


def _clients(history: History, hits: dict[str, int]) -> None:
    def hit(name: str) -> None:
        assert name in NAMES, name
        hits[name] = hits.get(name, 0) + 1

    calls: dict[int, Request] = {}
    last: dict[int, object] = {}
    lost: dict[int, list[Request]] = {}
    at: dict[int, tuple[int, int]] = {}
    written = {change.data for change in history.changes if change.data}
    for event in history.events:
        match event:
            case Invoke():
                calls[event.call] = event.request
            case Response(reply=reply):
                blamed = [number for number, part in enumerate(reply.parts) if _blamed(part.error)]
                if blamed and blamed[0]:
                    hit("multi refused in the middle")
                if reply.error == "BAD_VERSION":
                    hit("wrong version")
            case Info():
                request = calls[event.call]
                lost.setdefault(event.session, []).append(request)
                if request.op in ("create", "set") and request.data:
                    hit("unknown outcome" if request.data in written else "unknown and undone")
            case WatchFired():
                if isinstance(last.get(event.client), SessionEvent) and event.zxid < 1:
                    hit("watch fires on return")
            case SessionEvent(state="connected"):
                session, server = at.get(event.client, (0, 0))
                if session == event.session and server != event.server:
                    hit("session moves")
                at[event.client] = event.session, event.server
            case SessionEvent(state="expired"):
                session = at.get(event.client, (0, 0))[0]
                if any(request.op == "create" for request in lost.get(session, ())):
                    hit("expiry races a create")
            case SessionEvent():
                pass
        last[event.client] = event


def _blamed(error: str) -> bool:
    return error not in ("", "OK", "RUNTIME_INCONSISTENCY")
