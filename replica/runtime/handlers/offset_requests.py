"""`ListOffsets`, `OffsetForLeaderEpoch` and `DeleteRecords`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from attrs import evolve

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.partitions.offset_lookup import Lookup
from replica.core.replica_messages import CONSUMER, Deleted
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime
from replica.runtime.requests import Handlers, Request, Turns, handler_table, handles
from replica.wire.schemas.data_schemas import (
    DELETE_RECORDS,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)

NOT_AVAILABLE_SINCE: Final = 5
READ_COMMITTED: Final = 1
_NOWHERE: Final = ListOffsetsPartitionResponse(
    error_code=ErrorCode.INVALID_REQUEST, timestamp=-1, offset=-1, leader_epoch=-1
)
"""The result for a partition that the request repeats."""


def handlers(
    replicas: ReplicaManagerRuntime, inter_broker: str, deletes: Callable[[str], bool] = lambda topic: True
) -> Handlers:
    """Return the handlers. `deletes` returns whether DeleteRecords is allowed for a topic: only with `delete` in its
    `cleanup.policy`."""

    def replica_of(request: Request[ListOffsetsRequest]) -> BrokerId:
        """Return the replica id that a request names at the inter-broker listener. Any other request counts as a
        consumer's."""
        replica = request.body.replica_id
        return BrokerId(replica) if replica >= 0 and request.listener == inter_broker else CONSUMER

    async def list_offsets(request: Request[ListOffsetsRequest]) -> ListOffsetsResponse:
        replica, committed = replica_of(request), request.body.isolation_level == READ_COMMITTED
        answered, turns = [], Turns()
        named = Counter(_named(request.body.topics))
        for topic in request.body.topics:
            parts = []
            for part in topic.partitions:
                await turns.step()
                where = TopicPartition(topic.name, part.partition_index)
                if named[where] > 1:  # a lookup of a timestamp may decompress a whole batch
                    parts.append(evolve(_NOWHERE, partition_index=where.partition))
                    continue
                lookup = Lookup(where, part.timestamp, part.current_leader_epoch)
                found = await replicas.look_up(lookup, replica=replica, committed=committed)
                error = found.error
                if error is ErrorCode.OFFSET_NOT_AVAILABLE and request.version < NOT_AVAILABLE_SINCE:
                    error = ErrorCode.LEADER_NOT_AVAILABLE
                parts.append(
                    ListOffsetsPartitionResponse(
                        partition_index=where.partition,
                        error_code=error,
                        timestamp=found.timestamp,
                        offset=found.offset,
                        leader_epoch=found.leader_epoch,
                    )
                )
            answered.append(ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return ListOffsetsResponse(topics=answered)

    async def epoch_ends(request: Request[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
        answered, turns = [], Turns()
        for topic in request.body.topics:
            parts = []
            for part in topic.partitions:
                await turns.step()
                where = TopicPartition(topic.topic, part.partition)
                found = replicas.epoch_end(where, part.current_leader_epoch, part.leader_epoch)
                parts.append(
                    OffsetForLeaderPartitionResult(
                        error_code=found.error,
                        partition=where.partition,
                        leader_epoch=found.end.epoch,
                        end_offset=found.end.end_offset,
                    )
                )
            answered.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts))
        return OffsetForLeaderEpochResponse(topics=answered)

    async def delete_records(request: Request[DeleteRecordsRequest]) -> DeleteRecordsResponse:
        topics = request.body.topics
        entries = [
            (TopicPartition(topic.name, part.partition_index), part.offset)
            for topic in topics
            for part in topic.partitions
        ]
        allowed = [entry for entry in entries if deletes(entry[0].topic)]
        made = {each.where: each for each in await replicas.delete_records(request.body.timeout_ms, allowed)}
        done = iter([made.get(where) or Deleted(where, ErrorCode.POLICY_VIOLATION) for where, _ in entries])
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[
                        DeleteRecordsPartitionResult(
                            partition_index=result.where.partition,
                            low_watermark=result.low_watermark if not result.error else -1,
                            error_code=result.error,
                        )
                        for result in (next(done) for _ in topic.partitions)
                    ],
                )
                for topic in topics
            ],
        )

    return handler_table(
        handles(LIST_OFFSETS, list_offsets),
        handles(OFFSET_FOR_LEADER_EPOCH, epoch_ends),
        handles(DELETE_RECORDS, delete_records),
    )


def _named(topics: list[ListOffsetsTopic]) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.name, part.partition_index) for topic in topics for part in topic.partitions)
