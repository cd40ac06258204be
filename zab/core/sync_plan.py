"""Choose how to synchronize a learner, by the outline of the leader's history and the learner's last zxid."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from zab.core.history import History
from zab.core.messages import SnapHeld
from zab.core.ready import Settings
from zab.core.zxid import UNKNOWN, Zxid, counter_of, epoch_of, make


class Form(Enum):
    DIFF = "diff"
    TRUNC = "trunc"
    SNAP = "snap"


@frozen
class SyncPlan:
    """Send `form`, then all transactions after `common`; those up to `history.base` are read from the disk.

    If `cut` is set, the learner's history agrees with the leader's up to `cut`, and continues with transactions that
    the leader lacks. Then TRUNC to `cut` is sent first, also before a snapshot, so that the learner can veto.

    If the learner's history ends at the beginning of an epoch, with counter 0, `common` may be the transaction before.
    The two mean the same state, because such a zxid only comes with a snapshot from a leader whose epoch is
    established: every later leader has the initial history of that epoch.
    """

    form: Form
    common: Zxid
    cut: Zxid | None = None


def can_resume(history: History, held: SnapHeld, settings: Settings) -> bool:
    """Return whether to send the rest of the snapshot at `held.zxid` and the log after it, instead of a new snapshot.

    The leader's history must contain the transaction `held.zxid`. The log after it must have at most
    `log_sync_entries_max` transactions, because the learner keeps them in memory until NEWLEADER. Its estimated size
    must be at most `held.size`, so that resuming sends no more than it saves.
    """
    zxid = held.zxid
    return (
        counter_of(zxid) > 0
        and history.floor(zxid) == zxid
        and history.entries_between(zxid, history.last) <= settings.log_sync_entries_max
        and history.bytes_behind(zxid) <= held.size
    )


def plan(
    history: History,
    applied: Zxid,
    peer: Zxid,
    settings: Settings,
    foreign: bool = False,
    until: Zxid | None = None,
) -> SyncPlan:
    """Return the plan for a learner whose history ends at `peer`; `applied` is the zxid that a snapshot would have.

    The newest common zxid is the leader's newest one that is not after `peer`. The reason: a server with a transaction
    of an epoch also has the initial history of that epoch, and a leader with a quorum has the initial history of every
    epoch that has transactions.

    `foreign` is True if another leader gave the learner transactions of this leader's epoch number. Then these
    transactions are not common, even if the leader's history has the same zxids.

    `until` is the end of the transactions before NEWLEADER; by default, of all. With `diff_after_trunc` off, TRUNC must
    leave nothing to send before NEWLEADER. A learner of ZooKeeper replaces its log by a snapshot at NEWLEADER, which is
    durable only after SNAP, and an older snapshot may contain the transactions that TRUNC should remove. After SNAP,
    the snapshot is later than all of them if the leader has a transaction after `common`. Without one, only TRUNC
    removes the learner's transactions from its log; ZooKeeper's leader does the same. A TRUNC to the beginning of an
    epoch would leave a transaction, because no record of the log has that zxid.
    """
    if peer == UNKNOWN:
        return SyncPlan(Form.SNAP, applied)
    common = history.floor(make(epoch_of(peer), 0) if foreign else peer)
    if common is None:
        return SyncPlan(Form.SNAP, applied)  # the outline does not reach back so far
    # A zxid with counter 0 is the start of an epoch: nothing to cut.
    cut = None if common == peer or counter_of(peer) == 0 else common
    if cut is not None and not settings.diff_after_trunc:
        follows = common < (history.last if until is None else until)
        if follows or counter_of(common) == 0:
            return SyncPlan(Form.SNAP, applied, cut)
    if common < history.log_start:
        return SyncPlan(Form.SNAP, applied, cut)  # the log was purged beyond the common zxid
    if common < history.base and history.entries_between(common, history.base) > settings.log_sync_entries_max:
        return SyncPlan(Form.SNAP, applied, cut)  # reading that much log would take longer than the snapshot
    return SyncPlan(Form.DIFF if cut is None else Form.TRUNC, common, cut)
