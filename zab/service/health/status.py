"""Classes for the status of a member."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, frozen

from zab.core.ensemble import Ensemble
from zab.core.messages import State, Veto
from zab.core.zxid import Epoch, Millis, ServerId, Zxid


@frozen
class RoleChange:
    """The role of a member from one change to the next.

    state   whether it is in an election, follows, leads or observes
    epoch   the epoch of the leader; in an election the last one
    leader  None without a leader
    """

    state: State
    epoch: Epoch
    leader: ServerId | None
    serving: bool
    """True in broadcast, once this member has applied everything that was committed when its broadcast began."""
    veto: Veto | None = None
    """The last veto against a leader, until this server serves again or an operator decides."""


@define
class OpenPorts:
    """The numbers of the ports that a server listens on; None: it has no such port, or has not opened it yet."""

    client: int | None = None
    secure_client: int | None = None
    admin: int | None = None


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
    """Counters since the start of this member. Times are in microseconds."""

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
    diffs_sent: int = 0
    snapshots_sent: int = 0
    turns: int = 0
    fsyncs: int = 0
    fsync_us: int = 0
    fsync_us_max: int = 0
    logged_bytes: int = 0


@frozen
class SnapshotStatus:
    """The last snapshot that this member took, or found on its disk at the start: then only its zxid is known.

    at_ms              wall clock at its end
    taken              snapshots taken since the start of this member
    total_ms, most_ms  the time of all of them together, and of the longest
    """

    zxid: Zxid | None = None
    at_ms: int = 0
    took_ms: int = 0
    size: int = 0
    taken: int = 0
    total_ms: int = 0
    most_ms: int = 0


@frozen
class DiskStatus:
    """The state of a member's log and snapshots.

    path       the directory; None for a disk without one
    log_path   the directory of the log: the same one, unless the log has its own
    fsyncs_us  the times of the last fsyncs in microseconds, the oldest first
    writes     records handed to the disk, mostly log records
    rotten     warnings of the recovery, as sentences: damage to files that are not needed, a sign of a failing disk;
               or many (or large) files kept from earlier damage
    """

    path: str | None
    log_path: str | None
    fsyncs_us: tuple[int, ...]
    writes: int
    backlog_bytes: int
    snapshot: SnapshotStatus
    rotten: tuple[str, ...]


@frozen
class Status:
    """The status of one member.

    server          its id
    role            its phase, epoch and leader
    ensemble        the active membership
    pending         a membership that is proposed and not committed; None without one
    last            the last zxid of its history
    durable         the last zxid that its disk has stored
    committed       the last zxid that is known to be committed
    applied         the last zxid that its state machine has applied
    links           its links to the leader, or to its learners
    election_links  the servers with which it can exchange votes
    counters        counts since its start
    """

    server: ServerId
    role: RoleChange
    ensemble: Ensemble
    pending: Ensemble | None
    last: Zxid
    durable: Zxid
    committed: Zxid
    applied: Zxid
    synced: tuple[ServerId, ...]
    """At a leader, the learners that have the initial history of its epoch; empty at any other server."""
    voting: bool
    """False while the history on this disk may be incomplete, or promises may be lost."""
    damage: tuple[str, ...]
    """The damage found on the disk at the start, as sentences; empty while this server votes."""
    cut_off_since: Millis | None
    """The start of the current election (ms of the event loop's clock) if no quorum has sent votes in it; else None."""
    responsive: frozenset[ServerId]
    """This server, and the voters that have sent a vote since its election began; empty outside of elections."""
    outstanding: int
    """The number of submissions of this member whose outcome is open."""
    links: tuple[LinkStatus, ...]
    election_links: tuple[ServerId, ...]
    election_failures: Mapping[ServerId, str]
    """server -> why the last dial to its election port failed; without servers that have an election link"""
    counters: Counters
