"""The replicas of one broker, without I/O: it takes commands, requests, answers and the time, and returns answers and
effects.

    manager.apply(command, now)                  a command of the controller, with checked broker and controller epochs
    manager.produce(token, ...), fetch(...)      answered at once, or later in `Ready.replies`, by token
    manager.fetchers.next_request(leader, ...)   the next request to a leader; ends with `answered` or `failed`
    manager.alter_partition.written(...), ...    the outcome of a `WriteIsr` or `ReadIsr`
    manager.next_flush()                         the next flush to run; ends with `flushed` or `disk_failed`
    manager.tick(now)                            `deadline` has passed
    manager.ready()                              the effects; call it after each of the above

Nothing in here waits or reads a clock. Logs are called directly: see `replica.core.partitions.partition_log`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, assert_never

from kraft_controller.core.commands import (
    EPOCH_OF_DELETION,
    EPOCH_UNKNOWN,
    Command,
    LeaderAndIsr,
    Stop,
    StopReplica,
    UpdateMetadata,
)
from kraft_controller.core.commands import Role as RoleCommand
from kraft_controller.core.names import DELETED, BrokerId, TopicId, TopicPartition
from kraft_controller.core.state import Broker
from replica.core.alter_partition_manager import AlterPartitionManager
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_server import FetchServer
from replica.core.fetching.replica_fetcher_manager import ReplicaFetcherManager
from replica.core.outbox import Outbox
from replica.core.partition_table import PartitionTable
from replica.core.partitions.offset_lookup import Lookup, Search, search
from replica.core.partitions.partition import ALL, Partition
from replica.core.partitions.partition_log import ActiveProducer, ExaminedBatch, PartitionLog
from replica.core.purgatory import Condition, DelayedDeleteRecords, DelayedOperationPurgatory, DelayedProduce
from replica.core.replica_messages import (
    CONSUMER,
    Deleted,
    EpochAnswer,
    Fetch,
    Fetched,
    LogFlush,
    OffsetAnswer,
    Produced,
    Ready,
)
from replica.core.replica_settings import ReplicaSettings


class Logs(Protocol):
    """The logs of a broker. A storage error is a `KafkaError` with KAFKA_STORAGE_ERROR."""

    def open(self, where: TopicPartition, topic_id: TopicId | None, *, begins: bool) -> PartitionLog:
        """Open or create a log.

        `begins`: the replica may start with an empty log. Then an existing log of an earlier topic with the same name
        is set aside. Without `begins`, raise INCONSISTENT_TOPIC_ID for such a log, and KAFKA_STORAGE_ERROR if the log
        is missing and may be in a failed directory.
        """

    def high_watermark(self, where: TopicPartition) -> int:
        """Return the newest checkpoint of the high watermark; without one, an offset not above the log start."""

    def take_offline(self, where: TopicPartition, why: str) -> None:
        """Stop using a log until the broker restarts and recovers it. From now on `open` raises."""

    def delete(self, where: TopicPartition) -> None:
        """Delete a log, if it exists."""


class ReplicaManager:
    """Owns the partitions of a broker and the operations that wait for them, as Kafka's `ReplicaManager`."""

    def __init__(self, me: BrokerId, logs: Logs, settings: ReplicaSettings | None = None) -> None:
        self.me = me
        self.settings = settings or ReplicaSettings()
        self.partitions: PartitionTable[TopicPartition, Partition] = PartitionTable()
        """The partitions with a usable log, whatever their role."""
        self.live: dict[BrokerId, Broker] = {}
        """The live brokers of the newest UpdateMetadata, and the leaders that LeaderAndIsr commands have named
        since."""
        self._known: dict[TopicPartition, None] = {}
        """All partitions of the cluster that the controller's commands have named, except deleted ones."""
        self._offline: dict[TopicPartition, None] = {}
        """Partitions of this broker whose log is offline. None of them is in `partitions`."""
        self._min_insync: dict[str, int] = {}
        """`min.insync.replicas` of the topics whose settings have been read."""
        self._logs = logs
        self._outbox = Outbox()
        self.purgatory = DelayedOperationPurgatory(self._outbox)
        self.fetchers = ReplicaFetcherManager(
            me, self.settings, self._outbox, self._fail, self._fail_if_changed, self._end_turn
        )
        self.fetches = FetchServer(
            self.settings, self.partitions, self.find, self._fail, self.live, self.purgatory, self._outbox
        )
        self.alter_partition = AlterPartitionManager(
            self.partitions, self.fetches.sessions, self.settings, self._end_turn
        )

    def find(self, where: TopicPartition) -> Partition:
        """Return the partition; raise if it is offline, or not on this broker."""
        partition = self.partitions.get(where)
        if partition is not None:
            return partition
        if where in self._offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the replica of {where} is offline; see the broker's log")
        if where in self._known:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.me} holds no replica of {where}")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {where}")

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks to checkpoint, of all partitions, whatever their role.

        The high watermark of a partition that is missing in the checkpoint starts at the log start again.
        """
        return {where: partition.high_watermark for where, partition in self.partitions.items()}

    @property
    def deadline(self) -> int | None:
        """The time of the next `tick`; None if none is needed."""
        request, isr = self.purgatory.deadline, self.alter_partition.deadline
        if request is None or isr is None:
            return isr if request is None else request
        return min(request, isr)

    def tick(self, now: int) -> None:
        self.alter_partition.tick(now)
        for delayed in self.purgatory.expire(now):
            self.fetches.answer(delayed, now)
        self._end_turn(now)

    def ready(self) -> Ready:
        return self._outbox.take()

    def _end_turn(self, now: int) -> None:
        """Watch the followers of partitions with new records for lag, and answer the fetches that are complete now."""
        purgatory = self.purgatory
        if not purgatory.appended.keys() <= self.alter_partition.lagging.keys():
            self.alter_partition.watch(purgatory.appended, now)
        if purgatory.appended or purgatory.committed or purgatory.changed:
            self.fetches.complete(now)

    # -- commands of the controller ------------------------------------------------------------------------

    def apply(self, command: Command, now: int) -> dict[TopicPartition, int]:
        """Execute a command. Return the errors by partition, as numbers of `ErrorCode`.

        `kraft_controller.core.command_handler` has checked the broker epoch and the controller epoch. This method
        checks the leader epochs of LeaderAndIsr and StopReplica, partition by partition.
        """
        match command:
            case LeaderAndIsr():
                errors = self._become_leaders_or_followers(command, now)
            case UpdateMetadata():
                errors = self._update_metadata(command, now)
            case StopReplica():
                errors = self._stop_replicas(command)
            case _:
                assert_never(command)
        self._end_turn(now)
        return errors

    def _become_leaders_or_followers(self, command: LeaderAndIsr, now: int) -> dict[TopicPartition, int]:
        errors = {}
        self.live.update((broker.id, broker) for broker in command.leaders)
        for role in command.roles:
            self._known[role.where] = None
            try:
                self._become_leader_or_follower(role, now)
            except KafkaError as error:
                errors[role.where] = int(error.code)
                self._outbox.note(
                    "role_refused",
                    key=role.where,
                    partition=str(role.where),
                    epoch=role.state.leader_epoch,
                    why=str(error),
                )
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    partition = self.partitions.get(role.where)
                    if partition is not None:
                        self._fail(partition, error.text)  # its role may be half changed
                    self._offline[role.where] = None
        if command.full:
            named = {role.where for role in command.roles}
            for where in [where for where in self.partitions if where not in named]:
                # Keep the log. Only a StopReplica command deletes logs.
                self._outbox.note("stray", partition=str(where))
                self._stop(self.partitions[where])
        return errors

    def _become_leader_or_follower(self, role: RoleCommand, now: int) -> None:
        """Take the role if the leader epoch is newer; in the same epoch, adopt a newer ISR or assignment."""
        where, state = role.where, role.state
        if self.me not in role.assignment.replicas:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"broker {self.me} is not a replica of {where}")
        partition = self._replica(role)
        if state.leader_epoch < partition.leader_epoch:
            text = f"leader epoch {state.leader_epoch} is stale; {where} is in leader epoch {partition.leader_epoch}"
            raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH, text)
        if state.leader_epoch == partition.leader_epoch:
            self.fetches.sessions.disturb(where)
            partition.update(role, now)
            return
        self.fetchers.remove(partition)
        if state.leader == self.me:
            partition.make_leader(self.me, role, now)
            self.alter_partition.watch((where,), now)
        else:
            partition.make_follower(self.me, role)
            if partition.role is not None:
                self.fetchers.add(partition)
        self.purgatory.changed[where] = None

    def _replica(self, role: RoleCommand) -> Partition:
        """Return the partition of a command, and open its log if necessary."""
        where = role.where
        partition = self.partitions.get(where)
        if partition is not None and _is_of_another_topic(partition, role):
            if partition.role is not None:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"{where} has topic id {partition.topic_id} here, but the command names {role.topic_id}",
                )
            partition = None  # the topic was deleted, and a new topic has its name
        if partition is None:
            # An ISR member has had a log, which may be in a failed directory. If the member led with an empty one, its
            # followers would truncate committed records.
            begins = role.is_new or self.me not in role.state.isr
            log = self._logs.open(where, role.topic_id, begins=begins)
            partition = Partition(
                where,
                log,
                self._logs.high_watermark(where),
                role.topic_id,
                min_insync=self._min_insync.get(where.topic, self.settings.min_insync),
                settings=self.settings,
                live=self.live,
                purgatory=self.purgatory,
                outbox=self._outbox,
            )
            self.partitions[where] = partition
            self._offline.pop(where, None)
            if partition.durable < partition.log.end_offset:
                partition.request_flush()
        return partition

    def _update_metadata(self, command: UpdateMetadata, now: int) -> dict[TopicPartition, int]:
        live = {broker.id: broker for broker in command.brokers}
        died = self.live.keys() - live.keys()
        self.live.clear()
        self.live.update(live)
        for role in command.roles:
            if role.state.leader == DELETED:
                self._known.pop(role.where, None)
            else:
                self._known[role.where] = None
        if died:
            # A dead broker no longer holds back DeleteRecords, nor, outside the ISR, the high watermark.
            for where in list(self.alter_partition.lagging):
                if where in self.partitions:
                    self.partitions[where].advance(now)
            for where in self.purgatory.awaiting(Condition.DELETED):
                if where in self.partitions:
                    self.partitions[where].complete_deletions()
        return {}

    def _stop_replicas(self, command: StopReplica) -> dict[TopicPartition, int]:
        errors = {}
        for stop in command.stops:
            try:
                self._stop_replica(stop)
            except KafkaError as error:
                errors[stop.where] = int(error.code)
                self._outbox.note("stop_refused", partition=str(stop.where), epoch=stop.leader_epoch, why=str(error))
        return errors

    def _stop_replica(self, stop: Stop) -> None:
        partition = self.partitions.get(stop.where)
        if partition is not None:
            if stop.leader_epoch not in (EPOCH_UNKNOWN, EPOCH_OF_DELETION):
                partition.check_epoch(min(stop.leader_epoch, partition.leader_epoch))
            self._stop(partition)
        if stop.delete:
            self.partitions.pop(stop.where, None)
            self._offline.pop(stop.where, None)
            self._logs.delete(stop.where)
            self._outbox.note("deleted", partition=str(stop.where))

    def _stop(self, partition: Partition) -> None:
        self.fetchers.remove(partition)
        partition.stop()

    def require_in_sync(self, topic: str, replicas: int | None, now: int) -> None:
        """Set `min.insync.replicas` of a topic; None restores the broker's value."""
        if replicas is None:
            self._min_insync.pop(topic, None)
        else:
            self._min_insync[topic] = replicas
        for partition in self.partitions.values_of(topic):
            partition.require_in_sync(self._min_insync.get(topic, self.settings.min_insync), now)
        self._end_turn(now)

    # -- clients and followers -----------------------------------------------------------------------------

    def produce(
        self,
        token: int,
        acks: int,
        timeout_ms: int,
        entries: Sequence[tuple[TopicPartition, bytes | ExaminedBatch]],
        now: int,
        *,
        origin: int = 0,
        clock: int | None = None,
    ) -> list[Produced] | None:
        """Append batches. Return one result for each entry, in order; None if the operation is delayed.

        acks = 0     the producer expects no answer
        acks = 1     answered when the records are in this log; with `sync_writes`, when they are durable
        acks = -1    answered when the records are committed: every ISR member has them

        `clock` is the time of day, for checks of record timestamps; `now` is monotonic.
        """
        results = self._produce(token, acks, timeout_ms, entries, now, origin, now if clock is None else clock)
        self._end_turn(now)
        return results

    def _produce(
        self,
        token: int,
        acks: int,
        timeout_ms: int,
        entries: Sequence[tuple[TopicPartition, bytes | ExaminedBatch]],
        now: int,
        origin: int,
        clock: int,
    ) -> list[Produced] | None:
        """Append to all partitions. Return the results; None if some must wait, as in Kafka's
        `ReplicaManager.appendRecords`.

        With acks=all the high watermark must reach the end of the records; with acks=1 and `sync_writes` they must be
        durable. An error of one partition does not affect the others. A storage error takes its partition offline.
        """
        if acks not in (-1, 0, 1):
            text = f"acks must be -1, 0 or 1, not {acks}"
            return [Produced(where, ErrorCode.INVALID_REQUIRED_ACKS, text) for where, _ in entries]
        if acks and len(self.purgatory) >= self.settings.parked_max:
            text = (
                f"nothing was written: the limit of {self.settings.parked_max} delayed requests is reached; retry later"
            )
            return [Produced(where, ErrorCode.REQUEST_TIMED_OUT, text) for where, _ in entries]
        results: list[Produced] = []
        awaited: dict[int, tuple[TopicPartition, Condition]] = {}
        offsets: dict[int, int] = {}
        for place, (where, records) in enumerate(entries):
            partition, before = None, 0
            try:
                partition = self.find(where)
                before = partition.log.end_offset
                result, wanted = partition.append_as_leader(acks, records, now, clock, origin)
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR and partition is not None:
                    self._fail(partition, error.text)
                results.append(Produced(where, error.code, error.text))
                continue
            except Exception as error:
                self._fail_if_changed(where, before, error)
                results.append(
                    Produced(where, ErrorCode.UNKNOWN_SERVER_ERROR, "unexpected error; see the broker's log")
                )
                continue
            results.append(result)
            if acks == ALL and partition.high_watermark < wanted:
                awaited[place], offsets[place] = (where, Condition.COMMITTED), wanted
            elif acks == 1 and self.settings.sync_writes and partition.durable < wanted:
                awaited[place], offsets[place] = (where, Condition.DURABLE), wanted
        if not awaited:
            return results
        self.purgatory.delay(DelayedProduce(token, now + max(timeout_ms, 0), results, awaited), offsets)
        return None

    def fetch(self, token: int, asked: Fetch, now: int) -> list[Fetched] | None:
        """Return the answer, a `SessionFetched` for a fetch in a session; None: the operation is delayed."""
        results = self.fetches.fetch(token, asked, now)
        self._end_turn(now)
        return results

    def delete_records(
        self, token: int, timeout_ms: int, entries: Iterable[tuple[TopicPartition, int]], now: int
    ) -> list[Deleted] | None:
        """Delete records before offsets. Return None if the answer is delayed until no live replica has the records."""
        if len(self.purgatory) >= self.settings.parked_max:
            return [Deleted(where, ErrorCode.REQUEST_TIMED_OUT) for where, _ in entries]
        results: list[Deleted] = []
        awaited: dict[int, tuple[TopicPartition, Condition]] = {}
        offsets: dict[int, int] = {}
        for place, (where, asked) in enumerate(entries):
            try:
                offset, least = self.find(where).delete_records(asked)
            except KafkaError as error:
                results.append(Deleted(where, error.code))
                continue
            results.append(Deleted(where, low_watermark=least))
            if least < offset:
                awaited[place], offsets[place] = (where, Condition.DELETED), offset
        if awaited:
            self.purgatory.delay(DelayedDeleteRecords(token, now + max(timeout_ms, 0), results, awaited), offsets)
        self._end_turn(now)
        return None if awaited else results

    def look_up(
        self, asked: Lookup, *, replica: BrokerId = CONSUMER, committed: bool = False, search: Search = search
    ) -> OffsetAnswer:
        """Answer ListOffsets for one partition. `search` may return the result of a search that a thread has made."""
        try:
            return self.find(asked.where).look_up(asked, replica, committed, search)
        except KafkaError as error:
            return OffsetAnswer(asked.where, error.code)

    def epoch_end(self, where: TopicPartition, current: int, epoch: int) -> EpochAnswer:
        try:
            return self.find(where).epoch_end(current, epoch)
        except KafkaError as error:
            return EpochAnswer(where, error.code)

    def active_producers(self, where: TopicPartition) -> tuple[ActiveProducer, ...]:
        partition = self.find(where)
        partition.leading()
        return partition.log.active_producers()

    # -- the disk ------------------------------------------------------------------------------------------

    def next_flush(self) -> LogFlush | None:
        """Remove the next flush from the queue and return it; None if none is requested.

        A flush requested before a truncation is dropped: later appends request their own.
        """
        queue = self._outbox.flushes
        while queue:
            where = next(iter(queue))
            cuts, partition = queue.pop(where), self.partitions.get(where)
            if partition is not None and partition.cuts == cuts:
                return LogFlush(where, partition.log, cuts)
        return None

    def flushed(self, where: TopicPartition, cuts: int, upto: int, now: int) -> None:
        """Handle the end of a flush: all records before `upto` are durable."""
        partition = self.partitions.get(where)
        if partition is not None and partition.flushed(cuts, upto, now) and partition.leader != self.me:
            self._outbox.leaders[partition.leader] = None
        self._end_turn(now)

    def logs_retired(self) -> None:
        """Report new log starts to leaders and followers after retention has run."""
        for partition in self.partitions.values():
            if partition.start_moved():
                self.fetches.sessions.disturb(partition.where)
                self.fetchers.start_moved(partition)

    def disk_failed(self, where: TopicPartition, why: str, now: int) -> None:
        partition = self.partitions.get(where)
        if partition is not None:
            self._fail(partition, why)
            self._end_turn(now)

    def _fail_if_changed(self, where: TopicPartition, before: int, error: Exception) -> None:
        """Handle an unexpected exception in an append or a truncation.

        If the log is unchanged, the records caused the exception, and the replica stays online. If the log is half
        changed, or its end is not `before`, the replica goes offline.
        """
        self._outbox.note("not_written", partition=str(where), raised=error)
        partition = self.partitions.get(where)
        if partition is not None and (partition.log.half_changed or partition.log.end_offset != before):
            self._fail(partition, f"an append or truncation failed half way: {error!r}")

    def _fail(self, partition: Partition, text: str) -> None:
        """Take a partition offline because its disk failed, or because its log is damaged or half changed. Other
        partitions stay online.

        As in Kafka, the replica stays offline until the broker restarts: each further LeaderAndIsr for it is answered
        with KAFKA_STORAGE_ERROR, so the controller does not elect it.
        """
        where = partition.where
        self._outbox.note("log_failed", partition=str(where), why=text)
        self.fetchers.remove(partition)
        partition.fail(text)
        self.partitions.pop(where, None)
        self._offline[where] = None
        self._logs.take_offline(where, text)


def _is_of_another_topic(partition: Partition, role: RoleCommand) -> bool:
    return None not in (role.topic_id, partition.topic_id) and role.topic_id != partition.topic_id
