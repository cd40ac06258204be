"""The interface of the checkers that follow a run of servers, and the judge that passes the facts of a run to them.

The judge passes a fact to the checkers first and writes it into the oracle state afterwards, so a checker sees the
state right before the fact. Each checker answers in constant or amortized constant time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec

from harness.checkers.oracle_state import OracleState, ServerState, Violation
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, Notification, State, UpToDate
from zab.core.ready import Recovered, Write
from zab.core.zxid import NOTHING, Epoch, Millis, ServerId, Zxid


class Checker:
    """Checks one invariant. A checker overrides the facts that it needs, and raises `Violation` by `fail`."""

    invariant: str = ""
    by_place: frozenset[str] = frozenset()
    """The facts about batches (`appended`, `applied`) that it judges by the batch and its predecessor alone. The judge
    passes such a fact on once, for the first server that has the batch in this place."""

    def __init__(self, ghost: OracleState) -> None:
        self.ghost = ghost

    def fail(self, what: str) -> None:
        raise Violation(self.invariant, what)

    # proposals, and writes handed to the disk
    def proposed(self, server: ServerState, first: Zxid, payloads: Sequence[bytes]) -> None: ...
    def broadcasts(self, server: ServerState, epoch: Epoch) -> None: ...
    def appended(self, server: ServerState, batch: Batch) -> None: ...
    def truncated(self, server: ServerState, zxid: Zxid) -> None: ...
    def installed(self, server: ServerState, zxid: Zxid) -> None: ...
    def remembers(self, server: ServerState, members: Zxid) -> None:
        """Save the membership of this version, and that the server has all its promises (again). Not durable yet."""

    # completed writes
    def durable_append(self, server: ServerState, batch: Batch) -> None: ...
    def durable_epochs(self, server: ServerState, accepted: Epoch, current: Epoch) -> None: ...

    def purged(self, server: ServerState, oldest: Zxid, begins: Zxid) -> None:
        """Old files were deleted: the oldest snapshot is now at `oldest`, and the log begins after `begins`."""

    def stays(self, server: ServerState, newest: Zxid, needless: Sequence[str]) -> None:
        """Old files were deleted: `newest` is the last snapshot, `needless` the files that no snapshot to be kept
        needs."""

    def counts_durable(self, server: ServerState, zxid: Zxid) -> None:
        """The disk has reported, and the server counts its history as durable up to `zxid`."""

    # messages
    def heard_notification(self, server: ServerState, source: ServerId, message: Notification) -> None: ...
    def heard_commit(self, server: ServerState, zxid: Zxid) -> None: ...
    def heard_follower_info(self, server: ServerState, source: ServerId) -> None:
        """The first message of a learner on a new link."""

    def heard_ack(self, server: ServerState, source: ServerId, zxid: Zxid) -> None: ...
    def said_leader_info(self, server: ServerState, to: ServerId, message: LeaderInfo) -> None: ...
    def said_ack_epoch(self, server: ServerState, to: ServerId, message: AckEpoch) -> None: ...
    def said_new_leader(self, server: ServerState, to: ServerId, message: NewLeader) -> None: ...
    def said_ack_new_leader(self, server: ServerState, to: ServerId, message: AckNewLeader) -> None: ...
    def said_up_to_date(self, server: ServerState, to: ServerId, message: UpToDate) -> None: ...
    def said_ack(self, server: ServerState, to: ServerId, message: Ack) -> None: ...

    # commits, roles and state machines
    def committed(self, server: ServerState, zxid: Zxid, path: list[Zxid] | None) -> None:
        """A leader commits `zxid`. `path` leads there from the end of the canon; None if `zxid` is on another
        branch."""

    def believed(self, server: ServerState, zxid: Zxid) -> None:
        """A server that does not lead counts `zxid` as committed."""

    def role(self, server: ServerState, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None: ...
    def established(self, server: ServerState, epoch: Epoch) -> None:
        """A quorum has promised `epoch` to this leader. Its history now is the initial history of the epoch."""

    def serves(self, server: ServerState) -> None:
        """The server begins to serve clients."""

    def applied(self, server: ServerState, batch: Batch) -> None: ...
    def activated(self, server: ServerState, ensemble: Ensemble) -> None:
        """The server puts `ensemble` in force. Its log and what is committed already include the same turn."""

    def restored(self, server: ServerState, zxid: Zxid) -> None: ...
    def machine(self, server: ServerState, zxid: Zxid, state: int, digest: int | None) -> None:
        """The checksum of the machine's state at `zxid`, and the digest of the history up to there, if known."""

    def acknowledged(self, server: ServerState, zxid: Zxid) -> None: ...
    def barrier_asked(self, server: ServerState, token: int) -> None: ...
    def barrier_answered(self, server: ServerState, token: int, zxid: Zxid) -> None: ...

    # the process
    def started(self, server: ServerState, recovered: Recovered) -> None: ...
    def crashed(self, server: ServerState, unfinished: Sequence[Write]) -> None:
        """The process has ended. `unfinished` are the writes whose completion the disk had not reported."""

    def failed(self, server: ServerState, doing: str, error: Exception) -> None: ...
    def contradicted(self, server: ServerState, what: str) -> None:
        """The server has found that its history and that of its leader, or of a learner, contradict each other."""

    def ticked(self, server: ServerState) -> None:
        """The node of the server has handled its deadline. The effects follow."""

    def dropped(self, server: ServerState, learner: ServerId, sync_ms: Millis) -> None:
        """A leader closes its link to a learner; `sync_ms` is its sync_limit, or 0 if its clock was ever wrong."""

    def observed(self, server: ServerState, silent: Sequence[ServerId]) -> None:
        """Called periodically for a serving leader: it has received nothing from these voters for too long."""


Params = ParamSpec("Params")
Fact = Callable[Concatenate[Any, ServerState, Params], None]
Tell = Callable[Concatenate[ServerId, Params], None]


class Judge:
    """Receives each fact by a method. Most methods only pass the fact on; the others update the oracle state, too."""

    def __init__(
        self,
        ghost: OracleState,
        checkers: Sequence[Callable[[OracleState], Checker]],
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        self.ghost = ghost
        self._looked = looked
        """Called when a server's role has changed in the oracle state, or its process has ended."""
        self.checkers = tuple(make(ghost) for make in checkers)
        tell = self._tell
        self.proposed, self.broadcasts = tell(Checker.proposed), tell(Checker.broadcasts)
        self.remembers = tell(Checker.remembers)
        self.purged, self.stays, self.counts_durable = (
            tell(Checker.purged), tell(Checker.stays), tell(Checker.counts_durable),
        )  # fmt: skip
        self.heard_notification, self.heard_commit = tell(Checker.heard_notification), tell(Checker.heard_commit)
        self.serves, self.activated, self.machine = (
            tell(Checker.serves), tell(Checker.activated), tell(Checker.machine),
        )  # fmt: skip
        self.barrier_asked, self.barrier_answered = tell(Checker.barrier_asked), tell(Checker.barrier_answered)
        self.failed, self.contradicted, self.observed = (
            tell(Checker.failed), tell(Checker.contradicted), tell(Checker.observed),
        )  # fmt: skip
        self.heard_follower_info, self.heard_ack = tell(Checker.heard_follower_info), tell(Checker.heard_ack)
        self.ticked, self.dropped = tell(Checker.ticked), tell(Checker.dropped)
        self.said: dict[type, Callable[[ServerId, ServerId, Any], None]] = {
            LeaderInfo: tell(Checker.said_leader_info),
            AckEpoch: tell(Checker.said_ack_epoch),
            NewLeader: tell(Checker.said_new_leader),
            AckNewLeader: tell(Checker.said_ack_new_leader),
            UpToDate: tell(Checker.said_up_to_date),
            Ack: tell(Checker.said_ack),
        }
        """The checks of sent messages, by type. No checker needs messages of other types."""
        self._appended, self._appended_again = tell(Checker.appended), tell(Checker.appended, again=True)
        self._logged: dict[Zxid, tuple[Batch, Zxid]] = {}
        """The batch that was logged last, and the zxid before it, by first zxid."""
        self._applied, self._applied_again = tell(Checker.applied), tell(Checker.applied, again=True)
        self._fed: dict[Zxid, tuple[Batch, Zxid]] = {}
        """The batch that was applied last, and the zxid before it, by first zxid."""
        self._truncated, self._installed = tell(Checker.truncated), tell(Checker.installed)
        self._durable_append, self._durable_epochs = tell(Checker.durable_append), tell(Checker.durable_epochs)
        self._committed, self._believed = tell(Checker.committed), tell(Checker.believed)
        self._role, self._established = tell(Checker.role), tell(Checker.established)
        self._restored, self._acknowledged = tell(Checker.restored), tell(Checker.acknowledged)
        self._started, self._crashed = tell(Checker.started), tell(Checker.crashed)

    def concerned(self, fact: str, again: bool) -> list[Checker]:
        """Return the checkers that handle this fact."""
        plain = getattr(Checker, fact)
        wanting = [checker for checker in self.checkers if getattr(type(checker), fact) is not plain]
        return [checker for checker in wanting if not (again and fact in checker.by_place)]

    def _asking(self, fact: str, again: bool) -> list[Callable[..., None]]:
        return [getattr(checker, fact) for checker in self.concerned(fact, again)]

    def _tell(self, fact: Fact[Params], *, again: bool = False) -> Tell[Params]:
        servers, checks = self.ghost.servers, self._asking(fact.__name__, again)

        def tell(sid: ServerId, /, *args: Params.args, **kwargs: Params.kwargs) -> None:
            server = servers[sid]
            for check in checks:
                check(server, *args, **kwargs)

        return tell

    # -- the log, as handed to the disk --------------------------------------------------------------

    def appended(self, sid: ServerId, batch: Batch) -> None:
        server = self.ghost.servers[sid]
        before = self._logged.get(batch.first)
        if before is not None and before[0] is batch and before[1] == server.tip:
            self._appended_again(sid, batch)
        else:
            self._appended(sid, batch)
            self.ghost.log(batch, server.tip)
            self._logged[batch.first] = batch, server.tip
        server.tip = batch.last

    def truncated(self, sid: ServerId, zxid: Zxid) -> None:
        self._truncated(sid, zxid)
        self.ghost.servers[sid].tip = zxid

    def installed(self, sid: ServerId, zxid: Zxid) -> None:
        self._installed(sid, zxid)
        self.ghost.servers[sid].tip = zxid

    def goes_by(self, sid: ServerId, members: Zxid) -> None:
        """Save the membership of this version as the one in force. The write is not durable yet."""
        self.ghost.servers[sid].members = members

    # -- the disk ------------------------------------------------------------------------------------

    def durable_append(self, sid: ServerId, batch: Batch) -> None:
        self._durable_append(sid, batch)
        self.ghost.servers[sid].durable = batch.last

    def durable_end(self, sid: ServerId, zxid: Zxid) -> None:
        """The log on the disk was truncated at `zxid`, or replaced by a snapshot at `zxid`."""
        self.ghost.servers[sid].durable = zxid

    def durable_epochs(self, sid: ServerId, accepted: Epoch, current: Epoch, trusted: bool = True) -> None:
        self._durable_epochs(sid, accepted, current)
        server = self.ghost.servers[sid]
        if trusted:
            server.impaired = False  # a leader has synchronized it, and its promises are known or void
        server.accepted, server.current = accepted, current

    # -- messages and commitment -----------------------------------------------------------------------

    def heard_leader_info(self, sid: ServerId, epoch: Epoch) -> None:
        self.ghost.servers[sid].promised = epoch

    def committed(self, sid: ServerId, zxid: Zxid, leads: bool) -> None:
        if not leads:
            self._believed(sid, zxid)
            return
        path = self.ghost.extension(zxid) if zxid in self.ghost.depth else None
        self._committed(sid, zxid, path)
        if path:
            self.ghost.commit(path)

    def role(self, sid: ServerId, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        ghost, server = self.ghost, self.ghost.servers[sid]
        if state is State.LEADING and server.state != State.LEADING:
            server.stint += 1
        self._role(sid, state, epoch, leader, serving)
        if state is State.LEADING and server.state == State.LEADING and epoch > server.epoch:
            self._established(sid, epoch)
            ghost.initial[epoch], ghost.ruler[epoch] = server.tip, server.id
            ghost.newest = max(ghost.newest, epoch)
        server.state, server.epoch, server.leader, server.serving = state, epoch, leader, serving
        self._looked()

    # -- the machine and its clients -------------------------------------------------------------------

    def applied(self, sid: ServerId, batch: Batch) -> None:
        server = self.ghost.servers[sid]
        before = self._fed.get(batch.first)
        if before is not None and before[0] is batch and before[1] == server.applied:
            self._applied_again(sid, batch)
        else:
            self._applied(sid, batch)
            self._fed[batch.first] = batch, server.applied
        server.applied = batch.last
        server.count += batch.count

    def restored(self, sid: ServerId, zxid: Zxid) -> None:
        self._restored(sid, zxid)
        server = self.ghost.servers[sid]
        server.applied, server.count = zxid, self.ghost.place.get(zxid, 0)

    def acknowledged(self, sid: ServerId, zxid: Zxid) -> None:
        self._acknowledged(sid, zxid)
        self.ghost.acknowledged = max(self.ghost.acknowledged, zxid)

    # -- the process ---------------------------------------------------------------------------------

    def started(self, sid: ServerId, recovered: Recovered, last: Zxid) -> None:
        """The server has read its disk and found `recovered`, a history that ends at `last`."""
        self._started(sid, recovered)
        behind = recovered.snapshot
        for batch in recovered.batches:
            self.ghost.log(batch, behind)
            behind = batch.last
        server = self.ghost.servers[sid]
        server.tip = server.durable = last
        server.accepted, server.current = recovered.accepted, recovered.current
        server.members = NOTHING if recovered.ensemble is None else recovered.ensemble.version
        server.went_back, server.up = False, True

    def crashed(self, sid: ServerId, unfinished: Sequence[Write] = ()) -> None:
        self._crashed(sid, unfinished)
        server = self.ghost.servers[sid]
        server.tip = server.durable
        server.state, server.leader, server.serving, server.up = State.LOOKING, None, False, False
        self._looked()

    def disk_lost(self, sid: ServerId) -> None:
        """The script removed the disk, or damaged it. Its former content still counts as having been durable."""
        server = self.ghost.servers[sid]
        server.kept.append(server.durable)
        server.impaired = True

    def disk_went_back(self, sid: ServerId) -> None:
        """The script restored an old state of the disk, unnoticeably. Its former content still counts."""
        server = self.ghost.servers[sid]
        server.kept.append(server.durable)
        server.went_back = True
