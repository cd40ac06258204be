"""One broker's replica of a partition: its log, its role, the ISR and the high watermark, as Kafka's `Partition`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import define, field

from kraft_controller.core.commands import Role as RoleCommand
from kraft_controller.core.names import NO_LEADER, BrokerEpoch, BrokerId, LeaderEpoch, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, Broker, PartitionState
from replica.core.errors import ErrorCode, KafkaError, OffsetOutOfRange
from replica.core.outbox import Outbox
from replica.core.partitions.divergence import diverging_end, end_of
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.isr import Doubt, Isr
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.offset_lookup import EARLIEST, EARLIEST_LOCAL, GREATEST, LATEST, Lookup, Search
from replica.core.partitions.partition_log import NO_EPOCH, AbortedTxn, ExaminedBatch, FetchDataInfo, PartitionLog
from replica.core.partitions.remote_replica import UNKNOWN, RemoteReplica
from replica.core.purgatory import Condition, DelayedOperationPurgatory
from replica.core.replica_messages import (
    CONSUMER,
    EpochAnswer,
    Fetch,
    Fetched,
    FetchPartition,
    OffsetAnswer,
    Produced,
    ReadIsr,
    RoleTaken,
    WriteIsr,
)
from replica.core.replica_settings import ReplicaSettings

Role: TypeAlias = LeaderRole | FollowerRole | None
"""The replica's role, or None if it is stopped or has no leader to follow."""
ALL: Final = -1
"""The `acks` of a producer that waits until its records are committed."""


@define(eq=False)
class Partition:
    """One broker's replica of a partition, in any role."""

    where: TopicPartition
    log: PartitionLog
    high_watermark: int
    """All records before it are committed. It is between the log start and the log end."""
    topic_id: TopicId | None = None
    role: Role = None
    leader: BrokerId = NO_LEADER
    """The leader of the newest known leader epoch."""
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The newest known leader epoch. It never goes back."""
    assignment: Assignment = field(factory=lambda: Assignment(()))
    """The replicas in the newest command of the controller."""
    min_insync: int = 1
    """The effective `min.insync.replicas`: the topic's setting, else the broker's."""
    durable: int = 0
    """All records before it are durable. Advanced by flushes, which are requested only with `sync_writes`."""
    cuts: int = 0
    """The number of truncations. The result of a flush that began before the last truncation is ignored."""
    start_seen: int = -1
    """The log start when `start_moved` was called last."""
    settings: ReplicaSettings = field(factory=ReplicaSettings)
    live: Mapping[BrokerId, Broker] = field(factory=dict)
    """The live brokers, shared with the replica manager."""
    purgatory: DelayedOperationPurgatory = field(factory=lambda: DelayedOperationPurgatory(Outbox()))
    outbox: Outbox = field(factory=Outbox)

    def __attrs_post_init__(self) -> None:
        """Limit the checkpointed high watermark to the log, which may have lost its tail since the checkpoint.

        Records that an earlier process wrote may be in the page cache only, so none counts as durable yet.
        """
        log = self.log
        self.high_watermark = max(min(self.high_watermark, log.end_offset), log.start_offset)
        self.durable = log.start_offset
        self.start_seen = log.start_offset

    @property
    def stable_offset(self) -> int:
        """The last stable offset: all records before it are committed, and none belongs to a transaction that is open
        or whose marker is uncommitted."""
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def enough_in_sync(self) -> bool:
        role = self.role
        assert isinstance(role, LeaderRole)
        return len(role.isr.members) >= min(self.min_insync, max(len(self.assignment.replicas), 1))

    def check_epoch(self, asked: int) -> None:
        """Raise if the request names a leader epoch other than the current one; -1 matches any."""
        if asked == -1 or asked == self.leader_epoch:
            return
        if asked < self.leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH, f"{self.where} is in leader epoch {self.leader_epoch}, not {asked}"
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self.where}: leader epoch {asked} is later than this broker's, {self.leader_epoch}",
        )

    def leading(self) -> LeaderRole:
        """Return the `LeaderRole`; raise NOT_LEADER_OR_FOLLOWER if this replica does not lead."""
        if isinstance(self.role, LeaderRole):
            return self.role
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._other_leader)

    @property
    def _other_leader(self) -> str:
        leader = "there is no leader" if self.leader == NO_LEADER else f"the leader is broker {self.leader}"
        return f"this broker does not lead {self.where}: {leader}"

    # -- roles ---------------------------------------------------------------------------------------------

    def make_leader(self, me: BrokerId, command: RoleCommand, now: int) -> None:
        """Become the leader in a newer leader epoch. The fetcher has already dropped this partition."""
        state, log, before = command.state, self.log, self.role
        start = log.end_offset
        log.assign_epoch(state.leader_epoch, start)
        # The epoch of the controller that elected this leader, even if a later controller sent the command.
        leading = LeaderRole(me, state.leader_epoch, state.controller_epoch, start, Isr(state.isr, state.version))
        if isinstance(before, LeaderRole) and before.epoch + 1 == state.leader_epoch:
            # No other broker led in between, so no follower has truncated its log, and their known positions are valid.
            leading.followers = before.followers
        self.assignment = command.assignment
        leading.assign(command.assignment.replicas, now)
        self.role, self.leader, self.leader_epoch = leading, me, state.leader_epoch
        self.outbox.roles.append(RoleTaken(self.where, True, state.leader_epoch))
        self.outbox.note("leads", partition=str(self.where), epoch=state.leader_epoch, start=start, isr=state.isr)
        self.request_flush()
        self.advance(now)
        if isinstance(before, LeaderRole):
            self.fail_if_too_few()

    def make_follower(self, me: BrokerId, command: RoleCommand) -> None:
        """Become a follower in a newer leader epoch. The fetcher has already dropped this partition."""
        state = command.state
        self.assignment = command.assignment
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self._fail_delayed(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._other_leader)
        self.role = None
        if state.leader != NO_LEADER:
            self.role = FollowerRole(state.leader, state.leader_epoch, in_sync=me in state.isr)
        self.outbox.roles.append(RoleTaken(self.where, False, state.leader_epoch))
        self.outbox.note(
            "follows",
            partition=str(self.where),
            epoch=state.leader_epoch,
            leader=state.leader,
            end=self.log.end_offset,
        )

    def update(self, command: RoleCommand, now: int) -> None:
        """Handle a command that repeats the current leader epoch: its assignment or ISR may be newer."""
        leading, state = self.role, command.state
        self.assignment = command.assignment
        if isinstance(leading, LeaderRole) and state.leader == leading.me:
            leading.isr.update(state.isr, state.version)
            leading.assign(command.assignment.replicas, now)
            self.advance(now)

    def require_in_sync(self, replicas: int, now: int) -> None:
        """Set `min.insync.replicas`, and apply it to waiting producers."""
        self.min_insync = replicas
        self.advance(now)
        self.fail_if_too_few()

    def end_following(self) -> None:
        """Give up the follower's role until the controller's next command. The fetcher has already dropped this
        partition."""
        self.role = None

    def stop(self) -> None:
        """Give up the role. The fetcher has already dropped this partition."""
        self._give_up_role(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._other_leader)

    def fail(self, why: str) -> None:
        """Give up the role because the log is offline. The fetcher has already dropped this partition."""
        self._give_up_role(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.where} is offline: {why}")

    def _give_up_role(self, error: ErrorCode, text: str) -> None:
        self.role = None
        self._fail_delayed(error, text)
        self.purgatory.changed[self.where] = None
        self.outbox.roles.append(RoleTaken(self.where, None, self.leader_epoch))

    def _fail_delayed(self, error: ErrorCode, text: str) -> None:
        """Fail the delayed produce and DeleteRecords requests of this partition."""
        for condition in Condition:
            self.purgatory.fail(self.where, condition, error, f"{text}; the records may or may not be committed")

    # -- the high watermark --------------------------------------------------------------------------------

    def counted_end(self) -> int:
        """Return the end of this replica's records that count for the high watermark: with `sync_writes`, only durable
        ones."""
        end = self.log.end_offset
        return min(self.durable, end) if self.settings.sync_writes else end

    def advance(self, now: int) -> None:
        """Advance the leader's high watermark, and acknowledge the records that it passes.

        Never lower it. Leave it unchanged while the ISR is too small (`enough_in_sync`).
        """
        role = self.role
        if not isinstance(role, LeaderRole) or not self.enough_in_sync:
            return
        committed = role.committed(self.counted_end(), now, self.live, self.settings)
        if committed > self.high_watermark:
            self.high_watermark = committed
            self.log.on_high_watermark_updated(committed)
            self.purgatory.reached(self.where, Condition.COMMITTED, committed)
            self.purgatory.committed[self.where] = None

    def follow_watermark(self, leaders: int) -> None:
        """Advance a follower's high watermark to the leader's, limited by the log end. Never lower it: the high
        watermark of a new leader may lag behind."""
        committed = max(min(leaders, self.log.end_offset), self.log.start_offset)
        if committed > self.high_watermark:
            self.high_watermark = committed
            self.log.on_high_watermark_updated(committed)
            self.purgatory.committed[self.where] = None

    def flushed(self, cuts: int, upto: int, now: int) -> bool:
        """Record that all records before `upto` are durable. With `sync_writes` they count for the high watermark from
        now on.

        Return False if they were already known to be durable, or if the log was truncated since the flush began
        (`cuts`).
        """
        if self.cuts != cuts or upto <= self.durable:
            return False
        self.durable = min(upto, self.log.end_offset)
        self.purgatory.reached(self.where, Condition.DURABLE, self.durable)
        self.advance(now)
        if self.durable < self.log.end_offset:
            self.request_flush()
        return True

    def request_flush(self) -> None:
        if self.settings.sync_writes:
            self.outbox.flushes[self.where] = self.cuts

    # -- writing -------------------------------------------------------------------------------------------

    def append_as_leader(
        self, acks: int, records: bytes | ExaminedBatch, now: int, clock: int, origin: int
    ) -> tuple[Produced, int]:
        """Append a producer's batch, or the batches of a coordinator. Return the result, and the high watermark that
        commits them.

        Raise `KafkaError` if a batch is refused.
        """
        where, log = self.where, self.log
        leading = self.leading()
        if acks == ALL and not self.enough_in_sync:
            isr = list(leading.isr.members)
            text = f"nothing appended: the ISR {isr} is smaller than min.insync.replicas={self.min_insync}"
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, text)
        done = log.append_as_leader(records, leading.epoch, clock, origin=origin)
        if not done.duplicate:
            if leading.followers:
                self.purgatory.appended[where] = None
            self.request_flush()
            self.advance(now)
        return Produced(where, ErrorCode.NONE, "", done.first, done.append_time, log.start_offset), done.last + 1

    def append_as_follower(self, fetched: Fetched) -> None:
        """Apply a leader's fetch answer: append its records, and adopt its log start and high watermark."""
        role, log = self.role, self.log
        assert isinstance(role, FollowerRole)
        if fetched.records:
            log.append_as_follower(fetched.records)
            self.request_flush()
        role.leader_high_watermark = fetched.high_watermark
        if fetched.start_offset > log.start_offset:
            self.increment_start_offset(min(fetched.start_offset, log.end_offset))
        self.follow_watermark(fetched.high_watermark)

    def delete_records(self, asked: int) -> tuple[int, int]:
        """Delete the records before the offset; -1 stands for the high watermark.

        Return that offset, and the smallest log start of all live replicas (UNKNOWN if one is unknown).
        """
        leading = self.leading()
        offset = self.high_watermark if asked == -1 else asked
        if not 0 <= offset <= self.high_watermark:
            text = f"{self.where}: offset {asked} is not between 0 and the high watermark {self.high_watermark}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if offset > self.log.start_offset:
            self.increment_start_offset(offset)
            self.purgatory.changed[self.where] = None
        return offset, leading.least_start(self.log.start_offset, self.live)

    def truncate_to(self, offset: int) -> None:
        """Truncate a follower's log to the offset, or to the start of the batch that contains it."""
        if offset < self.high_watermark:
            # This happens only after an unclean election, or if a leader has lost records.
            self.outbox.note(
                "committed_records_cut", partition=str(self.where), to=offset, high_watermark=self.high_watermark
            )
        self.outbox.note("truncated", partition=str(self.where), to=offset, end=self.log.end_offset)
        self.log.truncate_to(offset)
        self.cuts += 1
        end = self.log.end_offset
        self.high_watermark = min(self.high_watermark, end)
        self.durable = min(self.durable, end)

    def start_over(self, offset: int) -> None:
        """Delete all records; the next record appended gets this offset."""
        self.log.truncate_fully_and_start_at(offset)
        self.cuts += 1
        self.high_watermark = offset
        self.durable = offset

    def start_moved(self) -> bool:
        """Return whether the log start has moved since the last call."""
        before, self.start_seen = self.start_seen, self.log.start_offset
        return self.start_seen != before

    def increment_start_offset(self, offset: int) -> None:
        self.log.increment_start_offset(offset)
        self.high_watermark = max(self.high_watermark, self.log.start_offset)

    # -- reading -------------------------------------------------------------------------------------------

    def read(
        self, asked: Fetch, part: FetchPartition, now: int, room: int, first: bool, counts: bool, throttled: bool
    ) -> Fetched:
        """Answer one partition of a fetch, as Kafka's `Partition.fetchRecords`. It checks, in this order:

        1. the leader epoch that the request names
        2. the role: only leaders serve followers, and with `follower_reads` followers serve consumers, too
        3. a follower: it must name a leader epoch, hold a replica, and not fetch under an earlier broker epoch
        4. divergence: a diverging follower must truncate first, so its offset acknowledges nothing
        5. the offset, which must be in the log; only then does a follower's offset acknowledge records
        6. the consumer's rack: the answer names a suitable replica there, if any, and has no records
        7. at a follower: the offset must not be above its high watermark

        The records end at the log end for followers, at the high watermark or the last stable offset for consumers.

        room        bytes that are left in the answer
        first       no earlier partition had records: return at least one whole batch, whatever its size
        counts      the fetch is a follower's, and its offset acknowledges records
        throttled   a replication quota allows no records now
        """
        role, log = self.role, self.log
        self.check_epoch(part.leader_epoch)
        if not (isinstance(role, FollowerRole) and asked.any_replica and self.settings.follower_reads):
            self.leading()  # raises an error that names the leader
        follower = None
        if asked.replica >= 0:
            follower = self._follower(self.leading(), asked, part)
        diverging = diverging_end(log, part.last_epoch, part.offset)
        if diverging is not None:
            return Fetched(
                part.where,
                ErrorCode.NONE,
                self.high_watermark,
                self.stable_offset,
                log.start_offset,
                b"",
                diverging,
            )
        if not log.start_offset <= part.offset <= log.end_offset:
            self._out_of_range(part)
        if follower is not None and counts:
            assert isinstance(role, LeaderRole)
            self._follower_has(role, follower, part.offset, part.start_offset, now)
        watermark = self.high_watermark  # read once: the answer's watermark must be the one that bounds its records
        stable = self.stable_offset
        if follower is None and isinstance(role, LeaderRole) and asked.rack and self.settings.follower_reads:
            preferred = self._preferred_replica(role, asked.rack, part.offset)
            if preferred != role.me:
                return Fetched(part.where, ErrorCode.NONE, watermark, stable, log.start_offset, preferred=preferred)
        if follower is not None:
            bound = log.end_offset
        else:
            bound = stable if asked.committed else watermark
            if part.offset > watermark and isinstance(role, FollowerRole):
                raise KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"{part.where}: offset {part.offset} is above this follower's high watermark {watermark}",
                )
        records, aborted = b"", tuple[AbortedTxn, ...]()
        if part.offset < bound and room > 0 and not throttled:
            found = log.read(part.offset, min(part.bytes_max, room), bound, at_least_one=first)
            records = found.records
            if follower is not None and counts and follower.is_stuck:
                self._check_records(follower, found)
            if asked.committed and follower is None:
                aborted = log.aborted_in(found)
        return Fetched(part.where, ErrorCode.NONE, watermark, stable, log.start_offset, records, aborted=aborted)

    def _follower(self, leading: LeaderRole, asked: Fetch, part: FetchPartition) -> RemoteReplica:
        """Return the follower that fetches. It must name a leader epoch: a request without one could be from any
        earlier epoch."""
        if part.leader_epoch == -1:
            text = f"{part.where}: the fetch of replica {asked.replica} names no leader epoch"
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, text)
        follower = leading.followers.get(asked.replica)
        if follower is None:
            # The other broker may have received the controller's command earlier.
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{part.where}: broker {asked.replica} has no replica in this broker's metadata",
            )
        if asked.broker_epoch == BrokerEpoch(-1) or asked.broker_epoch == follower.broker_epoch:
            return follower
        if asked.broker_epoch < follower.broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"the fetch of broker {asked.replica} has broker epoch {asked.broker_epoch}, "
                f"but the broker has registered again with epoch {follower.broker_epoch}",
            )
        if follower.broker_epoch != -1:
            # The broker has registered again. If it restarted, it may have lost records, so its position is unknown.
            # Its lag time continues.
            follower = leading.followers[follower.id] = RemoteReplica(follower.id, follower.last_caught_up_ms)
        follower.broker_epoch = asked.broker_epoch
        return follower

    def _out_of_range(self, part: FetchPartition) -> None:
        log, role = self.log, self.role
        if isinstance(role, FollowerRole) and log.end_offset < part.offset <= role.leader_high_watermark:
            text = f"{part.where}: offset {part.offset} is above this follower's log end offset {log.end_offset}"
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, text)
        raise OffsetOutOfRange(
            f"{part.where}: offset {part.offset} is out of range: the log begins at offset {log.start_offset} "
            f"and ends at offset {log.end_offset}"
        )

    def _preferred_replica(self, leading: LeaderRole, rack: str, offset: int) -> BrokerId:
        """Return the ISR member in the consumer's rack whose log contains the offset and ends last; this leader if it
        is in that rack, or if there is no such member."""
        mine = self.live.get(leading.me)
        if mine is not None and mine.rack == rack:
            return leading.me
        best, most = leading.me, UNKNOWN
        for broker in leading.isr.members:
            follower, there = leading.followers.get(broker), self.live.get(broker)
            if follower is None or there is None or there.rack != rack:
                continue
            if follower.start_offset <= offset <= follower.end_offset and follower.end_offset > most:
                best, most = broker, follower.end_offset
        return best

    def _check_records(self, follower: RemoteReplica, found: FetchDataInfo) -> None:
        """Verify records that a follower fetches again and again: it may refuse them because they are damaged in this
        log.

        If they are damaged, raise a storage error, which takes the replica offline, so that another ISR member can
        lead. If no ISR member except this leader and the follower is live, only log the damage.
        """
        wrong = self.log.find_corruption(found)
        if wrong is None:
            return
        leading = self.leading()
        if any(each in self.live for each in leading.isr.members if each not in (leading.me, follower.id)):
            text = (
                f"{self.where} is damaged: {wrong}. Stop the broker, remove the partition's directory and restart: "
                "the broker copies the records from the other replicas"
            )
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        self.outbox.note("log_rotten", key=self.where, partition=str(self.where), follower=follower.id, why=wrong)

    def look_up(self, asked: Lookup, replica: BrokerId, committed: bool, search: Search) -> OffsetAnswer:
        """Answer ListOffsets for one partition: look up a timestamp among the records that the client may read."""
        self.check_epoch(asked.leader_epoch)
        leading, log, where = self.leading(), self.log, self.where
        if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.start_offset
            epoch = log.epoch_for_offset(start) if start < log.end_offset else leading.epoch
            return OffsetAnswer(where, offset=start, leader_epoch=epoch)
        if replica >= 0:
            bound = log.end_offset
        else:
            bound = self.stable_offset if committed else self.high_watermark
        # A new leader's high watermark may lag behind the former leader's, so a consumer may already have read beyond
        # it.
        unsettled = replica == CONSUMER and self.high_watermark < leading.start_offset
        if asked.timestamp == LATEST:
            if unsettled:
                raise KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"{where}: the high watermark of the new leader epoch is not known yet",
                )
            return OffsetAnswer(where, offset=bound, leader_epoch=leading.epoch)
        if asked.timestamp < GREATEST:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{where}: {asked.timestamp} is not a timestamp")
        found = search(log, asked.timestamp)
        if found is not None and found.offset < bound:
            return OffsetAnswer(where, ErrorCode.NONE, found.offset, found.timestamp, found.epoch)
        if unsettled:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE, f"{where}: the high watermark of the new leader epoch is not known yet"
            )
        return OffsetAnswer(where)

    def epoch_end(self, current: int, epoch: int) -> EpochAnswer:
        """Answer OffsetForLeaderEpoch: return the end of the epoch, or of the greatest earlier one, in this leader's
        log. An epoch later than all in the log has no end."""
        self.check_epoch(current)
        self.leading()
        if epoch == NO_EPOCH or epoch > self.log.latest_epoch:
            return EpochAnswer(self.where)
        return EpochAnswer(self.where, end=end_of(self.log, epoch))

    # -- the ISR -------------------------------------------------------------------------------------------

    def _follower_has(self, leading: LeaderRole, follower: RemoteReplica, offset: int, start: int, now: int) -> None:
        """Handle a follower's fetch that does not diverge: the follower has all records before `offset`."""
        end = self.log.end_offset
        moved = start > follower.start_offset
        follower.fetched(offset, start, end, now)
        if not leading.isr.changing and leading.may_join(follower, self.high_watermark) and self._lives(follower):
            self._ask_isr(leading, (*leading.isr.members, follower.id))
        self.advance(now)
        if moved:
            self.complete_deletions()

    def _lives(self, follower: RemoteReplica) -> bool:
        """Return whether the broker is live under the broker epoch with which it fetches."""
        there = self.live.get(follower.id)
        return there is not None and follower.broker_epoch in (-1, there.epoch)

    def complete_deletions(self) -> None:
        """Complete DeleteRecords requests whose records no live replica has any more."""
        if isinstance(self.role, LeaderRole):
            least = self.role.least_start(self.log.start_offset, self.live)
            self.purgatory.reached(self.where, Condition.DELETED, least)

    def shrink_isr(self, now: int) -> bool:
        """Request one ISR change that removes all lagging followers. Return whether to check again later."""
        if not isinstance(self.role, LeaderRole):
            return False
        leading, end = self.role, self.log.end_offset
        # A follower that was about to join the ISR, but fell behind, no longer holds the high watermark back.
        self.advance(now)
        if leading.isr.changing:
            return True
        out = leading.out_of_sync(end, now, self.settings)
        if out:
            self._ask_isr(leading, tuple(each for each in leading.isr.members if each not in out))
            return True
        return not (self.high_watermark == end and leading.all_have(end))

    def _ask_isr(self, leading: LeaderRole, members: tuple[BrokerId, ...]) -> None:
        self.outbox.note("isr_asked", partition=str(self.where), isr=members, before=leading.isr.members)
        leading.isr.ask(members, {each.id: each.broker_epoch for each in leading.followers.values()})
        self._write_isr(leading)

    def _write_isr(self, leading: LeaderRole) -> None:
        """Request an ISR write that fails unless each joining broker is still registered under the broker epoch with
        which it caught up."""
        isr = leading.isr
        assert isr.asked is not None
        joining = [(broker, epoch) for broker, epoch in isr.joining if broker not in isr.members]
        self.outbox.writes.append(
            WriteIsr(
                self.where,
                leading.state(isr.asked),
                tuple(broker for broker, _ in joining),
                tuple(epoch for _, epoch in joining),
            )
        )

    def _leading_in(self, epoch: LeaderEpoch) -> LeaderRole | None:
        role = self.role
        return role if isinstance(role, LeaderRole) and role.epoch == epoch else None

    def isr_written(self, write: WriteIsr, version: Version, now: int) -> bool:
        """Adopt the ISR of a successful write. Return False if the write is not the pending one."""
        leading = self._leading_in(write.state.leader_epoch)
        if leading is None or leading.isr.asked != write.state.isr or leading.isr.version != write.state.version:
            return False
        leading.isr.written(version)
        self._isr_changed(leading, now)
        return True

    def isr_unwanted(self, write: WriteIsr, now: int) -> bool:
        """Abandon an ISR change whose write was not made: a joining broker is no longer registered, or has registered
        again. Return False if another write is needed to abandon the change, or if the change is not pending."""
        leading = self._leading_in(write.state.leader_epoch)
        if leading is None or leading.isr.asked != write.state.isr or leading.isr.superseded:
            return False
        if leading.isr.give_up():
            self._isr_changed(leading, now)
            return True
        self.outbox.writes.append(WriteIsr(write.where, leading.state(leading.isr.members)))
        return False

    def isr_read(self, epoch: LeaderEpoch, state: PartitionState, now: int) -> Doubt | None:
        """Resolve a change of unknown outcome by the state read from the store. Return None if no change is pending, if
        this leader has stopped writing the ISR, or if this broker does not lead in this epoch."""
        leading = self._leading_in(epoch)
        if leading is None or leading.isr.asked is None or leading.isr.superseded:
            return None
        found = leading.isr.read(state, epoch)
        if found is Doubt.SETTLED:
            self._isr_changed(leading, now)
        elif found is Doubt.ASK_AGAIN:
            self._write_isr(leading)
        elif found is Doubt.SUPERSEDED:
            self.outbox.note(
                "isr_superseded",
                partition=str(self.where),
                why=f"the controller has begun leader epoch {state.leader_epoch}",
            )
        return found

    def isr_doubtful(self, write: WriteIsr, *, lost: bool) -> None:
        """Read the node, because the write failed with a version conflict or its result was lost."""
        leading = self._leading_in(write.state.leader_epoch)
        if leading is not None and leading.isr.asked == write.state.isr:
            leading.isr.doubtful |= lost
            self.outbox.reads.append(ReadIsr(self.where, leading.epoch))

    def isr_gone(self, epoch: LeaderEpoch) -> None:
        """Stop writing the ISR: the partition's node is gone."""
        leading = self._leading_in(epoch)
        if leading is not None:
            self.outbox.note("isr_superseded", partition=str(self.where), why="the partition was deleted")
            leading.isr.gone()

    def read_isr_again(self) -> None:
        if isinstance(self.role, LeaderRole) and self.role.isr.asked is not None and not self.role.isr.superseded:
            self.outbox.reads.append(ReadIsr(self.where, self.role.epoch))

    def _isr_changed(self, leading: LeaderRole, now: int) -> None:
        """Advance the high watermark after an ISR change (KAFKA-13091). Fail waiting producers if the ISR is now too
        small."""
        isr = leading.isr
        self.outbox.note("isr_changed", partition=str(self.where), isr=isr.members, version=isr.version)
        self.advance(now)
        self.fail_if_too_few()

    def fail_if_too_few(self) -> None:
        """Fail delayed produce requests with `acks=all` if the ISR is too small."""
        if isinstance(self.role, LeaderRole) and not self.enough_in_sync:
            isr = list(self.role.isr.members)
            text = f"records appended, but the ISR {isr} is smaller than min.insync.replicas={self.min_insync}"
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self.purgatory.fail(self.where, Condition.COMMITTED, error, text)
