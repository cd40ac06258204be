"""`WriteTxnMarkers` and `DescribeProducers`: write transaction markers, and describe the producers of partitions.

A marker is acknowledged when it is committed. A repeated marker is appended again without an effect on transactions, so
a coordinator may repeat a request whose response was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import trio

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.partition_log import ActiveProducer
from replica.core.transactions.marker_writes import MarkerWrites, OffsetsEnded
from replica.runtime.requests import Handlers, Request, Turns, handler_table, handles
from replica.wire.records import ControlType, control_batch
from replica.wire.schemas.transaction_schemas import (
    DESCRIBE_PRODUCERS,
    WRITE_TXN_MARKERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TIMEOUT_MS: Final = 30_000
"""The time limit for the replication of a marker."""


class MarkerLog(Protocol):
    """The part of the replica manager that marker requests use."""

    def append(
        self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[ErrorCode, int], None]
    ) -> None:
        """Append with acks=all. `done` is called exactly once, perhaps before this returns."""

    def active_producers(self, where: TopicPartition) -> tuple[ActiveProducer, ...]:
        """Return the producers of a partition. Raises `KafkaError` if this broker does not lead it."""


def handlers(storage: MarkerLog, now: Callable[[], int], offsets_ended: OffsetsEnded) -> Handlers:
    """Return the handlers. `now` returns the wall clock in milliseconds."""

    async def write(request: Request[WriteTxnMarkersRequest]) -> WriteTxnMarkersResponse:
        markers = request.body.markers
        places = [(marker, where) for marker in markers for where in _named(marker.topics)]
        complete = trio.Event()
        writes = MarkerWrites(len(places), offsets_ended, complete.set)
        turns = Turns()
        for place, (marker, where) in enumerate(places):
            await turns.step()
            _write(marker, where, writes, place)
        if places:
            await complete.wait()
        results = iter([writes.outcomes[place] for place in range(len(places))])
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=number, error_code=next(results))
                                for number in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in markers
            ]
        )

    def _write(marker: WritableTxnMarker, where: TopicPartition, writes: MarkerWrites, place: int) -> None:
        producer_id, committed = marker.producer_id, marker.transaction_result

        def done(error: ErrorCode, offset: int) -> None:
            writes.written(place, where, producer_id, committed, error, offset)

        kind = ControlType.COMMIT if committed else ControlType.ABORT
        batch = control_batch(kind, producer_id, marker.producer_epoch, marker.coordinator_epoch, now())
        storage.append(where, batch, TIMEOUT_MS, done)

    async def describe(request: Request[DescribeProducersRequest]) -> DescribeProducersResponse:
        """Describe each partition once, even if the request repeats it: a partition may have thousands of producers."""
        wanted: dict[str, dict[int, None]] = {}
        for where in _named(request.body.topics):
            wanted.setdefault(where.topic, {})[where.partition] = None
        answered, turns = [], Turns()
        for topic, numbers in wanted.items():
            parts = []
            for number in numbers:
                await turns.step()
                parts.append(_described(storage, TopicPartition(topic, number)))
            answered.append(TopicResponse(name=topic, partitions=parts))
        return DescribeProducersResponse(topics=answered)

    return handler_table(handles(WRITE_TXN_MARKERS, write), handles(DESCRIBE_PRODUCERS, describe))


def _named(topics: list[WritableTxnMarkerTopic] | list[TopicRequest]) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.name, number) for topic in topics for number in topic.partition_indexes)


def _described(storage: MarkerLog, where: TopicPartition) -> PartitionResponse:
    try:
        found = storage.active_producers(where)
    except KafkaError as error:
        return PartitionResponse(
            partition_index=where.partition, error_code=error.code, error_message=error.text or None
        )
    return PartitionResponse(
        partition_index=where.partition,
        active_producers=[
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.txn_start,
            )
            for each in found
        ],
    )
