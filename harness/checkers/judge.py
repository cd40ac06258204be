"""The interface of the checkers that follow a run of servers, and the judge that passes the facts of a run to them.

The judge passes a fact to the checkers first and writes it into the oracle state afterwards, so a checker sees the
state right before the fact. Each checker answers in constant or amortized constant time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec

from harness.checkers.ghost import Ghost, Known, Violation
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, Notification, State, UpToDate
from zab.core.ready import Recovered, Write
from zab.core.zxid import Epoch, Millis, ServerId, Zxid


class Checker:
    """Holds one invariant. A checker overrides the facts that it needs, and raises through `fail`."""

    invariant: str = ""
    by_place: frozenset[str] = frozenset()
    """Facts of batches (`appended`, `applied`) that it judges by the batch and by what it comes behind, and by nothing
    else: when a server does what another one has done with the same batch in the same place, it is not asked again."""

    def __init__(self, ghost: Ghost) -> None:
        self.ghost = ghost

    def fail(self, what: str) -> None:
        raise Violation(self.invariant, what)

    # what a primary said, and what went to the disk
    def proposed(self, who: Known, first: Zxid, payloads: Sequence[bytes]) -> None: ...
    def broadcasts(self, who: Known, epoch: Epoch) -> None: ...
    def appended(self, who: Known, batch: Batch) -> None: ...
    def truncated(self, who: Known, zxid: Zxid) -> None: ...
    def installed(self, who: Known, zxid: Zxid) -> None: ...
    def goes_by(self, who: Known, members: Zxid) -> None:
        """From here on its disk is to say that the membership of this version is in force, as far as it knows."""

    def remembers(self, who: Known, members: Zxid) -> None:
        """From here on its disk is to say, with that, that it knows of whatever it has promised."""

    # what the disk did
    def durable_append(self, who: Known, batch: Batch) -> None: ...
    def durable_epochs(self, who: Known, accepted: Epoch, current: Epoch) -> None: ...

    def purged(self, who: Known, oldest: Zxid, begins: Zxid) -> None:
        """Its disk is rid of what is old: the oldest snapshot on it is at `oldest`, its log begins behind `begins`."""

    def stays(self, who: Known, newest: Zxid, needless: Sequence[str]) -> None:
        """Then, too: its newest snapshot, and the files on it that none of the snapshots needs that are to be kept."""

    def counts_durable(self, who: Known, zxid: Zxid) -> None:
        """Its disk has reported back, and now it takes its history to be durable up to `zxid`."""

    # what was said to whom
    def heard_notification(self, who: Known, source: ServerId, message: Notification) -> None: ...
    def heard_commit(self, who: Known, zxid: Zxid) -> None: ...
    def heard_follower_info(self, who: Known, source: ServerId) -> None:
        """The first message of a learner on a new link."""

    def heard_ack(self, who: Known, source: ServerId, zxid: Zxid) -> None: ...
    def said_leader_info(self, who: Known, to: ServerId, message: LeaderInfo) -> None: ...
    def said_ack_epoch(self, who: Known, to: ServerId, message: AckEpoch) -> None: ...
    def said_new_leader(self, who: Known, to: ServerId, message: NewLeader) -> None: ...
    def said_ack_new_leader(self, who: Known, to: ServerId, message: AckNewLeader) -> None: ...
    def said_up_to_date(self, who: Known, to: ServerId, message: UpToDate) -> None: ...
    def said_ack(self, who: Known, to: ServerId, message: Ack) -> None: ...

    # what became of it
    def committed(self, who: Known, zxid: Zxid, path: list[Zxid] | None) -> None:
        """A leader calls `zxid` committed; `path` leads there from the end of the canon, None if it leads elsewhere."""

    def believed(self, who: Known, zxid: Zxid) -> None:
        """A server that does not lead takes `zxid` for committed."""

    def role(self, who: Known, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None: ...
    def established(self, who: Known, epoch: Epoch) -> None:
        """A quorum has promised `epoch` to this leader, and its history as it stands is what the epoch begins with."""

    def serves(self, who: Known) -> None:
        """From now on clients may read here."""

    def applied(self, who: Known, batch: Batch) -> None: ...
    def activated(self, who: Known, ensemble: Ensemble) -> None:
        """The server puts `ensemble` in force. Its log and what is committed already include the same turn."""

    def restored(self, who: Known, zxid: Zxid) -> None: ...
    def machine(self, who: Known, zxid: Zxid, state: int, digest: int) -> None:
        """A checksum of what the machine holds at `zxid`, and the digest of the history that led there."""

    def acknowledged(self, who: Known, zxid: Zxid) -> None: ...
    def barrier_asked(self, who: Known, token: int) -> None: ...
    def barrier_answered(self, who: Known, token: int, zxid: Zxid) -> None: ...

    # the process
    def started(self, who: Known, recovered: Recovered) -> None: ...
    def crashed(self, who: Known, unfinished: Sequence[Write]) -> None:
        """The process is gone. `unfinished` was handed to the disk and not reported back."""

    def failed(self, who: Known, doing: str, error: Exception) -> None: ...
    def contradicted(self, who: Known, what: str) -> None:
        """It has found that its history and that of its leader, or of somebody whom it leads, are not one."""

    def dropped(self, who: Known, learner: ServerId, sync_ms: Millis) -> None:
        """A leader closes its link to a learner; `sync_ms` is its sync_limit, or 0 if its clock was ever wrong."""

    def observed(self, who: Known, silent: Sequence[ServerId]) -> None:
        """Looked at now and then: while it serves as leader, these voters could not be heard for far too long."""


Params = ParamSpec("Params")
Fact = Callable[Concatenate[Any, Known, Params], None]
Tell = Callable[Concatenate[ServerId, Params], None]


class Judge:
    """Has a method for each fact. Most of them only pass the fact on; the others keep the oracle state."""

    def __init__(
        self,
        ghost: Ghost,
        checkers: Sequence[Callable[[Ghost], Checker]],
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        self.ghost = ghost
        self._looked = looked
        """Called when a server's role has changed in the oracle state, or its process has ended."""
        self.checkers = tuple(make(ghost) for make in checkers)
        tell = self._tell
        self.proposed, self.broadcasts = tell(Checker.proposed), tell(Checker.broadcasts)
        self.goes_by, self.remembers = tell(Checker.goes_by), tell(Checker.remembers)
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
        self.dropped = tell(Checker.dropped)
        self.said: dict[type, Callable[[ServerId, ServerId, Any], None]] = {
            LeaderInfo: tell(Checker.said_leader_info),
            AckEpoch: tell(Checker.said_ack_epoch),
            NewLeader: tell(Checker.said_new_leader),
            AckNewLeader: tell(Checker.said_ack_new_leader),
            UpToDate: tell(Checker.said_up_to_date),
            Ack: tell(Checker.said_ack),
        }
        """By type of message. No checker reads the others."""
        self._appended, self._appended_again = tell(Checker.appended), tell(Checker.appended, again=True)
        self._logged: dict[Zxid, tuple[Batch, Zxid]] = {}
        """By first zxid: the batch that was logged last, and the zxid before it."""
        self._applied, self._applied_again = tell(Checker.applied), tell(Checker.applied, again=True)
        self._fed: dict[Zxid, tuple[Batch, Zxid]] = {}
        """By first zxid: the batch that was applied last, and the zxid before it."""
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
            who = servers[sid]
            for check in checks:
                check(who, *args, **kwargs)

        return tell

    # -- the log, as handed to the disk --------------------------------------------------------------

    def appended(self, sid: ServerId, batch: Batch) -> None:
        who = self.ghost.servers[sid]
        place = batch, who.tip
        before = self._logged.get(batch.first)
        if before is not None and before[0] is batch and before[1] == who.tip:
            self._appended_again(sid, batch)
        else:
            self._appended(sid, batch)
            self.ghost.log(*place)
            self._logged[batch.first] = place
        who.tip = batch.last

    def truncated(self, sid: ServerId, zxid: Zxid) -> None:
        self._truncated(sid, zxid)
        self.ghost.servers[sid].tip = zxid

    def installed(self, sid: ServerId, zxid: Zxid) -> None:
        self._installed(sid, zxid)
        self.ghost.servers[sid].tip = zxid

    # -- the disk ------------------------------------------------------------------------------------

    def durable_append(self, sid: ServerId, batch: Batch) -> None:
        self._durable_append(sid, batch)
        self.ghost.servers[sid].durable = batch.last

    def durable_end(self, sid: ServerId, zxid: Zxid) -> None:
        """The log on the disk was truncated at `zxid`, or replaced by a snapshot at `zxid`."""
        self.ghost.servers[sid].durable = zxid

    def durable_epochs(self, sid: ServerId, accepted: Epoch, current: Epoch, trusted: bool = True) -> None:
        self._durable_epochs(sid, accepted, current)
        who = self.ghost.servers[sid]
        if trusted:
            who.impaired = False  # a leader has given it a whole history, and its promises are known or void
        who.accepted, who.current = accepted, current

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
        ghost, who = self.ghost, self.ghost.servers[sid]
        if state is State.LEADING and who.state != State.LEADING:
            who.stint += 1
        self._role(sid, state, epoch, leader, serving)
        if state is State.LEADING and who.state == State.LEADING and epoch > who.epoch:
            self._established(sid, epoch)
            ghost.initial[epoch], ghost.ruler[epoch] = who.tip, who.id
            ghost.newest = max(ghost.newest, epoch)
        who.state, who.epoch, who.leader, who.serving = state, epoch, leader, serving
        self._looked()

    # -- the machine and its clients -------------------------------------------------------------------

    def applied(self, sid: ServerId, batch: Batch) -> None:
        who = self.ghost.servers[sid]
        before = self._fed.get(batch.first)
        if before is not None and before[0] is batch and before[1] == who.applied:
            self._applied_again(sid, batch)
        else:
            self._applied(sid, batch)
            self._fed[batch.first] = batch, who.applied
        who.applied = batch.last
        who.count += batch.count

    def restored(self, sid: ServerId, zxid: Zxid) -> None:
        self._restored(sid, zxid)
        who = self.ghost.servers[sid]
        who.applied, who.count = zxid, self.ghost.place.get(zxid, 0)

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
        who = self.ghost.servers[sid]
        who.tip = who.durable = last
        who.accepted, who.current = recovered.accepted, recovered.current
        who.went_back, who.up = False, True

    def crashed(self, sid: ServerId, unfinished: Sequence[Write] = ()) -> None:
        self._crashed(sid, unfinished)
        who = self.ghost.servers[sid]
        who.tip = who.durable
        who.state, who.leader, who.serving, who.up = State.LOOKING, None, False, False
        self._looked()

    def disk_lost(self, sid: ServerId) -> None:
        """The script removed the disk, or damaged it. Its former content still counts as having been durable."""
        who = self.ghost.servers[sid]
        who.kept.append(who.durable)
        who.impaired = True

    def disk_went_back(self, sid: ServerId) -> None:
        """The script restored an old state of the disk, unnoticeably. Its former content still counts."""
        who = self.ghost.servers[sid]
        who.kept.append(who.durable)
        who.went_back = True
