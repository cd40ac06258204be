"""Following: what is asked of each leader, and what is made of his answers.

One request at a time is on its way to a leader. It names every partition that is to be fetched from him, at the end of
its log; an answer counts only while the partition still follows in the same leader epoch and its log still ends there.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.desk import Desk, Source
from replica.core.errors import ErrorCode, KafkaError
from replica.core.following import Following, Step, cut_at, last_epoch
from replica.core.log import NO_EPOCH, NO_OFFSET, EpochEnd
from replica.core.partition import Partition
from replica.core.wants import EpochAnswer, EpochAsk, Fetch, Fetched, OffsetAnswer, OffsetAsk, Request, Wanted


def begin(desk: Desk, partition: Partition, following: Following) -> None:
    if not desk.settings.fetch_diverges and last_epoch(partition.log) != NO_EPOCH:
        following.step = Step.ASK_EPOCH
    desk.sources.setdefault(following.leader, Source()).partitions[partition.where] = None
    desk.leaders[following.leader] = None


def _when(desk: Desk, partition: Partition, role: Following, now: int) -> int | None:
    """From when on he may be asked about this one; None: something has to happen before."""
    if role.step is Step.STOP:
        return None
    if desk.settings.sync_writes and partition.durable < partition.log.end_offset:
        return None  # to ask for what is next is to say that all before it is kept
    if partition.where in desk.throttled and not role.in_sync:
        return max(role.resume_ms, desk.throttle.open_at(now))
    return role.resume_ms


def _due(desk: Desk, leader: BrokerId, now: int) -> list[tuple[Partition, Following]]:
    source = desk.sources.get(leader)
    found = []
    for where in source.partitions if source is not None else ():
        partition = desk.partitions[where]
        role = partition.role
        assert isinstance(role, Following)
        if desk.settings.sync_writes and partition.durable < partition.log.end_offset:
            return []  # it is a matter of milliseconds, and a request without this one may wait for much longer
        when = _when(desk, partition, role, now)
        if when is not None and when <= now:
            found.append((partition, role))
    return found


def next_request(desk: Desk, leader: BrokerId, broker_epoch: BrokerEpoch, now: int) -> Request | None:
    """None: there is nothing to ask him now; see `resume_at`."""
    due = _due(desk, leader, now)
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
    settings = desk.settings
    parts = tuple(
        Wanted(
            partition.where,
            partition.log.end_offset,
            settings.partition_bytes_max,
            role.epoch,
            last_epoch(partition.log) if settings.fetch_diverges else NO_EPOCH,
            partition.log.start_offset,
        )
        for partition, role in due
    )
    if not parts:
        return None
    fetch = Fetch(parts, desk.me, broker_epoch, settings.fetch_wait_ms, 1, settings.fetch_bytes_max)
    return Request(leader, fetch)


def resume_at(desk: Desk, leader: BrokerId, now: int) -> int | None:
    """When there may be something to ask him, if nothing else happens before."""
    source = desk.sources.get(leader)
    times = []
    for where in source.partitions if source is not None else ():
        partition = desk.partitions[where]
        if isinstance(partition.role, Following):
            times.append(_when(desk, partition, partition.role, now))
    return min((time for time in times if time is not None), default=None)


def failed(desk: Desk, request: Request, now: int) -> None:
    """There came no answer."""
    for where, epoch in _asked(request):
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


def answered(desk: Desk, request: Request, answers: Sequence[Fetched | EpochAnswer | OffsetAnswer], now: int) -> None:
    given = {answer.where: answer for answer in answers}
    ends = {part.where: part.offset for part in request.fetch.parts} if request.fetch is not None else {}
    for where, epoch in _asked(request):
        still = _still(desk, where, request.leader, epoch)
        if still is None:
            continue
        partition, role = still
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
        partition.move_start(min(answer.start_offset, log.end_offset))
    if partition.follow_watermark(answer.high_watermark):
        desk.committed[partition.where] = None


def _cut(desk: Desk, partition: Partition, leaders: EpochEnd) -> bool:
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
