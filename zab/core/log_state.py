"""What a server is, whatever its role: its epochs, its history, how much of it is durable, committed, applied.

The roles decide; this module keeps the bookkeeping in which a mistake would be fatal in one place. Two
rules hold by construction. A transaction is applied only when it is committed *and* durable here, so the
machine is never ahead of the disk. And the machine holds nothing uncommitted, so that no change of role
can leave anything in it that would have to be taken back.
"""

from __future__ import annotations

from collections import deque

from attrs import evolve

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import RemoteProtocolError
from zab.core.history import History
from zab.core.messages import SnapHeld, Veto
from zab.core.outbox import Outbox
from zab.core.ready import (
    AbortSnapshot,
    Activate,
    Append,
    Apply,
    BeginSnapshot,
    InstallSnapshot,
    KeepSnapshot,
    Recovered,
    Restore,
    ResumeSnapshot,
    SaveEpochs,
    Settings,
    SnapshotChunk,
    Truncate,
)
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, ServerId, Ticket, Zxid, epoch_of, make, show


class LogState:
    def __init__(self, me: ServerId, ensemble: Ensemble, recovered: Recovered, settings: Settings) -> None:
        self.me = me
        self.settings = settings
        self.out = Outbox()
        self.history = History(recovered)
        self.accepted = recovered.accepted
        self.current = recovered.current
        self.newest_promise = recovered.accepted
        """The newest epoch that anybody was heard to have promised: an epoch I lead is newer than that."""
        self.whole = recovered.voting
        self.forgotten = recovered.forgotten
        saved = recovered.ensemble
        self.ensemble = saved if saved is not None and saved.version > ensemble.version else ensemble
        self.durable = self.history.last
        self._known = max(recovered.snapshot, recovered.committed)
        self.committed = recovered.snapshot
        self.applied = recovered.snapshot
        self._appends: deque[tuple[Ticket, Zxid]] = deque()
        self._restore: tuple[Ticket, Zxid] | None = None
        self._receiving = False
        self.held = recovered.held
        """What the disk was last reported to hold of a snapshot. Up to date whenever a later write is reported."""
        self.holds = recovered.held is not None
        """The disk holds part of a snapshot, or will when it comes to what it was handed."""

    # -- who I am ----------------------------------------------------------------------------------

    @property
    def last(self) -> Zxid:
        """Where my history ends, for votes and acknowledgements of an epoch."""
        return self.history.last if self.whole else UNKNOWN

    @property
    def voting(self) -> bool:
        """Whether I may be counted at all: I know my history, and all that I promised."""
        return self.whole and not self.forgotten

    @property
    def epoch(self) -> Epoch:
        """The newest epoch whose initial history I hold.

        A synchronization that broke off before its end may have brought transactions of a newer epoch than
        the one I acknowledged. Whoever holds `e/c` holds all that `e` began with, so the claim is true.
        """
        return max(self.current, epoch_of(self.history.last))

    @property
    def pending(self) -> Ensemble | None:
        """A membership change that is logged here but not known to be committed."""
        configs = self.history.configs
        return configs[-1] if configs and configs[-1].version > self.ensemble.version else None

    @property
    def views(self) -> tuple[Ensemble, ...]:
        """The memberships in which a quorum is needed, each by itself."""
        pending = self.pending
        return (self.ensemble,) if pending is None else (self.ensemble, pending)

    @property
    def observer(self) -> bool:
        return self.me in self.ensemble.observers

    @property
    def known(self) -> Zxid:
        """Everything up to here is known to be committed, now or from before a restart, and is in my history.

        The machine may not hold it yet: what is applied waits for a leader.
        """
        return max(self.committed, self._known) if self.whole else NOTHING

    # -- towards the disk --------------------------------------------------------------------------

    def save_epochs(self) -> Ticket:
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
        """Discard what nobody else has. What was committed is out of reach, whoever asks."""
        if zxid < self.committed:
            raise RemoteProtocolError(f"asked to cut at {show(zxid)}, but {show(self.committed)} is committed")
        self.history.truncate(zxid)
        self.out.save.append(Truncate(self.out.next_ticket(), zxid))
        self.durable = min(self.durable, zxid)
        self._appends = deque((ticket, min(last, zxid)) for ticket, last in self._appends)

    def begin_snapshot(self, zxid: Zxid) -> None:
        self._receiving, self.holds = True, False
        self.out.save.append(BeginSnapshot(self.out.next_ticket(), zxid))

    def snapshot_chunk(self, data: bytes) -> None:
        self.out.save.append(SnapshotChunk(self.out.next_ticket(), data))

    def resume_snapshot(self, held: SnapHeld) -> None:
        self._receiving, self.holds = True, False
        self.out.save.append(ResumeSnapshot(self.out.next_ticket(), held))

    def keep_snapshot(self) -> None:
        """What arrived of a snapshot stays on the disk, without effect, for a leader that can send the rest."""
        if self._receiving:
            self._receiving, self.holds = False, True
            self.out.save.append(KeepSnapshot(self.out.next_ticket()))

    def drop_held(self) -> None:
        """This history does not need the snapshot any more of which part is on the disk."""
        if self.holds:
            self.holds = False
            self.out.save.append(AbortSnapshot(self.out.next_ticket()))

    def install_snapshot(self, zxid: Zxid, digest: int) -> None:
        self._receiving = False
        ticket = self.out.next_ticket()
        self.out.save.append(InstallSnapshot(ticket, zxid, digest))
        self.history.reset(zxid, digest)
        self._known = zxid
        self._appends.clear()
        self._appends.append((ticket, zxid))
        self.durable = min(self.durable, zxid)
        self.committed = self.applied = zxid
        self._restore = (ticket, zxid)

    def saved(self, ticket: Ticket) -> bool:
        """Everything up to `ticket` is durable. True when the durable history grew."""
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

    # -- towards the machine -----------------------------------------------------------------------

    def commit(self, zxid: Zxid) -> None:
        """A quorum has everything up to `zxid`. Membership changes in there are in force from now on."""
        if zxid <= self.committed:
            return
        if zxid > self.history.last:
            raise RemoteProtocolError(f"{show(zxid)} was committed, but I have only {show(self.history.last)}")
        self.committed = zxid
        self._activate_up_to(zxid)
        self._apply()

    def note_decided(self, zxid: Zxid) -> None:
        """Put membership changes up to `zxid` into force, but commit nothing: UPTODATE has not arrived.

        What is proposed behind a change must not be acknowledged by a server that takes the change for pending.
        """
        if zxid > self.history.last:
            raise RemoteProtocolError(f"{show(zxid)} was committed, but never proposed to me")
        self._activate_up_to(zxid)

    def _activate_up_to(self, zxid: Zxid) -> None:
        for config in self.history.configs:
            if self.ensemble.version < config.version <= zxid:
                self.activate(config)

    def activate(self, ensemble: Ensemble) -> None:
        """From now on this membership counts. A restart must not fall back to one whose servers may be gone."""
        if ensemble.version <= self.ensemble.version:
            return
        self.ensemble = ensemble
        self.save_epochs()
        self.out.apply.append(Activate(ensemble))
        self.out.note("membership", version=show(ensemble.version), voters=list(ensemble.voters))

    def ensemble_of(self, epoch: Epoch) -> Ensemble:
        """The membership under which this server would lead `epoch`.

        One that came from a file gets its first version from the first epoch, unless a change is logged
        already: that one's version is older than the epoch, and must not be overtaken.
        """
        if self.ensemble.version or self.pending is not None:
            return self.ensemble
        return evolve(self.ensemble, version=make(epoch, 0))

    def _apply(self) -> None:
        until = min(self.committed, self.durable)
        if until <= self.applied or self._restore is not None:
            return
        self.out.apply += [Apply(batch) for batch in self.history.after(self.applied, until)]
        self.applied = until
        self.history.trim(until, self.settings)

    def distrust(self, why: str) -> None:
        """My history contradicts the leader's. It must not vote, and be replaced by the leader's."""
        self.whole = False
        self.save_epochs()
        self.out.note("history_distrusted", "warning", why=why)

    def give_up(self, veto: Veto) -> None:
        """Have this history replaced by the leader's, though it has committed transactions that the leader lacks."""
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
            why=f"a snapshot of the leader takes its place; its files, with {veto.count} transactions that the leader "
            f"lacks, are kept as damaged.*",
        )
