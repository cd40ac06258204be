"""Plan how to bring a learner's history to the leader's, from the outlines of both alone."""

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
    """Do `form`, then send what follows `common`; what lies before `history.base` comes from the disk.

    `cut` is set if the learner's history ends with transactions that the leader lacks. The two histories agree up to
    `cut`, and the learner is asked to truncate to it first, also before a snapshot. So it sees what it would lose.
    """

    form: Form
    common: Zxid
    cut: Zxid | None = None


def can_resume(history: History, held: SnapHeld, settings: Settings) -> bool:
    """Return whether a snapshot at `held.zxid`, and the log after it, are a way to this history that is worth taking.

    The learner keeps that log in memory until NEWLEADER, so it must not be longer than what need not be sent again.
    """
    zxid = held.zxid
    return (
        counter_of(zxid) > 0
        and history.floor(zxid) == zxid
        and history.entries_between(zxid, history.last) <= settings.log_sync_entries_max
        and history.bytes_behind(zxid) <= held.size
    )


def plan(history: History, applied: Zxid, peer: Zxid, settings: Settings, foreign: bool = False) -> SyncPlan:
    """Return the plan for a learner whose history ends at `peer`; `applied` is the zxid that a snapshot would have.

    The newest zxid that both histories hold is the newest one of the leader that is not after the learner's last: a
    server that holds a transaction of an epoch holds everything that the epoch began with, and this leader,
    established over a quorum, holds whatever any epoch with transactions began with.

    `foreign` says that another leader gave the learner transactions under the epoch number of this one: the learner's
    last epoch is not shared, though the leader's history may have the same zxids.
    """
    if peer == UNKNOWN:
        return SyncPlan(Form.SNAP, applied)
    common = history.floor(make(epoch_of(peer), 0) if foreign else peer)
    if common is None:
        return SyncPlan(Form.SNAP, applied)  # the outline does not reach back so far
    # A zxid with counter 0 is the start of an epoch: nothing to cut.
    cut = None if common == peer or counter_of(peer) == 0 else common
    if common < history.log_start:
        return SyncPlan(Form.SNAP, applied, cut)  # the log was purged there
    if common < history.base and history.entries_between(common, history.base) > settings.log_sync_entries_max:
        return SyncPlan(Form.SNAP, applied, cut)  # reading that much log would take longer than the snapshot
    return SyncPlan(Form.DIFF if cut is None else Form.TRUNC, common, cut)
