"""How to bring one learner's history to the leader's: the plan, from the two histories' outlines alone."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from zab.core.history import History
from zab.core.ready import Settings
from zab.core.zxid import UNKNOWN, Zxid, counter_of


class Form(Enum):
    DIFF = "diff"
    TRUNC = "trunc"
    SNAP = "snap"


@frozen
class Plan:
    """Do `form`, then send what is behind `common`; what lies before `history.base` comes from the disk."""

    form: Form
    common: Zxid


def plan(history: History, applied: Zxid, peer: Zxid, settings: Settings) -> Plan:
    """`peer` is where the learner's history ends; `applied` is the zxid of the state that a snapshot would show.

    The newest zxid that both histories have is the newest of the leader's that is not behind the
    learner's last: whoever holds a transaction of an epoch holds all that the epoch began with, and this
    leader, being established over a quorum, holds whatever any epoch with transactions began with.
    """
    snap = Plan(Form.SNAP, applied)
    if peer == UNKNOWN:
        return snap
    common = history.floor(peer)
    if common is None:
        return snap  # the log was purged there
    if common < history.base and history.entries_between(common, history.base) > settings.log_sync_entries_max:
        return snap  # reading all that would take longer than the state itself
    if common == peer or counter_of(peer) == 0:
        return Plan(Form.DIFF, common)  # a zxid with counter 0 is the start of an epoch: nothing to cut
    return Plan(Form.TRUNC, common)
