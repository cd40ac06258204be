"""The state of a server that outlives its roles: epochs, membership, history, and how far it is durable and applied.

The roles make the decisions. This module keeps the resulting state, because a mistake in it would lose data. Two rules
hold by construction:

- A transaction is applied only when it is committed *and* durable here. So the replicated state machine, "the machine"
  below, is never ahead of the disk.
- The machine holds nothing uncommitted. So a change of role never has to undo anything in the machine.
"""

from __future__ import annotations

from collections import deque

from attrs import evolve

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import RemoteProtocolError
from zab.core.history import History
from zab.core.messages import Veto
from zab.core.outbox import Outbox
from zab.core.partial_snapshot import PartialSnapshot
from zab.core.plurals import counted
from zab.core.ready import (
    Activate,
    Append,
    Apply,
    Recovered,
    Restore,
    SaveEpochs,
    Settings,
    Truncate,
)
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Ticket, Zxid, counter_of, epoch_of, make, show


class LogState:
    """The epochs, the membership and the history of one server, with the writes that keep them on its disk.

    Always `applied <= committed <= history.last`, `durable <= history.last` and `current <= accepted`. Applied
    transactions are durable, except while the machine waits for the installation of a snapshot. These invariants
    connect all of this state, so one object holds it.
    """

    def __init__(self, me: ServerId, ensemble: Ensemble, recovered: Recovered, settings: Settings) -> None:
        self.me = me
        self.settings = settings
        self.out = Outbox()
        """All effects of the node until `ready` drains them."""
        self.history = History(recovered)
        """The logged history: its recent part in memory, its older part as an outline."""
        self.accepted = recovered.accepted
        """The newest epoch that this server has promised. It never goes back."""
        self.current = recovered.current
        """The newest epoch that this server has adopted."""
        self.newest_promise = recovered.accepted
        """The newest promise that any server has reported. The next epoch that this server chooses is newer."""
        self.whole = recovered.voting
        """False while transactions may be missing in the history. A synchronization makes it whole."""
        self.forgotten = recovered.forgotten
        """True while promises may be lost, for example because the epochs record was damaged.

        The commit of a membership that was proposed after this server's synchronization clears it.
        """
        saved, ensemble = recovered.ensemble, self.without_first_version(ensemble)
        if saved is not None:
            saved = self.without_first_version(saved)
        self.ensemble = saved if saved is not None and saved.version > ensemble.version else ensemble
        """The active membership. Its version goes back only if this server takes over a history that lacks the newer
        one.
        """
        self.durable = self.history.last
        """Everything up to here is on the disk."""
        self._known = max(recovered.snapshot, recovered.committed)
        """Everything up to this zxid was known to be committed before the start, or came with a snapshot."""
        self.committed = recovered.snapshot
        """Everything up to here is committed, as a snapshot, a leader or a quorum has confirmed since the start.

        Like `applied`, it goes back only if a leader's snapshot replaces a history that is not `whole`.
        """
        self.applied = recovered.snapshot
        """Everything up to here was handed to the machine, or is in the snapshot for which the machine waits."""
        self._appends: deque[tuple[Ticket, Zxid]] = deque()
        """The ticket of each write of history that is not durable, with the end of the history after it, in order."""
        self._restore: tuple[Ticket, Zxid] | None = None
        """The ticket and the zxid of a snapshot that the machine restores once it is durable; None without one.

        Nothing is applied before.
        """
        self.partial = PartialSnapshot(self.out, recovered.held)
        """The leader's snapshot while it arrives, or the part of it that the disk keeps."""

    # -- this server ---------------------------------------------------------------------------------

    @property
    def last(self) -> Zxid:
        """The end of the history, as sent in votes and in `AckEpoch`. UNKNOWN while the history is not `whole`."""
        return self.history.last if self.whole else UNKNOWN

    @property
    def voting(self) -> bool:
        """True if this server may be counted in quorums: it has its whole history and all its promises."""
        return self.whole and not self.forgotten

    @property
    def epoch(self) -> Epoch:
        """The newest epoch whose initial history this server has.

        It can be newer than the adopted epoch, because an interrupted synchronization may have brought transactions of
        a newer epoch. A server with a transaction of an epoch also has the initial history of that epoch.
        """
        return max(self.current, epoch_of(self.history.last))

    @property
    def pending(self) -> Ensemble | None:
        """The membership change that is logged here but not known to be committed, or None."""
        configs = self.history.configs
        return configs[-1] if configs and configs[-1].version > self.ensemble.version else None

    @property
    def views(self) -> tuple[Ensemble, ...]:
        """The active membership and a pending change, if any. A leader needs a quorum of each."""
        pending = self.pending
        return (self.ensemble,) if pending is None else (self.ensemble, pending)

    @property
    def observer(self) -> bool:
        return self.me in self.ensemble.observers

    @property
    def known(self) -> Zxid:
        """The zxid up to which the history is known to be committed, from this run or from the disk.

        `applied` may be behind it: a restarted server applies transactions only when a leader or a quorum confirms
        them. The active membership was committed, so a history that contains its change is committed up to that change.
        NOTHING while the history is not `whole`.
        """
        if not self.whole:
            return NOTHING
        known, version = max(self.committed, self._known), self.ensemble.version
        return version if version > known and self.history.floor(version) == version else known

    # -- writes to the disk ------------------------------------------------------------------------

    def save_epochs(self) -> Ticket:
        assert self.current <= self.accepted, "an epoch is promised before it is adopted"
        ticket = self.out.next_ticket()
        self.out.save.append(SaveEpochs(ticket, self.accepted, self.current, self.ensemble, self.whole, self.forgotten))
        return ticket

    def append(self, batch: Batch) -> Ticket:
        self.history.append(batch)
        ticket = self.out.next_ticket()
        self.out.save.append(Append(ticket, batch))
        self._appends.append((ticket, batch.last))
        return ticket

    def truncate(self, zxid: Zxid) -> None:
        """Discard everything after `zxid`. Raise RemoteProtocolError if this includes committed transactions."""
        if zxid < self.committed:
            raise RemoteProtocolError(f"asked to truncate to {show(zxid)}, but {show(self.committed)} is committed")
        self.history.truncate(zxid)
        self.out.save.append(Truncate(self.out.next_ticket(), zxid))
        self.durable = min(self.durable, zxid)
        self._appends = deque((ticket, min(last, zxid)) for ticket, last in self._appends)

    def install_snapshot(self, zxid: Zxid, digest: int | None) -> None:
        ticket = self.partial.install(zxid, digest)
        self.history.reset(zxid, digest)
        self._known = zxid
        self._appends.clear()
        self._appends.append((ticket, zxid))
        self.durable = min(self.durable, zxid)
        self.committed = self.applied = zxid
        self._restore = (ticket, zxid)

    def saved(self, ticket: Ticket) -> bool:
        """Record that all writes up to `ticket` are durable.

        Return whether the newly durable ones include transactions or a snapshot.
        """
        grew = False
        appends = self._appends
        while appends and appends[0][0] <= ticket:
            self.durable = appends.popleft()[1]
            grew = True
        if self._restore is not None and self._restore[0] <= ticket:
            self.out.apply.append(Restore(self._restore[1]))
            self._restore = None
        if grew:
            self._apply()
        return grew

    # -- effects on the machine ---------------------------------------------------------------------

    def commit(self, zxid: Zxid) -> None:
        """Commit everything up to `zxid`: put its membership changes into force, and apply what is durable.

        Raise RemoteProtocolError if the history ends before `zxid`.
        """
        if zxid <= self.committed:
            return
        if zxid > self.history.last:
            raise RemoteProtocolError(
                f"{show(zxid)} was committed, but this server's history ends at {show(self.history.last)}"
            )
        self.committed = zxid
        self._activate_up_to(zxid)
        self._apply()

    def note_decided(self, zxid: Zxid) -> None:
        """Put membership changes up to `zxid` into force, but commit nothing: UPTODATE has not arrived.

        If the changes waited for UPTODATE, this server would acknowledge proposals after a change that it still takes
        for pending. If only such a change gives this server a vote, a new leader may then ignore this server's newer
        history (`LeaderQuorums.may_know_more`).

        Raise RemoteProtocolError if the history ends before `zxid`.
        """
        if zxid > self.history.last:
            raise RemoteProtocolError(f"{show(zxid)} was committed, but never proposed to this server")
        self._activate_up_to(zxid)

    def _activate_up_to(self, zxid: Zxid) -> None:
        for config in self.history.configs:
            if self.ensemble.version < config.version <= zxid:
                self.activate(config)

    def activate(self, ensemble: Ensemble) -> None:
        """Put this membership into force if it is newer than the active one, and save it.

        Without the save, a restart would go back to a membership whose servers may be gone.
        """
        if ensemble.version <= self.ensemble.version:
            return
        self.ensemble = ensemble
        self.save_epochs()
        self.out.apply.append(Activate(ensemble))
        self.out.note("membership", version=show(ensemble.version), voters=list(ensemble.voters))

    def drop_membership(self, leaders: Ensemble) -> None:
        """Replace the active membership, which the leader's history lacks, by the older one of the leader.

        The replacement has the version NOTHING until the leader's membership is activated.
        """
        self.out.note("membership_dropped", "warning", version=show(self.ensemble.version), taken=show(leaders.version))
        self.ensemble = evolve(leaders, version=NOTHING)

    def ensemble_of(self, epoch: Epoch) -> Ensemble:
        """Return the membership under which this server would lead `epoch`.

        The membership of a configuration file has no version; the first leader gives it a version in its epoch. If a
        change is already logged, the file's membership stays without a version, because the change must stay the newest
        and its version is older than the epoch.
        """
        if self.ensemble.version or self.pending is not None or not self.settings.membership_versions:
            return self.ensemble
        return evolve(self.ensemble, version=make(epoch, 0))

    def without_first_version(self, ensemble: Ensemble) -> Ensemble:
        """Return the membership without the version that a first leader gave it, if `membership_versions` is off.

        ZooKeeper's leader sends such a version with NEWLEADER also without `reconfigEnabled`, and its learners ignore
        it. In notifications a newer version than theirs lets them begin another election.
        """
        if self.settings.membership_versions or counter_of(ensemble.version) or not ensemble.version:
            return ensemble
        return evolve(ensemble, version=NOTHING)

    def _apply(self) -> None:
        until = min(self.committed, self.durable)
        if until <= self.applied or self._restore is not None:
            return
        self.out.apply += [Apply(batch) for batch in self.history.after(self.applied, until)]
        self.applied = until
        self.history.trim(until, self.settings)

    def distrust(self, why: str) -> None:
        """Stop voting with this history, which contradicts the leader's, so that the leader's history replaces it."""
        self.whole = False
        self.save_epochs()
        self.out.note("history_distrusted", "warning", why=why)

    def give_up(self, veto: Veto) -> None:
        """Let the leader's history replace this server's, although the leader lacks transactions committed here."""
        self.whole = False
        self.save_epochs()
        self.out.note(
            "history_given_up",
            "warning",
            leader=veto.leader,
            common=show(veto.common),
            committed=show(veto.committed),
            last=show(veto.last),
            count=veto.count,
            why=f"a leader's snapshot will replace this history; its files, with "
            f"{counted(veto.count, 'transaction')} after {show(veto.common)}, are kept as damaged.*",
        )
