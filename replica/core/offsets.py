"""Answering where things are: offsets by time, and where epochs ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import frozen

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.desk import Desk
from replica.core.errors import ErrorCode, KafkaError
from replica.core.following import end_of
from replica.core.leading import Leading
from replica.core.partition import Partition
from replica.core.partition_log import NO_EPOCH, PartitionLog, TimestampAndOffset
from replica.core.wants import CONSUMER, EpochAnswer, OffsetAnswer

LATEST: Final = -1
EARLIEST: Final = -2
GREATEST: Final = -3
"""The record with the greatest timestamp."""
EARLIEST_LOCAL: Final = -4


@frozen
class Lookup:
    """What begins where in one partition.

    timestamp   or one of the above
    """

    where: TopicPartition
    timestamp: int
    leader_epoch: int = -1

    @property
    def by_time(self) -> bool:
        """Then it has to be searched."""
        return self.timestamp >= 0 or self.timestamp == GREATEST


Search: TypeAlias = Callable[[PartitionLog, int], TimestampAndOffset | None]


def search(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """The first record that is not before this time, or the one of the greatest."""
    return log.greatest_timestamp() if timestamp == GREATEST else log.find_timestamp(timestamp)


def look_up(
    desk: Desk, asked: Lookup, *, replica: BrokerId = CONSUMER, committed: bool = False, search: Search = search
) -> OffsetAnswer:
    try:
        partition = desk.find(asked.where)
        partition.check_epoch(asked.leader_epoch)
        return _look_up(partition, partition.leading(), asked, replica, committed, search)
    except KafkaError as error:
        return OffsetAnswer(asked.where, error.code)


def _look_up(
    partition: Partition, leading: Leading, asked: Lookup, replica: BrokerId, committed: bool, search: Search
) -> OffsetAnswer:
    log, where = partition.log, asked.where
    if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.start_offset
        epoch = log.epoch_for_offset(start) if start < log.end_offset else leading.epoch
        return OffsetAnswer(where, offset=start, leader_epoch=epoch)
    if replica >= 0:
        bound = log.end_offset
    else:
        bound = partition.stable_offset if committed else partition.high_watermark
    # A new leader does not know yet what the one before has committed. To name his own watermark now would be to
    # tell a consumer of an end that lies before what he has read already.
    unsettled = replica == CONSUMER and partition.high_watermark < leading.start_offset
    if asked.timestamp == LATEST:
        if unsettled:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{where}: what is committed is not known yet")
        return OffsetAnswer(where, offset=bound, leader_epoch=leading.epoch)
    if asked.timestamp < GREATEST:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{where}: {asked.timestamp} is no timestamp")
    found = search(log, asked.timestamp)
    if found is not None and found.offset < bound:
        return OffsetAnswer(where, ErrorCode.NONE, found.offset, found.timestamp, found.epoch)
    if unsettled:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{where}: what is committed is not known yet")
    return OffsetAnswer(where)


def epoch_end(desk: Desk, where: TopicPartition, current: int, epoch: int) -> EpochAnswer:
    try:
        partition = desk.find(where)
        partition.check_epoch(current)
        partition.leading()
        if epoch == NO_EPOCH or epoch > partition.log.latest_epoch:
            return EpochAnswer(where)
        return EpochAnswer(where, end=end_of(partition.log, epoch))
    except KafkaError as error:
        return EpochAnswer(where, error.code)
