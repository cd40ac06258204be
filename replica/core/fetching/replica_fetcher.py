"""Fetching from one leader: the next request, and the effects of its answer, as in Kafka's `ReplicaFetcherThread`.

At most one request to a leader is in flight. Fetches belong to a session (KIP-227): the first request is full, that is,
names every partition to fetch; later ones name only partitions that changed since, and a partition that the answer
omits is unchanged. The answer to a fetch is applied only if the partition still follows in the same leader epoch and
its log still ends at the requested offset. `_dirty` holds every partition whose entry in the session may be outdated,
so the cost of a request does not depend on the others. If a request fails, the session ends, and the next request is
full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import define, field

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_session_cache import EPOCH_MAX
from replica.core.outbox import Outbox
from replica.core.partitions.divergence import last_epoch, truncation_offset
from replica.core.partitions.follower_role import FetchStep, FollowerRole
from replica.core.partitions.partition import Partition
from replica.core.partitions.partition_log import NO_EPOCH, NO_OFFSET
from replica.core.replica_messages import (
    EpochAnswer,
    EpochAsk,
    Fetch,
    Fetched,
    FetchPartition,
    FetchSessionPlace,
    LeaderRequest,
    OffsetAnswer,
    OffsetAsk,
    SessionFetched,
)
from replica.core.replica_settings import ReplicaSettings
from replica.core.replication_quota import ReplicationQuotaManager

Answers: TypeAlias = Sequence[Fetched | EpochAnswer | OffsetAnswer]
Due: TypeAlias = list[tuple[Partition, FollowerRole]]
SESSION_LOST: Final = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


@define(eq=False)
class FetchSessionHandler:
    """The fetcher's side of a fetch session, as Kafka's class of this name."""

    id: int = 0
    """The id of the session; 0: there is none, and the next request is full."""
    epoch: int = 0
    """The epoch of the next request."""
    sent: dict[TopicPartition, FetchPartition] = field(factory=dict)
    """The request that the leader has for each partition of the session."""
    unapplied: set[TopicPartition] = field(factory=set)
    """Partitions whose newest answer was not applied. The leader does not repeat a high watermark or log start that it
    has already sent in the session, so the next request removes them from the session and adds them again."""


class ReplicaFetcher:
    """Decides what to request from one leader, and applies its answers to the partitions that follow it."""

    def __init__(
        self,
        leader: BrokerId,
        me: BrokerId,
        settings: ReplicaSettings,
        quota: ReplicationQuotaManager,
        outbox: Outbox,
        fail: Callable[[Partition, str], None],
        fail_if_changed: Callable[[TopicPartition, int, Exception], None],
    ) -> None:
        self._me = me
        self._leader = leader
        self._settings = settings
        self._quota = quota
        self._outbox = outbox
        self._fail = fail
        self._fail_if_changed = fail_if_changed
        self._partitions: dict[TopicPartition, Partition] = {}
        """All partitions that follow this leader, in the order in which a full request names them."""
        self._dirty: dict[TopicPartition, None] = {}
        """Partitions that the next request may have to name or to remove. The session is up to date for all others."""
        self._session = FetchSessionHandler()
        self._in_flight: LeaderRequest | None = None
        self._interrupted_ms = 0
        """The time at which `interrupts` last returned True."""

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: Partition) -> None:
        """Fetch a partition whose replica on this broker has just become a follower."""
        role = partition.role
        assert isinstance(role, FollowerRole)
        if not self._settings.fetch_diverges and last_epoch(partition.log) != NO_EPOCH:
            role.step = FetchStep.ASK_EPOCH
        self._partitions[partition.where] = partition
        self._dirty[partition.where] = None

    def remove(self, where: TopicPartition) -> None:
        self._partitions.pop(where, None)
        self._dirty[where] = None

    def disturb(self, where: TopicPartition) -> None:
        """Name the partition in the next request, because retention moved its log start."""
        self._dirty[where] = None

    # -- the next request ----------------------------------------------------------------------------------

    def next_request(self, broker_epoch: BrokerEpoch, now: int) -> LeaderRequest | None:
        """Return the next request, and abandon the request in flight, if any. Return None if there is nothing to
        request before `resume_at`, or if a flush must end first."""
        if self._in_flight is not None or not self._session.id:
            self._begin_session()
        if self._quota.partitions and self._quota.open_at(now) > now:
            self._dirty.update((where, None) for where in self._quota.partitions if where in self._partitions)
        due: Due = []
        for partition, role in self._followed(self._dirty):
            if self._settings.sync_writes and partition.durable < partition.log.end_offset:
                # The flush ends within milliseconds. A request without this partition could wait much longer at the
                # leader.
                return None
            when = self._due_at(partition, role, now)
            if when is not None and when <= now:
                due.append((partition, role))
        self._in_flight = self._question(due) or self._fetch(due, broker_epoch)
        return self._in_flight

    def resume_at(self, now: int) -> int | None:
        """Return when the next request may be possible, unless an event, such as the end of a flush, makes one possible
        earlier; None if such an event must happen first."""
        times = [self._due_at(partition, role, now) for partition, role in self._followed(self._dirty)]
        return min((time for time in times if time is not None), default=None)

    def interrupts(self, now: int) -> bool:
        """Return whether to abandon the fetch in flight, because its session lacks a partition that can be fetched now.

        The fetch in flight may wait at the leader for its maximum wait time. Fetches are abandoned no more often than
        once in that time.
        """
        request = self._in_flight
        if request is None or request.fetch is None or now - self._interrupted_ms < request.fetch.wait_ms:
            return False
        lacks = any(
            partition.where not in self._session.sent
            and role.step is FetchStep.FETCH
            and (when := self._due_at(partition, role, now)) is not None
            and when <= now
            for partition, role in self._followed(self._dirty)
        )
        if lacks:
            self._interrupted_ms = now
        return lacks

    def _due_at(self, partition: Partition, role: FollowerRole, now: int) -> int | None:
        """Return when the partition may be requested; None if an event must happen first."""
        if role.step is FetchStep.STOP:
            return None
        if self._settings.sync_writes and partition.durable < partition.log.end_offset:
            return None  # A fetch acknowledges the records before its offset, so they must be durable first.
        if partition.where in self._quota.partitions and not role.in_sync:
            return max(role.resume_ms, self._quota.open_at(now))
        return role.resume_ms

    def _followed(self, wheres: Iterable[TopicPartition]) -> Due:
        found = []
        for where in wheres:
            partition = self._partitions.get(where)
            if partition is not None:
                assert isinstance(partition.role, FollowerRole)
                found.append((partition, partition.role))
        return found

    def _question(self, due: Due) -> LeaderRequest | None:
        """Return the OffsetForLeaderEpoch or ListOffsets request that must precede a fetch; None if none is needed."""
        if all(role.step is FetchStep.FETCH for _, role in due):
            return None
        epochs = tuple(
            EpochAsk(partition.where, role.epoch, last_epoch(partition.log))
            for partition, role in due
            if role.step is FetchStep.ASK_EPOCH
        )
        if epochs:
            return LeaderRequest(self._leader, epochs=epochs)
        for step in (FetchStep.ASK_LATEST, FetchStep.ASK_EARLIEST):
            offsets = tuple(
                OffsetAsk(partition.where, role.epoch, step is FetchStep.ASK_LATEST)
                for partition, role in due
                if role.step is step
            )
            if offsets:
                return LeaderRequest(self._leader, offsets=offsets)
        return None

    def _fetch(self, due: Due, broker_epoch: BrokerEpoch) -> LeaderRequest | None:
        """Return a fetch that names the due partitions whose entry in the session is outdated, and removes partitions
        that must not be fetched now. It both removes and names a due partition whose newest answer was not applied.
        Return None if the session would be empty."""
        settings, session = self._settings, self._session
        fetched = {partition.where for partition, _ in due}
        forgotten = tuple(
            where
            for where in self._dirty
            if where in session.sent and (where not in fetched or where in session.unapplied)
        )
        parts = []
        for partition, role in due:
            wanted = FetchPartition(
                partition.where,
                partition.log.end_offset,
                settings.partition_bytes_max,
                role.epoch,
                last_epoch(partition.log) if settings.fetch_diverges else NO_EPOCH,
                partition.log.start_offset,
            )
            if session.sent.get(partition.where) != wanted or partition.where in session.unapplied:
                parts.append(wanted)
        if not parts and len(session.sent) == len(forgotten):
            return None
        for where in forgotten:
            del session.sent[where]
            session.unapplied.discard(where)
        for wanted in parts:
            session.sent[wanted.where] = wanted
        self._dirty = {where: None for where in self._dirty if where not in fetched and self._resumes(where)}
        place = FetchSessionPlace(session.id, session.epoch, forgotten)
        return LeaderRequest(
            self._leader,
            Fetch(
                tuple(parts), self._me, broker_epoch, settings.fetch_wait_ms, 1, settings.fetch_bytes_max,
                session=place,
            ),
        )  # fmt: skip

    def _resumes(self, where: TopicPartition) -> bool:
        return any(role.step is not FetchStep.STOP for _, role in self._followed((where,)))

    def _begin_session(self) -> None:
        """Make the next request full, and abandon the session and the request in flight, if any."""
        self._session = FetchSessionHandler()
        self._dirty = dict.fromkeys(self._partitions)
        self._in_flight = None

    # -- answers -------------------------------------------------------------------------------------------

    def failed(self, request: LeaderRequest, now: int) -> None:
        """Back off after a request that got no answer, was refused as a whole, or whose answer could not be applied."""
        asked = dict(_asked(request))
        if self._in_flight is request:
            asked |= {where: wanted.leader_epoch for where, wanted in self._session.sent.items()}
            self._begin_session()
        for where, epoch in asked.items():
            still = self._still(where, epoch)
            if still is not None:
                still[1].resume_ms = now + self._settings.fetch_backoff_ms

    def answered(self, request: LeaderRequest, answers: Answers, now: int) -> None:
        current = self._in_flight is request
        if request.fetch is None:
            self._take_each(dict(_asked(request)), {each.where: each for each in answers}, {}, now)
        else:
            self._take_fetched(current, request, request.fetch, answers, now)
        if current and self._in_flight is request:
            self._in_flight = None

    def _still(self, where: TopicPartition, epoch: int) -> tuple[Partition, FollowerRole] | None:
        """Return the partition if it still follows this leader in the same leader epoch."""
        partition = self._partitions.get(where)
        if partition is None:
            return None
        role = partition.role
        if not isinstance(role, FollowerRole) or role.epoch != epoch:
            return None
        return partition, role

    def _take_fetched(self, current: bool, request: LeaderRequest, fetch: Fetch, answers: Answers, now: int) -> None:
        """Apply the answer to a fetch. The answer to an abandoned request is applied only if the request was full."""
        place, session = fetch.session, self._session
        complete = place is None or place.epoch == 0
        kept, error = (answers.id, answers.error) if isinstance(answers, SessionFetched) else (0, ErrorCode.NONE)
        if error:
            if error in SESSION_LOST and not complete:
                self._outbox.note("session_lost", leader=request.leader, error=error.name)
                if current:
                    self._begin_session()
            else:
                self._outbox.note(
                    "fetch_refused", key=(request.leader, error), partition="", leader=request.leader, error=error.name
                )
                self.failed(request, now)
            return
        if not complete and not current:
            return  # the answer belongs to an abandoned session
        given = {each.where: each for each in answers}
        sent = session.sent if current and not complete else {part.where: part for part in fetch.parts}
        # The answer to a full request must name all partitions: an omitted one is requested again after a pause. The
        # answer to an incremental request omits unchanged partitions.
        asked = {where: sent[where].leader_epoch for where in (sent if complete else given) if where in sent}
        ends = {where: sent[where].offset for where in asked}
        if current:
            if kept:
                session.id, session.epoch = kept, 1 if complete or session.epoch == EPOCH_MAX else session.epoch + 1
            else:
                self._begin_session()
        self._take_each(asked, given, ends, now)

    def _take_each(
        self,
        asked: Mapping[TopicPartition, int],
        given: Mapping[TopicPartition, Fetched | EpochAnswer | OffsetAnswer],
        ends: Mapping[TopicPartition, int],
        now: int,
    ) -> None:
        """Apply the answers by partition. `asked` has the leader epoch, and `ends` the log end, of each partition at
        the time of the request."""
        for where, epoch in asked.items():
            answer = given.get(where)
            if isinstance(answer, Fetched):
                self._session.unapplied.add(where)
            still = self._still(where, epoch)
            if still is None:
                continue
            partition, role = still
            self._dirty[where] = None
            before = partition.log.end_offset
            try:
                match answer:
                    case Fetched():
                        if partition.log.end_offset == ends[where]:
                            self._on_fetched(partition, role, answer, now)
                            self._session.unapplied.discard(where)
                    case EpochAnswer():
                        self._on_epoch(partition, role, answer, now)
                    case OffsetAnswer():
                        self._on_offset(partition, role, answer, now)
                    case None:
                        role.resume_ms = now + self._settings.fetch_backoff_ms
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    self._fail(partition, error.text)
                else:
                    self._outbox.note(
                        "not_appended", key=where, partition=str(where), leader=role.leader, why=str(error)
                    )
                    role.resume_ms = now + self._settings.fetch_backoff_ms
            except Exception as error:
                role.resume_ms = now + self._settings.fetch_backoff_ms
                self._fail_if_changed(where, before, error)

    def _on_error(self, partition: Partition, role: FollowerRole, error: ErrorCode, now: int) -> None:
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            role.step = FetchStep.STOP
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            role.step = FetchStep.ASK_LATEST
        else:
            role.resume_ms = now + self._settings.fetch_backoff_ms
        self._outbox.note(
            "fetch_refused",
            key=(role.leader, error),
            partition=str(partition.where),
            leader=role.leader,
            error=error.name,
        )

    def _on_fetched(self, partition: Partition, role: FollowerRole, answer: Fetched, now: int) -> None:
        if answer.error:
            self._on_error(partition, role, answer.error, now)
        elif answer.diverging is not None:
            partition.truncate_to(truncation_offset(partition.log, answer.diverging)[0])
        else:
            partition.append_as_follower(answer)
            if answer.records:
                if partition.where in self._quota.partitions and not role.in_sync:
                    self._quota.record(len(answer.records), now)
                # Partitions that got records go to the end of the order.
                self._partitions[partition.where] = self._partitions.pop(partition.where)

    def _on_epoch(self, partition: Partition, role: FollowerRole, answer: EpochAnswer, now: int) -> None:
        if answer.error:
            self._on_error(partition, role, answer.error, now)
        elif answer.end.end_offset == NO_OFFSET:
            # The leader cannot tell where this epoch ended, so only committed records are certain to be in its log.
            partition.truncate_to(partition.high_watermark)
            role.step = FetchStep.FETCH
        else:
            cut, settled = truncation_offset(partition.log, answer.end)
            partition.truncate_to(cut)
            if settled:
                role.step = FetchStep.FETCH

    def _on_offset(self, partition: Partition, role: FollowerRole, answer: OffsetAnswer, now: int) -> None:
        """Resume after OFFSET_OUT_OF_RANGE. If the leader's log ends before this log ends, truncate to the leader's log
        end; if it ends even before this log starts, start over at the leader's log end. Otherwise ask for the leader's
        log start. If that is after this log's end, start over at it; otherwise fetch again after a pause."""
        log = partition.log
        if answer.error:
            self._on_error(partition, role, answer.error, now)
        elif role.step is FetchStep.ASK_LATEST:
            if answer.offset < log.end_offset:
                partition.truncate_to(max(answer.offset, log.start_offset))
                if answer.offset < log.start_offset:
                    partition.start_over(answer.offset)
                role.step = FetchStep.FETCH
            else:
                role.step = FetchStep.ASK_EARLIEST
        elif role.step is FetchStep.ASK_EARLIEST:
            if answer.offset > log.end_offset:
                self._outbox.note("started_over", partition=str(partition.where), at=answer.offset, end=log.end_offset)
                partition.start_over(answer.offset)
            else:
                role.resume_ms = now + self._settings.fetch_backoff_ms
            role.step = FetchStep.FETCH


def _asked(request: LeaderRequest) -> list[tuple[TopicPartition, int]]:
    parts: tuple[FetchPartition | EpochAsk | OffsetAsk, ...] = request.fetch.parts if request.fetch is not None else ()
    return [(ask.where, ask.leader_epoch) for ask in (*parts, *request.epochs, *request.offsets)]
