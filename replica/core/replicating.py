"""Following: the requests to each leader, and what their answers change.

One request at a time is on its way to a leader. Fetches belong to a session (KIP-227): the first names every partition
at the end of its log, those after it only partitions that changed since, and what the leader does not answer is as it
was. An answer counts only while the partition still follows in the same leader epoch and its log still ends where the
session says. `Source.dirty` holds every partition whose place in the session may be wrong, so the cost of a request
does not depend on the others. Whatever goes wrong with a request ends the session: the next request is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.desk import Desk, Source
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetch_sessions import EPOCH_MAX
from replica.core.following import Following, Step, cut_at, last_epoch
from replica.core.partition import Partition
from replica.core.partition_log import NO_EPOCH, NO_OFFSET, EpochEndOffset
from replica.core.wants import (
    EpochAnswer,
    EpochAsk,
    Fetch,
    Fetched,
    InSession,
    OffsetAnswer,
    OffsetAsk,
    Request,
    SessionFetched,
    Wanted,
)

Answers: TypeAlias = Sequence[Fetched | EpochAnswer | OffsetAnswer]
Due: TypeAlias = list[tuple[Partition, Following]]
NOT_KEPT: Final = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


def begin(desk: Desk, partition: Partition, following: Following) -> None:
    if not desk.settings.fetch_diverges and last_epoch(partition.log) != NO_EPOCH:
        following.step = Step.ASK_EPOCH
    source = desk.sources.setdefault(following.leader, Source())
    source.partitions[partition.where] = None
    source.dirty[partition.where] = None
    desk.leaders[following.leader] = None


def start_moved(desk: Desk, partition: Partition) -> None:
    """Retention moved the start of a log."""
    desk.disturb(partition.where)
    if isinstance(partition.role, Following):
        desk.sources[partition.role.leader].dirty[partition.where] = None


def _when(desk: Desk, partition: Partition, role: Following, now: int) -> int | None:
    """From when on he may be asked about this one; None: something has to happen before."""
    if role.step is Step.STOP:
        return None
    if desk.settings.sync_writes and partition.durable < partition.log.end_offset:
        return None  # to ask for what is next is to say that all before it is kept
    if partition.where in desk.throttled and not role.in_sync:
        return max(role.resume_ms, desk.throttle.open_at(now))
    return role.resume_ms


def _followed(desk: Desk, source: Source, wheres: Iterable[TopicPartition]) -> Due:
    found = []
    for where in wheres:
        if where in source.partitions:
            partition = desk.partitions[where]
            assert isinstance(partition.role, Following)
            found.append((partition, partition.role))
    return found


def next_request(desk: Desk, leader: BrokerId, broker_epoch: BrokerEpoch, now: int) -> Request | None:
    """None: there is nothing to ask him now; see `resume_at`. A request before it that is unanswered is given up."""
    source = desk.sources.get(leader)
    if source is None:
        return None
    if source.asked is not None or not source.id:
        source.begin_anew()
    if desk.throttled and desk.throttle.open_at(now) > now:
        source.dirty.update((where, None) for where in desk.throttled if where in source.partitions)
    due: Due = []
    for partition, role in _followed(desk, source, source.dirty):
        if desk.settings.sync_writes and partition.durable < partition.log.end_offset:
            return None  # it is a matter of milliseconds, and a request without this one may wait for much longer
        when = _when(desk, partition, role, now)
        if when is not None and when <= now:
            due.append((partition, role))
    request = _question(leader, due) or _fetch(desk, source, leader, due, broker_epoch)
    source.asked = request
    return request


def _question(leader: BrokerId, due: Due) -> Request | None:
    """What has to be known before these can be fetched."""
    epochs = tuple(
        EpochAsk(partition.where, role.epoch, last_epoch(partition.log))
        for partition, role in due
        if role.step is Step.ASK_EPOCH
    )
    if epochs:
        return Request(leader, epochs=epochs)
    for step in (Step.ASK_LATEST, Step.ASK_EARLIEST):
        offsets = tuple(
            OffsetAsk(partition.where, role.epoch, step is Step.ASK_LATEST)
            for partition, role in due
            if role.step is step
        )
        if offsets:
            return Request(leader, offsets=offsets)
    return None


def _fetch(desk: Desk, source: Source, leader: BrokerId, due: Due, broker_epoch: BrokerEpoch) -> Request | None:
    """Name those that are due and not in the session as they are now; take those out that may not be fetched."""
    settings = desk.settings
    fetched = {partition.where for partition, _ in due}
    forgotten = tuple(where for where in source.dirty if where in source.sent and where not in fetched)
    parts = []
    for partition, role in due:
        wanted = Wanted(
            partition.where,
            partition.log.end_offset,
            settings.partition_bytes_max,
            role.epoch,
            last_epoch(partition.log) if settings.fetch_diverges else NO_EPOCH,
            partition.log.start_offset,
        )
        if source.sent.get(partition.where) != wanted:
            parts.append(wanted)
    if not parts and len(source.sent) == len(forgotten):
        return None
    for where in forgotten:
        del source.sent[where]
    for wanted in parts:
        source.sent[wanted.where] = wanted
    source.dirty = {where: None for where in source.dirty if where not in fetched and _resumes(desk, source, where)}
    place = InSession(source.id, source.epoch, forgotten)
    return Request(
        leader,
        Fetch(
            tuple(parts), desk.me, broker_epoch, settings.fetch_wait_ms, 1, settings.fetch_bytes_max, session=place
        ),
    )  # fmt: skip


def _resumes(desk: Desk, source: Source, where: TopicPartition) -> bool:
    return any(role.step is not Step.STOP for _, role in _followed(desk, source, (where,)))


def resume_at(desk: Desk, leader: BrokerId, now: int) -> int | None:
    """When there may be something to ask him, if nothing else happens before."""
    source = desk.sources.get(leader)
    if source is None:
        return None
    times = [_when(desk, partition, role, now) for partition, role in _followed(desk, source, source.dirty)]
    return min((time for time in times if time is not None), default=None)


def lacks(desk: Desk, leader: BrokerId, now: int) -> bool:
    """Whether the fetch under way leaves out a partition that can be fetched by now."""
    source = desk.sources.get(leader)
    if source is None or source.asked is None or source.asked.fetch is None:
        return False
    return any(
        partition.where not in source.sent
        and role.step is Step.FETCH
        and (when := _when(desk, partition, role, now)) is not None
        and when <= now
        for partition, role in _followed(desk, source, source.dirty)
    )


def failed(desk: Desk, request: Request, now: int) -> None:
    """There came no answer."""
    source = desk.sources.get(request.leader)
    asked = dict(_asked(request))
    if source is not None and source.asked is request:
        asked |= {where: wanted.leader_epoch for where, wanted in source.sent.items()}
        source.begin_anew()
    for where, epoch in asked.items():
        role = _still(desk, where, request.leader, epoch)
        if role is not None:
            role[1].resume_ms = now + desk.settings.fetch_backoff_ms


def _asked(request: Request) -> list[tuple[TopicPartition, int]]:
    parts: tuple[Wanted | EpochAsk | OffsetAsk, ...] = request.fetch.parts if request.fetch is not None else ()
    return [(ask.where, ask.leader_epoch) for ask in (*parts, *request.epochs, *request.offsets)]


def _still(desk: Desk, where: TopicPartition, leader: BrokerId, epoch: int) -> tuple[Partition, Following] | None:
    """Whether we still follow the one who was asked, in the same leader epoch."""
    partition = desk.partitions.get(where)
    if partition is None:
        return None
    role = partition.role
    if not isinstance(role, Following) or role.leader != leader or role.epoch != epoch:
        return None
    return partition, role


def answered(desk: Desk, request: Request, answers: Answers, now: int) -> None:
    source = desk.sources.get(request.leader)
    current = source if source is not None and source.asked is request else None
    if request.fetch is None:
        _take_each(desk, request.leader, dict(_asked(request)), {each.where: each for each in answers}, {}, now)
    else:
        _take_fetched(desk, current, request, request.fetch, answers, now)
    if current is not None and current.asked is request:
        current.asked = None


def _take_fetched(
    desk: Desk, current: Source | None, request: Request, fetch: Fetch, answers: Answers, now: int
) -> None:
    """`current`: None if the request was given up. Its answer still counts where it names all that was asked."""
    place = fetch.session
    complete = place is None or place.epoch == 0
    kept, error = (answers.id, answers.error) if isinstance(answers, SessionFetched) else (0, ErrorCode.NONE)
    if error:
        if error in NOT_KEPT and not complete:
            desk.note("session_lost", leader=request.leader, error=error.name)
            if current is not None:
                current.begin_anew()
        else:
            desk.note("fetch_refused", partition="", leader=request.leader, error=error.name)
            failed(desk, request, now)
        return
    if not complete and current is None:
        return  # of a session that was given up
    given = {each.where: each for each in answers}
    sent = {part.where: part for part in fetch.parts} if complete or current is None else current.sent
    # A complete request is answered in full. In a session, a partition without an answer is as it was.
    asked = [(where, sent[where].leader_epoch) for where in (sent if complete else given) if where in sent]
    ends = {where: sent[where].offset for where, _ in asked}
    if current is not None:
        if kept:
            current.id, current.epoch = kept, 1 if complete or current.epoch == EPOCH_MAX else current.epoch + 1
        else:
            current.begin_anew()
    _take_each(desk, request.leader, dict(asked), given, ends, now)


def _take_each(
    desk: Desk,
    leader: BrokerId,
    asked: Mapping[TopicPartition, int],
    given: Mapping[TopicPartition, Fetched | EpochAnswer | OffsetAnswer],
    ends: Mapping[TopicPartition, int],
    now: int,
) -> None:
    """`asked`: the leader epoch of each partition then. `ends`: the end of its log then."""
    for where, epoch in asked.items():
        still = _still(desk, where, leader, epoch)
        if still is None:
            continue
        partition, role = still
        desk.sources[leader].dirty[where] = None
        before = partition.log.end_offset
        answer = given.get(where)
        try:
            match answer:
                case Fetched():
                    if partition.log.end_offset == ends[where]:
                        _on_fetched(desk, partition, role, answer, now)
                case EpochAnswer():
                    _on_epoch(desk, partition, role, answer, now)
                case OffsetAnswer():
                    _on_offset(desk, partition, role, answer, now)
                case None:
                    role.resume_ms = now + desk.settings.fetch_backoff_ms
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                desk.fail(partition, error.text)
            else:
                desk.note("not_appended", partition=str(where), leader=role.leader, why=str(error))
                role.resume_ms = now + desk.settings.fetch_backoff_ms
        except Exception as error:
            role.resume_ms = now + desk.settings.fetch_backoff_ms
            desk.fail_if_grown(where, before, error)


def _went_wrong(desk: Desk, partition: Partition, role: Following, error: ErrorCode, now: int) -> None:
    if error is ErrorCode.FENCED_LEADER_EPOCH:
        role.step = Step.STOP
    elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
        role.step = Step.ASK_LATEST
    else:
        role.resume_ms = now + desk.settings.fetch_backoff_ms
    desk.note("fetch_refused", partition=str(partition.where), leader=role.leader, error=error.name)


def _on_fetched(desk: Desk, partition: Partition, role: Following, answer: Fetched, now: int) -> None:
    if answer.error:
        _went_wrong(desk, partition, role, answer.error, now)
        return
    if answer.diverging is not None:
        _cut(desk, partition, answer.diverging)
        return
    log = partition.log
    if answer.records:
        log.append_as_follower(answer.records)
        desk.wish_flush(partition)
        if partition.where in desk.throttled and not role.in_sync:
            desk.throttle.took(len(answer.records), now)
        source = desk.sources[role.leader].partitions
        source[partition.where] = source.pop(partition.where)  # whoever had something comes last next time
    role.leader_high_watermark = answer.high_watermark
    if answer.start_offset > log.start_offset:
        partition.increment_start_offset(min(answer.start_offset, log.end_offset))
    if partition.follow_watermark(answer.high_watermark):
        desk.committed[partition.where] = None


def _cut(desk: Desk, partition: Partition, leaders: EpochEndOffset) -> bool:
    """Whether it is settled now where the histories part."""
    cut, settled = cut_at(partition.log, leaders)
    _truncate(desk, partition, cut)
    return settled


def _truncate(desk: Desk, partition: Partition, offset: int) -> None:
    if offset < partition.high_watermark:
        # Only when somebody was elected who was not in sync, or a leader has lost what he had.
        desk.note(
            "committed_records_cut", partition=str(partition.where), to=offset, high_watermark=partition.high_watermark
        )
    desk.note("truncated", partition=str(partition.where), to=offset, end=partition.log.end_offset)
    partition.cut(offset)


def _on_epoch(desk: Desk, partition: Partition, role: Following, answer: EpochAnswer, now: int) -> None:
    if answer.error:
        _went_wrong(desk, partition, role, answer.error, now)
    elif answer.end.end_offset == NO_OFFSET:
        # He keeps no epochs. What is committed for sure is all that can be kept.
        _truncate(desk, partition, partition.high_watermark)
        role.step = Step.FETCH
    elif _cut(desk, partition, answer.end):
        role.step = Step.FETCH


def _on_offset(desk: Desk, partition: Partition, role: Following, answer: OffsetAnswer, now: int) -> None:
    log = partition.log
    if answer.error:
        _went_wrong(desk, partition, role, answer.error, now)
    elif role.step is Step.ASK_LATEST:
        if answer.offset < log.end_offset:
            _truncate(desk, partition, max(answer.offset, log.start_offset))
            if answer.offset < log.start_offset:
                partition.start_over(answer.offset)
            role.step = Step.FETCH
        else:
            role.step = Step.ASK_EARLIEST
    elif role.step is Step.ASK_EARLIEST:
        if answer.offset > log.end_offset:
            desk.note("started_over", partition=str(partition.where), at=answer.offset, end=log.end_offset)
            partition.start_over(answer.offset)
        else:
            role.resume_ms = now + desk.settings.fetch_backoff_ms
        role.step = Step.FETCH
