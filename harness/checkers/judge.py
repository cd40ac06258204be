"""Tells the checkers what happened, and keeps the ghost's books.

A fact is told to the checkers first and written into the ghost afterwards, so a checker sees the world as
it was right before. Only the checkers that want a fact are asked; each answers in constant time, or in
time that is paid for once over a whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from harness.checkers.ghost import Ghost, Known, Violation
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, AckEpoch, AckNewLeader, LeaderInfo, NewLeader, Notification, State, UpToDate
from zab.core.ready import Recovered, Write
from zab.core.zxid import Epoch, ServerId, Zxid


class Checker:
    """Holds one promise. A checker overrides the facts that it needs, and raises through `fail`."""

    promise: str = ""
    by_place: frozenset[str] = frozenset()
    """Facts of batches (`appended`, `applied`) that it judges by the batch and by what it comes behind, and by nothing
    else: when a server does what another one has done with the same batch in the same place, it is not asked again."""

    def __init__(self, ghost: Ghost) -> None:
        self.ghost = ghost

    def fail(self, what: str) -> None:
        raise Violation(self.promise, what)

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

    def observed(self, who: Known, silent: Sequence[ServerId]) -> None:
        """Looked at now and then: while it serves as leader, these voters could not be heard for far too long."""


_SAID: Final[dict[type, str]] = {
    LeaderInfo: "said_leader_info",
    AckEpoch: "said_ack_epoch",
    NewLeader: "said_new_leader",
    AckNewLeader: "said_ack_new_leader",
    UpToDate: "said_up_to_date",
    Ack: "said_ack",
}

Asked = list[Callable[..., None]]


class Judge:
    def __init__(
        self,
        ghost: Ghost,
        checkers: Sequence[Callable[[Ghost], Checker]],
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        self.ghost = ghost
        self._looked = looked
        """Called when the books show another role of a server, or that it is gone."""
        self.checkers = tuple(make(ghost) for make in checkers)
        self._proposed = self._asking("proposed")
        self._broadcasts = self._asking("broadcasts")
        self._appended = self._asking("appended")
        self._appended_again = self._asking("appended", again=True)
        self._stood: dict[Zxid, tuple[Batch, Zxid]] = {}
        """By first zxid: which batch was logged last, and behind what."""
        self._truncated = self._asking("truncated")
        self._installed = self._asking("installed")
        self._goes_by = self._asking("goes_by")
        self._remembers = self._asking("remembers")
        self._durable_append = self._asking("durable_append")
        self._durable_epochs = self._asking("durable_epochs")
        self._purged = self._asking("purged")
        self._stays = self._asking("stays")
        self._counts_durable = self._asking("counts_durable")
        self._heard_notification = self._asking("heard_notification")
        self._heard_commit = self._asking("heard_commit")
        self._committed = self._asking("committed")
        self._believed = self._asking("believed")
        self._role = self._asking("role")
        self._established = self._asking("established")
        self._serves = self._asking("serves")
        self._applied = self._asking("applied")
        self._applied_again = self._asking("applied", again=True)
        self._fed: dict[Zxid, tuple[Batch, Zxid]] = {}
        """By first zxid: which batch was applied last, and behind what."""
        self._activated = self._asking("activated")
        self._restored = self._asking("restored")
        self._machine = self._asking("machine")
        self._acknowledged = self._asking("acknowledged")
        self._barrier_asked = self._asking("barrier_asked")
        self._barrier_answered = self._asking("barrier_answered")
        self._started = self._asking("started")
        self._crashed = self._asking("crashed")
        self._failed = self._asking("failed")
        self._contradicted = self._asking("contradicted")
        self._observed = self._asking("observed")
        self.said: dict[type, Callable[[ServerId, ServerId, Any], None]] = {
            message: self._telling(fact) for message, fact in _SAID.items()
        }
        """By type of message. What is not in here concerns nobody."""

    def concerned(self, fact: str, again: bool) -> list[Checker]:
        """Return the checkers that handle this fact."""
        plain = getattr(Checker, fact)
        wanting = [checker for checker in self.checkers if getattr(type(checker), fact) is not plain]
        return [checker for checker in wanting if not (again and fact in checker.by_place)]

    def _asking(self, fact: str, again: bool = False) -> Asked:
        return [getattr(checker, fact) for checker in self.concerned(fact, again)]

    def _telling(self, fact: str) -> Callable[[ServerId, ServerId, Any], None]:
        asked, servers = self._asking(fact), self.ghost.servers

        def tell(sid: ServerId, to: ServerId, message: object) -> None:
            who = servers[sid]
            for check in asked:
                check(who, to, message)

        return tell

    # -- the log, as handed to the disk --------------------------------------------------------------

    def proposed(self, sid: ServerId, first: Zxid, payloads: Sequence[bytes]) -> None:
        who = self.ghost.servers[sid]
        for check in self._proposed:
            check(who, first, payloads)

    def broadcasts(self, sid: ServerId, epoch: Epoch) -> None:
        """It has proposed something of this epoch, and has delivered by then whatever it delivers before."""
        who = self.ghost.servers[sid]
        for check in self._broadcasts:
            check(who, epoch)

    def appended(self, sid: ServerId, batch: Batch) -> None:
        ghost = self.ghost
        who = ghost.servers[sid]
        tip = who.tip
        stood = self._stood.get(batch.first)
        if stood is not None and stood[0] is batch and stood[1] == tip:
            for check in self._appended_again:
                check(who, batch)
        else:
            for check in self._appended:
                check(who, batch)
            ghost.log(batch, tip)
            self._stood[batch.first] = batch, tip
        who.tip = batch.last

    def truncated(self, sid: ServerId, zxid: Zxid) -> None:
        who = self.ghost.servers[sid]
        for check in self._truncated:
            check(who, zxid)
        who.tip = zxid

    def installed(self, sid: ServerId, zxid: Zxid) -> None:
        who = self.ghost.servers[sid]
        for check in self._installed:
            check(who, zxid)
        who.tip = zxid

    def goes_by(self, sid: ServerId, members: Zxid) -> None:
        for check in self._goes_by:
            check(self.ghost.servers[sid], members)

    def remembers(self, sid: ServerId, members: Zxid) -> None:
        for check in self._remembers:
            check(self.ghost.servers[sid], members)

    # -- the disk ------------------------------------------------------------------------------------

    def durable_append(self, sid: ServerId, batch: Batch) -> None:
        who = self.ghost.servers[sid]
        for check in self._durable_append:
            check(who, batch)
        who.durable = batch.last

    def durable_end(self, sid: ServerId, zxid: Zxid) -> None:
        """The log on the disk was cut at `zxid`, or a snapshot at `zxid` took its place."""
        self.ghost.servers[sid].durable = zxid

    def durable_epochs(self, sid: ServerId, accepted: Epoch, current: Epoch, trusted: bool = True) -> None:
        who = self.ghost.servers[sid]
        for check in self._durable_epochs:
            check(who, accepted, current)
        if trusted:
            who.impaired = False  # a leader has given it a whole history, and its promises are known or void
        who.accepted, who.current = accepted, current

    def purged(self, sid: ServerId, oldest: Zxid, begins: Zxid) -> None:
        who = self.ghost.servers[sid]
        for check in self._purged:
            check(who, oldest, begins)

    def stays(self, sid: ServerId, newest: Zxid, needless: Sequence[str]) -> None:
        for check in self._stays:
            check(self.ghost.servers[sid], newest, needless)

    def counts_durable(self, sid: ServerId, zxid: Zxid) -> None:
        who = self.ghost.servers[sid]
        for check in self._counts_durable:
            check(who, zxid)

    # -- words ---------------------------------------------------------------------------------------

    def heard_notification(self, sid: ServerId, source: ServerId, message: Notification) -> None:
        who = self.ghost.servers[sid]
        for check in self._heard_notification:
            check(who, source, message)

    def heard_leader_info(self, sid: ServerId, epoch: Epoch) -> None:
        self.ghost.servers[sid].promised = epoch

    def heard_commit(self, sid: ServerId, zxid: Zxid) -> None:
        for check in self._heard_commit:
            check(self.ghost.servers[sid], zxid)

    # -- commitment ----------------------------------------------------------------------------------

    def committed(self, sid: ServerId, zxid: Zxid, leads: bool) -> None:
        ghost = self.ghost
        who = ghost.servers[sid]
        if not leads:
            for check in self._believed:
                check(who, zxid)
            return
        path = ghost.extension(zxid) if zxid in ghost.depth else None
        for check in self._committed:
            check(who, zxid, path)
        if path:
            ghost.commit(path)

    def role(self, sid: ServerId, state: State, epoch: Epoch, leader: ServerId | None, serving: bool) -> None:
        who = self.ghost.servers[sid]
        if state is State.LEADING and who.state != State.LEADING:
            who.stint += 1
        for check in self._role:
            check(who, state, epoch, leader, serving)
        if state is State.LEADING and who.state == State.LEADING and epoch > who.epoch:
            self._establish(who, epoch)
        who.state, who.epoch, who.leader, who.serving = state, epoch, leader, serving
        self._looked()

    def _establish(self, who: Known, epoch: Epoch) -> None:
        ghost = self.ghost
        for check in self._established:
            check(who, epoch)
        ghost.initial[epoch] = who.tip
        ghost.ruler[epoch] = who.id
        ghost.newest = max(ghost.newest, epoch)

    def serves(self, sid: ServerId) -> None:
        who = self.ghost.servers[sid]
        for check in self._serves:
            check(who)

    # -- the machine ---------------------------------------------------------------------------------

    def applied(self, sid: ServerId, batch: Batch) -> None:
        who = self.ghost.servers[sid]
        fed = self._fed.get(batch.first)
        if fed is not None and fed[0] is batch and fed[1] == who.applied:
            for check in self._applied_again:
                check(who, batch)
        else:
            for check in self._applied:
                check(who, batch)
            self._fed[batch.first] = batch, who.applied
        who.applied = batch.last
        who.count += batch.count

    def activated(self, sid: ServerId, ensemble: Ensemble) -> None:
        who = self.ghost.servers[sid]
        for check in self._activated:
            check(who, ensemble)

    def restored(self, sid: ServerId, zxid: Zxid) -> None:
        ghost = self.ghost
        who = ghost.servers[sid]
        for check in self._restored:
            check(who, zxid)
        who.applied = zxid
        who.count = ghost.place.get(zxid, 0)

    def machine(self, sid: ServerId, zxid: Zxid, state: int, digest: int) -> None:
        who = self.ghost.servers[sid]
        for check in self._machine:
            check(who, zxid, state, digest)

    # -- clients -------------------------------------------------------------------------------------

    def acknowledged(self, sid: ServerId, zxid: Zxid) -> None:
        ghost = self.ghost
        for check in self._acknowledged:
            check(ghost.servers[sid], zxid)
        ghost.acknowledged = max(ghost.acknowledged, zxid)

    def barrier_asked(self, sid: ServerId, token: int) -> None:
        for check in self._barrier_asked:
            check(self.ghost.servers[sid], token)

    def barrier_answered(self, sid: ServerId, token: int, zxid: Zxid) -> None:
        for check in self._barrier_answered:
            check(self.ghost.servers[sid], token, zxid)

    # -- the process ---------------------------------------------------------------------------------

    def started(self, sid: ServerId, recovered: Recovered, last: Zxid) -> None:
        """It read its disk and found `recovered`, a history that ends at `last`."""
        who = self.ghost.servers[sid]
        for check in self._started:
            check(who, recovered)
        behind = recovered.snapshot
        for batch in recovered.batches:
            self.ghost.log(batch, behind)
            behind = batch.last
        who.tip = who.durable = last
        who.accepted, who.current = recovered.accepted, recovered.current
        who.went_back = False
        who.up = True

    def crashed(self, sid: ServerId, unfinished: Sequence[Write] = ()) -> None:
        who = self.ghost.servers[sid]
        for check in self._crashed:
            check(who, unfinished)
        who.tip = who.durable
        who.state, who.leader, who.serving, who.up = State.LOOKING, None, False, False
        self._looked()

    def disk_lost(self, sid: ServerId) -> None:
        """The script took the disk away, or damaged it. What was on it still counts as having been there."""
        who = self.ghost.servers[sid]
        who.kept.append(who.durable)
        who.impaired = True

    def disk_went_back(self, sid: ServerId) -> None:
        """The script made the disk what it was earlier. Nothing on it says so, and what was on it still counts."""
        who = self.ghost.servers[sid]
        who.kept.append(who.durable)
        who.went_back = True

    def failed(self, sid: ServerId, doing: str, error: Exception) -> None:
        for check in self._failed:
            check(self.ghost.servers[sid], doing, error)

    def contradicted(self, sid: ServerId, what: str) -> None:
        for check in self._contradicted:
            check(self.ghost.servers[sid], what)

    def observed(self, sid: ServerId, silent: Sequence[ServerId]) -> None:
        for check in self._observed:
            check(self.ghost.servers[sid], silent)
