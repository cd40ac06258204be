"""The effects that a node requests, as data.

No other field of a `Ready` waits for its `save`: a message that needs a durable write is in a later `Ready`, after
`Node.saved`. `links` come after `send`, `barriers` after `apply`, and `send` after `apply` if `wants_state` is true.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from zab.core.argument_names import checks_arguments
from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError
from zab.core.frozen import frozen
from zab.core.messages import Message, SnapHeld
from zab.core.settings_checks import check_ordered, check_settings
from zab.core.zxid import COUNTER_MAX, Epoch, Millis, ServerId, Ticket, Zxid

# -- to the disk, strictly in order ------------------------------------------------------------------
# When the disk reports a ticket as saved, all writes handed over before it are saved as well.


@frozen
class SaveEpochs:
    """One atomically replaced record: the epochs this server promised and adopted, and the active membership.

    `whole` is false while the history may be incomplete; `forgotten` is true while promises may be lost. Both must
    survive a restart.
    """

    ticket: Ticket
    accepted: Epoch
    current: Epoch
    ensemble: Ensemble
    whole: bool = True
    forgotten: bool = False


@frozen
class Append:
    ticket: Ticket
    batch: Batch


@frozen
class Truncate:
    """Remove everything after `zxid` from the log."""

    ticket: Ticket
    zxid: Zxid


@frozen
class BeginSnapshot:
    """A snapshot from the leader begins to arrive. It has no effect until it is installed."""

    ticket: Ticket
    zxid: Zxid


@frozen
class SnapshotChunk:
    ticket: Ticket
    data: bytes


@frozen
class AbortSnapshot:
    """Delete the part of a snapshot that has arrived or was kept, because it is no longer needed."""

    ticket: Ticket


@frozen
class KeepSnapshot:
    """No more of the snapshot arrives for now. Keep the part that has arrived, and report it with `Node.holds`."""

    ticket: Ticket


@frozen
class ResumeSnapshot:
    """The rest of the snapshot begins to arrive; the disk has the beginning, `held`."""

    ticket: Ticket
    held: SnapHeld


@frozen
class InstallSnapshot:
    """The snapshot is complete. Let it atomically replace the whole history, and begin an empty log after it.

    `digest` is the digest of the history up to `zxid`; None if it is not known.
    """

    ticket: Ticket
    zxid: Zxid
    digest: int | None


Write: TypeAlias = (
    SaveEpochs
    | Append
    | Truncate
    | BeginSnapshot
    | SnapshotChunk
    | AbortSnapshot
    | KeepSnapshot
    | ResumeSnapshot
    | InstallSnapshot
)


# -- to the peers ------------------------------------------------------------------------------------


@frozen
class SendSnapshot:
    """A placeholder in the order of messages; the driver expands it to `SnapBegin`, chunks and `SnapEnd`.

    The state to send is the state at `zxid`, which the state machine has after this Ready's `apply`.
    """

    zxid: Zxid
    digest: int | None


@frozen
class FoundSnapshot:
    """A sound snapshot file on this disk.

    `digest` is the digest of the history up to the snapshot, or None; `size` is the number of bytes of the file.
    """

    digest: int | None
    size: int


@frozen
class SendRest:
    """A placeholder in the order of messages; the driver expands it to `SnapResume`, chunks and `SnapEnd`.

    The chunks come from the snapshot file `found`, after the part `held` that the learner has.
    """

    held: SnapHeld
    found: FoundSnapshot


@frozen
class SendLog:
    """A placeholder in the order of messages; the driver expands it to `Propose` messages.

    They contain the transactions of (`after`, `until`], read from the log.
    """

    after: Zxid
    until: Zxid


@frozen
class Envelope:
    to: ServerId
    message: Message | SendSnapshot | SendRest | SendLog


@frozen
class FindSnapshot:
    """Find a sound snapshot file on this disk that begins with the bytes `held` by `peer`.

    `Node.found` takes the answer. A separate task reads the file, because that can take long.
    """

    peer: ServerId
    held: SnapHeld


@frozen
class Dial:
    """Open a learner link to server `to`. `LinkUp(dialled=True)` or `LinkDown(dialled=True)` reports the outcome."""

    to: ServerId


@frozen
class HangUp:
    """Close the link to this peer once all earlier messages are sent. No `LinkDown` is reported for it."""

    peer: ServerId
    dialled: bool


# -- to the machine ----------------------------------------------------------------------------------


@frozen
class Apply:
    """Apply this batch, which is committed *and* durable here. Batches come in zxid order, without a gap."""

    batch: Batch


@frozen
class Restore:
    """Replace the state of the state machine by the installed snapshot at `zxid`."""

    zxid: Zxid


@frozen
class Activate:
    """Use the addresses of this membership, which is now in force.

    The node does not close the link of a removed server, which may still follow, without a vote.
    """

    ensemble: Ensemble


@frozen
class BarrierDone:
    """Complete a call of `Node.barrier`: every write acknowledged before the call is at or before `zxid`, and applied.

    If `zxid` is None, the barrier failed, because this server does not serve or has left its role. The caller may
    repeat it.
    """

    token: int
    zxid: Zxid | None


# -- to logs and transcripts ---------------------------------------------------------------------------


@frozen
class Note:
    """An event for logs and transcripts. `level` is a logger's: debug, info or warning.

    No decision depends on the content of a note. But a `Ready` with a note does not take the fast path of `MemberTurn`.
    """

    event: str
    fields: tuple[tuple[str, object], ...] = ()
    level: str = "info"


@frozen
class Ready:
    save: tuple[Write, ...] = ()
    send: tuple[Envelope, ...] = ()
    links: tuple[Dial | HangUp, ...] = ()
    apply: tuple[Apply | Restore | Activate, ...] = ()
    barriers: tuple[BarrierDone, ...] = ()
    notes: tuple[Note, ...] = ()
    finds: tuple[FindSnapshot, ...] = ()

    @property
    def wants_state(self) -> bool:
        """True if `apply` must be done before `send`: a snapshot is to be sent, or a received one to be restored.

        So a learner acknowledges NEWLEADER only after its state machine has restored the snapshot. Otherwise the leader
        would expect acknowledgements of proposals during the restore, and drop the learner.
        """
        return self.sends_state or any(type(item) is Restore for item in self.apply)

    @property
    def sends_state(self) -> bool:
        return any(type(envelope.message) is SendSnapshot for envelope in self.send)

    def __bool__(self) -> bool:
        return bool(self.save or self.send or self.links or self.apply or self.barriers or self.notes or self.finds)


# -- from the disk, at the start ---------------------------------------------------------------------


@frozen
class Recovered:
    """The content of the disk at the start. `Node` starts from it and from nothing else.

    snapshot       zxid of the newest good snapshot, from which the state machine was restored; NOTHING without one
    digest         the digest of the history up to `snapshot`; None if it is not known
    batches        everything logged after `snapshot`, in order, contiguous; committed or not
    log_start      the log on disk holds everything after this zxid, which is at or before `snapshot`
    epoch_ends     last zxid of every epoch that has transactions in (log_start, snapshot], ascending
    voting         false if the history may be incomplete: damaged, never initialised, or marked so in the epochs record
    forgotten      true if promises may have been lost: the epochs record is missing, damaged or outdated, or says so
    damage         sentences about damaged files; empty if there is no damage
    committed      everything up to here was known to be committed; more may have been committed since
    held           the part of a leader's snapshot that had arrived before the restart
    """

    accepted: Epoch
    current: Epoch
    ensemble: Ensemble | None = None
    snapshot: Zxid = Zxid(0)
    digest: int | None = 0
    batches: tuple[Batch, ...] = ()
    log_start: Zxid = Zxid(0)
    epoch_ends: tuple[Zxid, ...] = ()
    voting: bool = True
    forgotten: bool = False
    damage: tuple[str, ...] = ()
    committed: Zxid = Zxid(0)
    held: SnapHeld | None = None


@checks_arguments
@attrs.frozen
class Settings:
    """Times in milliseconds, limits in ticks, transactions or bytes.

    The defaults of `tick_ms`, `init_limit` and `sync_limit` are those of ZooKeeper's sample configuration. The limits
    `outstanding_max` and `outstanding_bytes_max` do not apply to membership changes.

    tick_ms                     the unit of `init_limit` and `sync_limit`; a leader sends a ping every half tick
    init_limit, sync_limit      ticks; see `init_ms` and `sync_ms`
    finalize_wait_ms            how long an election waits for a better vote when a quorum agrees on one
    notification_ms_min, _max   the interval between two sendings of a vote; it doubles from the least to the greatest
    notification_backoff_reset  True: a notification or a new connection of a peer sets the interval back to the least
    observer_delay_ms_max       the greatest random delay before a server without a vote looks for a leader
    dial_retry_ms               the pause before a learner dials its leader again
    outstanding_max             a proposal that would exceed this number of outstanding transactions is refused, unless
                                none is outstanding
    outstanding_bytes_max       while more bytes are outstanding, proposals are refused
    window_entries, _bytes      above one of these limits, old transactions are dropped from memory
    log_sync_entries_max        a learner that needs more transactions from the log on disk receives a snapshot instead
    counter_max                 the last counter of an epoch; a proposal beyond it ends the attempt to lead
    veto_lost_history           the reaction to a leader that lacks transactions which this server knows to be
                                committed. True: veto the leader; False: give up this server's history at once
    veto_retry_ms               how long a server neither votes for nor follows a leader that it has vetoed

    The last ones have other values in an ensemble that speaks ZooKeeper's protocol (`with_zookeeper_peers`). All
    servers of an ensemble need the same values:

    open_before_new_leader      True: the open proposals come before NEWLEADER, and its acknowledgement covers them.
                                False: only the decided history comes before NEWLEADER. The open proposals follow it,
                                and are acknowledged like later ones. Then a server that may have lost promises is not
                                readmitted
    diff_after_trunc            True: after TRUNC the leader's transactions may follow. False: TRUNC is sent only if
                                none follows before NEWLEADER; else a snapshot replaces the learner's history
    dial_for_init_limit         True: a voter dials its leader again until init_limit, and a server keeps early links
                                for as long. A leader of ZooKeeper listens only after its election, which takes longer.
                                Another learner may be told of a leader that is down, and looks for another one soon.
                                False: after a few attempts an election follows
    membership_versions         True: the first leader gives the membership of the configuration files a version, and
                                the membership may change. False: it does not, as with `reconfigEnabled=false`
    """

    tick_ms: Millis = 2000
    init_limit: int = 10
    sync_limit: int = 5
    finalize_wait_ms: Millis = 200
    notification_ms_min: Millis = 200
    notification_ms_max: Millis = 60_000
    notification_backoff_reset: bool = True
    observer_delay_ms_max: Millis = 200
    dial_retry_ms: Millis = 100
    outstanding_max: int = 20_000
    outstanding_bytes_max: int = 64 << 20
    window_entries: int = 10_000
    window_bytes: int = 16 << 20
    log_sync_entries_max: int = 1_000_000
    counter_max: int = COUNTER_MAX
    veto_lost_history: bool = True
    veto_retry_ms: Millis = 60_000
    open_before_new_leader: bool = True
    diff_after_trunc: bool = True
    dial_for_init_limit: bool = False
    membership_versions: bool = True

    def __attrs_post_init__(self) -> None:
        zero = {"finalize_wait_ms": 0, "observer_delay_ms_max": 0, "log_sync_entries_max": 0}
        check_settings(self, {"tick_ms": 2, **zero})  # a leader pings every half tick, which must not be 0
        check_ordered(self, "notification_ms_min", "notification_ms_max")
        if self.counter_max > COUNTER_MAX:
            raise ConfigError(f"Settings.counter_max = {self.counter_max}: at most {COUNTER_MAX} is allowed")

    @property
    def init_ms(self) -> Millis:
        """The time limit of the discovery phase, and of the synchronization phase since its last progress."""
        return self.init_limit * self.tick_ms

    @property
    def sync_ms(self) -> Millis:
        """The time without a message after which a leader and a synchronized learner drop each other.

        A leader also drops a follower if an acknowledgement is due and none has arrived for this time.
        """
        return self.sync_limit * self.tick_ms

    @property
    def report_ms(self) -> Millis:
        """The interval at which a learner reports the progress of its synchronization."""
        return self.tick_ms // 2


def with_zookeeper_peers(settings: Settings, *, reconfig_enabled: bool) -> Settings:
    """Return these settings with the rules of an ensemble that speaks ZooKeeper's protocol.

    `reconfig_enabled` is the setting of that name at all servers. Decision 19 explains the rules.
    """
    return attrs.evolve(
        settings,
        open_before_new_leader=False,
        diff_after_trunc=False,
        dial_for_init_limit=True,
        membership_versions=reconfig_enabled,
    )
