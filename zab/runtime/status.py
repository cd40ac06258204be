"""What a member can be asked about itself, as frozen values."""

from __future__ import annotations

from attrs import frozen

from zab.core.ensemble import Ensemble
from zab.core.messages import State
from zab.core.zxid import Epoch, ServerId, Zxid


@frozen
class RoleChange:
    """`serving`: part of a quorum that has a leader, with everything applied that was committed when it joined."""

    state: State
    epoch: Epoch
    leader: ServerId | None
    serving: bool


@frozen
class LinkStatus:
    """A learner link. `queued_bytes` wait to be sent."""

    peer: ServerId
    dialled: bool
    queued_bytes: int
    sent_bytes: int
    received_bytes: int


@frozen
class Counters:
    """Since the start of this member. Times in microseconds."""

    submits: int = 0
    proposals: int = 0
    batches: int = 0
    applied: int = 0
    applied_bytes: int = 0
    elections: int = 0
    barriers: int = 0
    refusals: int = 0
    snapshots: int = 0
    restores: int = 0
    turns: int = 0
    fsyncs: int = 0
    fsync_us: int = 0
    fsync_us_max: int = 0
    logged_bytes: int = 0


@frozen
class Status:
    """One moment of one member."""

    server: ServerId
    role: RoleChange
    ensemble: Ensemble
    pending: Ensemble | None
    last: Zxid
    durable: Zxid
    committed: Zxid
    applied: Zxid
    synced: tuple[ServerId, ...]
    """At a leader: who follows and has the history."""
    voting: bool
    """False while the history on this disk may be incomplete."""
    damage: tuple[str, ...]
    """What was found damaged on the disk at the start, for people."""
    outstanding: int
    """Submits of this member whose outcome is open."""
    links: tuple[LinkStatus, ...]
    election_links: tuple[ServerId, ...]
    counters: Counters
