"""Where a replica manager works: the partitions that this broker holds, what it knows of others, and what it wants."""

from __future__ import annotations

import heapq
from typing import Protocol

from attrs import define, field

from kraft_controller.core.names import BrokerId, TopicId, TopicPartition
from kraft_controller.core.state import Broker
from replica.core.errors import ErrorCode, KafkaError
from replica.core.following import Following
from replica.core.leading import Leading
from replica.core.partition import Partition
from replica.core.partition_log import PartitionLog
from replica.core.purgatory import Line, Purgatory
from replica.core.replica_sessions import ReplicaSession, ReplicaSessions
from replica.core.settings import Settings
from replica.core.throttle import Throttle
from replica.core.wants import Flush, Note, ReadIsr, Ready, Request, RoleTaken, Wanted, WriteIsr


class Logs(Protocol):
    """The logs of a broker. Errors are a `KafkaError` of KAFKA_STORAGE_ERROR."""

    def open(self, where: TopicPartition, topic_id: TopicId | None, *, begins: bool) -> PartitionLog:
        """Made, if there is none. Where there is one of another topic of that name, it is set aside for a replica that
        `begins`; for any other it is INCONSISTENT_TOPIC_ID."""

    def high_watermark(self, where: TopicPartition) -> int:
        """As it was kept last; 0 where nothing was."""

    def delete(self, where: TopicPartition) -> None:
        """Nothing happens if there is none."""


@define(eq=False)
class Source:
    """A leader, and the fetch session in which this broker follows it.

    partitions   all that follow it, in the order in which a complete request names them
    dirty        those that the next request may have to name, and those that it must leave out; all others stand in
                 the session as they are now
    id           of the session; 0: the next request is complete
    epoch        of the session's next request
    sent         what the session holds of each partition
    asked        the request under way
    """

    partitions: dict[TopicPartition, None] = field(factory=dict)
    dirty: dict[TopicPartition, None] = field(factory=dict)
    id: int = 0
    epoch: int = 0
    sent: dict[TopicPartition, Wanted] = field(factory=dict)
    asked: Request | None = None

    def begin_anew(self) -> None:
        """The session is over, or an answer of it was lost."""
        self.id = self.epoch = 0
        self.sent = {}
        self.dirty = dict.fromkeys(self.partitions)
        self.asked = None


@define(eq=False)
class Desk:
    """live       brokers, as the controller says
    known      partitions that there are, here or elsewhere, as the controller says
    offline    partitions whose disk failed
    behind     partitions with a follower that lacks something: only they can lose one from the ISR
    """

    me: BrokerId
    logs: Logs
    settings: Settings
    partitions: dict[TopicPartition, Partition] = field(factory=dict)
    live: dict[BrokerId, Broker] = field(factory=dict)
    known: dict[TopicPartition, None] = field(factory=dict)
    offline: dict[TopicPartition, None] = field(factory=dict)
    min_insync: dict[str, int] = field(factory=dict)
    behind: dict[TopicPartition, None] = field(factory=dict)
    purgatory: Purgatory = field(factory=Purgatory)
    sources: dict[BrokerId, Source] = field(factory=dict)
    sessions: ReplicaSessions = field(init=False)
    """Of followers, with this broker."""
    throttled: dict[TopicPartition, None] = field(factory=dict)
    throttle: Throttle = field(init=False)
    """Of what is fetched of these."""
    sends_slowly: dict[TopicPartition, None] = field(factory=dict)
    sending: Throttle = field(factory=lambda: Throttle(None))
    """Of what followers are sent of these."""
    doubts: list[tuple[int, TopicPartition]] = field(factory=list)
    """When to look again into changes of ISRs whose outcome is not known."""
    writes: list[WriteIsr] = field(factory=list)
    reads: list[ReadIsr] = field(factory=list)
    flushes: dict[TopicPartition, Flush] = field(factory=dict)
    leaders: dict[BrokerId, None] = field(factory=dict)
    appended: dict[TopicPartition, None] = field(factory=dict)
    """Since the last turn: there is more, more is committed, or everything may be different."""
    committed: dict[TopicPartition, None] = field(factory=dict)
    changed: dict[TopicPartition, None] = field(factory=dict)
    roles: list[RoleTaken] = field(factory=list)
    notes: list[Note] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.throttle = Throttle(self.settings.throttled_bytes_s)
        self.sessions = ReplicaSessions(self.settings.session_partitions_max)

    def note(self, event: str, **fields: object) -> None:
        self.notes.append(Note(event, tuple(fields.items())))

    def find(self, where: TopicPartition) -> Partition:
        partition = self.partitions.get(where)
        if partition is not None:
            return partition
        if where in self.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of {where} failed")
        if where in self.known:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.me} holds no replica of {where}")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {where}")

    def ready(self) -> Ready:
        replies = self.purgatory.replies
        made = Ready(
            tuple(replies), tuple(self.writes), tuple(self.reads), tuple(self.flushes.values()), tuple(self.leaders),
            tuple(self.roles), tuple(self.notes),
        )  # fmt: skip
        for each in (replies, self.writes, self.reads, self.flushes, self.leaders, self.roles, self.notes):
            each.clear()
        return made

    def look_again(self, where: TopicPartition, now: int) -> None:
        heapq.heappush(self.doubts, (now + self.settings.isr_backoff_ms, where))

    def disturb(self, where: TopicPartition) -> None:
        """Something happened in a partition that a fetch session may hold."""
        for session in self.sessions.holding(where):
            if where not in session.dirty:
                session.dirty[where] = None
                self.rouse(session, where)

    def rouse(self, session: ReplicaSession, where: TopicPartition) -> None:
        """From here on the session's requests do not count for this partition by themselves."""
        partition = self.partitions.get(where)
        if partition is not None and isinstance(partition.role, Leading):
            follower = partition.role.followers.get(session.replica)
            if follower is not None:
                follower.wake()

    def wish_flush(self, partition: Partition) -> None:
        if self.settings.sync_writes:
            self.flushes[partition.where] = Flush(partition.where, partition.cuts)

    def ask_isr(self, partition: Partition, leading: Leading, members: tuple[BrokerId, ...]) -> None:
        self.note("isr_asked", partition=str(partition.where), isr=members, before=leading.isr.members)
        leading.isr.ask(members, {each.id: each.broker_epoch for each in leading.followers.values()})
        self.write_isr(partition.where, leading)

    def write_isr(self, where: TopicPartition, leading: Leading) -> None:
        """What is asked for. Who is to join has to be there still, as the one who caught up."""
        isr = leading.isr
        assert isr.asked is not None
        joining = [(broker, life) for broker, life in isr.joining if broker not in isr.members]
        self.writes.append(
            WriteIsr(
                where,
                leading.state(isr.asked),
                tuple(broker for broker, _ in joining),
                tuple(life for _, life in joining),
            )
        )

    def stop_following(self, partition: Partition) -> None:
        if isinstance(partition.role, Following):
            leader = partition.role.leader
            source = self.sources[leader]
            source.partitions.pop(partition.where, None)
            source.dirty[partition.where] = None
            if not source.partitions:
                del self.sources[leader]
            self.leaders[leader] = None
            partition.role = None

    def fail_if_grown(self, where: TopicPartition, before: int, error: Exception) -> None:
        """After an exception that nobody foresaw in a write. Where nothing was appended, the records are to blame and
        the log is as it was; else the log may be half changed, and is not used any more."""
        self.note("not_written", partition=str(where), raised=error)
        partition = self.partitions.get(where)
        if partition is not None and partition.log.end_offset != before:
            self.fail(partition, f"a write ended half way: {error!r}")

    def fail(self, partition: Partition, text: str) -> None:
        """Its disk did. The rest of the broker carries on."""
        where = partition.where
        self.note("log_failed", partition=str(where), why=text)
        self.stop_following(partition)
        partition.role = None
        self.partitions.pop(where, None)
        self.behind.pop(where, None)
        self.offline[where] = None
        self.changed[where] = None
        self.roles.append(RoleTaken(where, None, partition.leader_epoch))
        for line in Line:
            self.purgatory.failed(where, line, ErrorCode.KAFKA_STORAGE_ERROR, text)
