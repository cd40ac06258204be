"""The requests that clients of brokers send, one function each, and the decoding of their replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import trio

from harness.checkers.transactions import Seen
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable, raise_for
from replica.wire.batch import walk
from replica.wire.records import read_records
from replica.wire.schemas import data_schemas
from replica.wire.schemas.group_schemas import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)

REQUEST_ERRORS: Final = (KafkaError, Unreachable, WireError)
"""The exceptions of requests: a broker refuses the request, cannot be reached, or sends a malformed reply."""
PAUSE_S: Final = 0.05
PAUSE_MAX_S: Final = 0.5
EARLIEST: Final = -2
LATEST: Final = -1
"""Timestamps of ListOffsets for the start of the log, and for the end of its committed part."""
UNCOMMITTED: Final = 0
COMMITTED_ONLY: Final = 1
OFFSETS_VERSION: Final = 7
"""The first version of OffsetFetch that can ask for a position which no open transaction may change."""
FETCH_WAIT_MS: Final = 100
T = TypeVar("T")


async def until_success(act: Callable[[], Awaitable[T]], pause_s: float = PAUSE_S) -> T:
    """Repeat the request until it succeeds."""
    while True:
        try:
            return await act()
        except REQUEST_ERRORS:
            await trio.sleep(pause_s)


async def leader_of(client: Client, where: TopicPartition) -> int:
    leaders = await client.leaders([where.topic])
    if where not in leaders:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{where} has no leader")
    return leaders[where]


async def produce(
    client: Client, leader: int, where: TopicPartition, batch: bytes, acks: int, name: str | None = None
) -> data_schemas.PartitionProduceResponse:
    """Send a batch to the leader of a partition. `name` is the transactional id, if any."""
    body = data_schemas.ProduceRequest(
        transactional_id=name,
        acks=acks,
        timeout_ms=int(client.settings.request_s * 500),
        topic_data=[
            data_schemas.TopicProduceData(where.topic, [data_schemas.PartitionProduceData(where.partition, batch)])
        ],
    )
    reply = await client.ask_broker(leader, data_schemas.PRODUCE, body)
    return reply.responses[0].partition_responses[0]


async def fetch(
    client: Client, leader: int, where: TopicPartition, position: int, bytes_max: int, isolation: int = UNCOMMITTED
) -> data_schemas.PartitionData:
    part = data_schemas.FetchRequestPartition(
        partition=where.partition, fetch_offset=position, partition_max_bytes=bytes_max
    )
    body = data_schemas.FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        isolation_level=isolation,
        topics=[data_schemas.FetchTopic(topic=where.topic, partitions=[part])],
    )
    reply = await client.ask_broker(leader, data_schemas.FETCH, body)
    raise_for(reply.error_code, str(where))
    answer = reply.responses[0].partitions[0]
    raise_for(answer.error_code, str(where))
    return answer


def records_in(
    data: bytes, position: int, aborted: Iterable[data_schemas.AbortedTransaction] = ()
) -> tuple[list[Seen], int]:
    """Return the records from `position` on, and the next position. The first batch may begin before `position`.

    Records of aborted transactions are skipped as clients do: all records of a producer from the first offset of an
    aborted transaction to the next control record.
    """
    waiting = deque(sorted((each.first_offset, each.producer_id) for each in aborted))
    out: set[int] = set()
    found: list[Seen] = []
    following = position
    for at, header in walk(data):
        following = max(following, header.next_offset)
        while waiting and waiting[0][0] <= header.last_offset:
            out.add(waiting.popleft()[1])
        if header.control:
            out.discard(header.producer_id)
        elif header.producer_id not in out:
            found += [
                Seen(record.offset, (record.value or b"").decode(errors="backslashreplace"))
                for record in read_records(data, at)
                if record.offset >= position
            ]
    return found, following


async def offset_of(client: Client, where: TopicPartition, which: int, isolation: int = UNCOMMITTED) -> int:
    """Return the start or the end of a partition. `which` is EARLIEST or LATEST."""
    leader = await leader_of(client, where)
    part = data_schemas.ListOffsetsPartition(partition_index=where.partition, timestamp=which)
    body = data_schemas.ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[data_schemas.ListOffsetsTopic(where.topic, [part])]
    )
    reply = await client.ask_broker(leader, data_schemas.LIST_OFFSETS, body)
    answer = reply.topics[0].partitions[0]
    raise_for(answer.error_code, str(where))
    return answer.offset


async def position_of(client: Client, group: str, where: TopicPartition, *, stable: bool = False) -> int:
    """Return the committed offset of a group. `stable`: fail if an open transaction may change it."""
    topics = [OffsetFetchRequestTopic(name=where.topic, partition_indexes=[where.partition])]
    body = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
    reply = await client.ask_broker(await client.coordinator(group), OFFSET_FETCH, body, OFFSETS_VERSION)
    raise_for(reply.error_code, f"{group} in {where}")
    part = reply.topics[0].partitions[0]
    raise_for(part.error_code, f"{group} in {where}")
    return part.committed_offset


async def delete_records(client: Client, where: TopicPartition, upto: int) -> int:
    """Delete the records below `upto`; return the error code of the reply."""
    leader = await leader_of(client, where)
    parts = [data_schemas.DeleteRecordsPartition(partition_index=where.partition, offset=upto)]
    body = data_schemas.DeleteRecordsRequest(
        topics=[data_schemas.DeleteRecordsTopic(name=where.topic, partitions=parts)], timeout_ms=1_000
    )
    reply = await client.ask_broker(leader, data_schemas.DELETE_RECORDS, body)
    return int(reply.topics[0].partitions[0].error_code)
