"""Writing as a leader, and when whoever writes is told that it is done.

acks = 0     he is not told at all
acks = 1     when it is written here
acks = all   when it is committed: with everybody in sync, and those are `min.insync.replicas` at least
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kraft_controller.core.names import TopicPartition
from replica.core import upkeep
from replica.core.desk import Desk
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partition import Partition
from replica.core.partition_log import ExaminedBatch
from replica.core.purgatory import Line, Parked
from replica.core.wants import Deleted, Produced

ALL: Final = -1


def produce(
    desk: Desk,
    token: int,
    acks: int,
    timeout_ms: int,
    entries: Sequence[tuple[TopicPartition, bytes | ExaminedBatch]],
    now: int,
    *,
    origin: int = 0,
    clock: int | None = None,
) -> list[Produced] | None:
    """None: it is parked. Each partition has its own result, in the order of the entries."""
    clock = now if clock is None else clock
    if acks not in (-1, 0, 1):
        text = f"acks is -1, 0 or 1, not {acks}"
        return [Produced(where, ErrorCode.INVALID_REQUIRED_ACKS, text) for where, _ in entries]
    if acks and len(desk.purgatory) >= desk.settings.parked_max:
        text = f"{desk.settings.parked_max} requests wait already; nothing was written"
        return [Produced(where, ErrorCode.REQUEST_TIMED_OUT, text) for where, _ in entries]
    results: list[Produced] = []
    awaited: dict[int, tuple[TopicPartition, Line]] = {}
    offsets: dict[int, int] = {}
    for place, (where, records) in enumerate(entries):
        partition, before = None, 0
        try:
            partition = desk.find(where)
            before = partition.log.end_offset
            result, wanted = _append(desk, partition, acks, records, now, clock, origin)
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and partition is not None:
                desk.fail(partition, error.text)
            results.append(Produced(where, error.code, error.text))
            continue
        except Exception as error:
            desk.fail_if_grown(where, before, error)
            results.append(Produced(where, ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed; its log says how"))
            continue
        results.append(result)
        if acks == ALL and partition.high_watermark < wanted:
            awaited[place], offsets[place] = (where, Line.COMMITTED), wanted
        elif acks == 1 and desk.settings.sync_writes and partition.durable < wanted:
            awaited[place], offsets[place] = (where, Line.DURABLE), wanted
    if not awaited:
        return results
    desk.purgatory.park(Parked(token, now + max(timeout_ms, 0), results, awaited), offsets)
    return None


def _append(
    desk: Desk, partition: Partition, acks: int, records: bytes | ExaminedBatch, now: int, clock: int, origin: int
) -> tuple[Produced, int]:
    where, log = partition.where, partition.log
    leading = partition.leading()
    if acks == ALL and not partition.enough_in_sync:
        isr = list(leading.isr.members)
        text = f"only {isr} are in sync, and {partition.min_insync} have to be; nothing was written"
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, text)
    done = log.append_as_leader(records, leading.epoch, clock, origin=origin)
    if not done.duplicate:
        desk.appended[where] = None
        if leading.followers:
            desk.behind[where] = None
        desk.wish_flush(partition)
        upkeep.advance(desk, partition, now)
    made = Produced(where, ErrorCode.NONE, "", done.first, done.append_time, log.start_offset)
    return made, done.last + 1


def flushed(desk: Desk, where: TopicPartition, cuts: int, upto: int, now: int) -> None:
    """Where writes have to be on the disk, they count from here on: as our own, or as what a follower has."""
    partition = desk.partitions.get(where)
    if partition is None or partition.cuts != cuts or upto <= partition.durable:
        return
    partition.durable = min(upto, partition.log.end_offset)
    desk.purgatory.reached(where, Line.DURABLE, partition.durable)
    if partition.leader == desk.me:
        upkeep.advance(desk, partition, now)
    else:
        desk.leaders[partition.leader] = None
    if partition.durable < partition.log.end_offset:
        desk.wish_flush(partition)


def delete_records(
    desk: Desk, token: int, timeout_ms: int, entries: Iterable[tuple[TopicPartition, int]], now: int
) -> list[Deleted] | None:
    """What is before each offset (-1: the high watermark) goes; done when no living replica has it any more."""
    results: list[Deleted] = []
    awaited: dict[int, tuple[TopicPartition, Line]] = {}
    offsets: dict[int, int] = {}
    for place, (where, asked) in enumerate(entries):
        try:
            partition = desk.find(where)
            leading = partition.leading()
            offset = partition.high_watermark if asked == -1 else asked
            if not 0 <= offset <= partition.high_watermark:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{where}: {partition.high_watermark} are committed")
            if offset > partition.log.start_offset:
                partition.increment_start_offset(offset)
                desk.changed[where] = None
        except KafkaError as error:
            results.append(Deleted(where, error.code))
            continue
        least = leading.least_start(partition.log.start_offset, desk.live)
        results.append(Deleted(where, low_watermark=least))
        if least < offset:
            awaited[place], offsets[place] = (where, Line.DELETED), offset
    if not awaited:
        return results
    desk.purgatory.park(Parked(token, now + max(timeout_ms, 0), results, awaited), offsets)
    return None
