"""`WriteTxnMarkers` and `DescribeProducers`: how a coordinator has leaders write the ends of its transactions, and who
has written to a partition.

An end is acknowledged when it is committed. Said once more it is written once more, and ends nothing; so who did not
hear the answer may ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias

import trio
from attrs import define, field

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partition_log import ActiveProducer
from replica.runtime.requests import ApiKey, Handlers, Request, Turns
from replica.wire.records import ControlType, control_batch
from replica.wire.schemas.transactions import (
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
"""So long followers are waited for, as for any request between brokers."""

Ended: TypeAlias = Callable[[TopicPartition, int, bool, int], None]
"""The transaction of this producer has ended in that partition, whether by a commit, by the record at that offset, and
that is committed. Told at least once for each end, and perhaps again."""


class Storage(Protocol):
    """What is asked of the replica manager."""

    def append(
        self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[ErrorCode, int], None]
    ) -> None:
        """With acks = all. `done` is called once, at once or later."""

    def active_producers(self, where: TopicPartition) -> tuple[ActiveProducer, ...]:
        """Of a partition that is led here; else it raises."""


@define(eq=False)
class _Ends:
    """Those of one request, and what became of them."""

    left: int
    results: dict[int, ErrorCode] = field(factory=dict)
    complete: trio.Event = field(factory=trio.Event)

    def settle(self, place: int, error: ErrorCode) -> None:
        self.results[place] = error
        self.left -= 1
        if not self.left:
            self.complete.set()


def handlers(storage: Storage, now: Callable[[], int], ended: Ended) -> Handlers:
    """`now`: by the wall clock."""

    async def write(request: Request[WriteTxnMarkersRequest]) -> WriteTxnMarkersResponse:
        markers = request.body.markers
        places = [(marker, where) for marker in markers for where in _named(marker.topics)]
        ends = _Ends(len(places))
        turns = Turns()
        for place, (marker, where) in enumerate(places):
            await turns.step()
            _write(marker, where, ends, place)
        if places:
            await ends.complete.wait()
        results = iter([ends.results[place] for place in range(len(places))])
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

    def _write(marker: WritableTxnMarker, where: TopicPartition, ends: _Ends, place: int) -> None:
        producer_id, committed = marker.producer_id, marker.transaction_result

        def done(error: ErrorCode, offset: int) -> None:
            """Also when who asked has gone: what is written is written."""
            if not error:
                ended(where, producer_id, committed, offset)
            ends.settle(place, error)

        kind = ControlType.COMMIT if committed else ControlType.ABORT
        batch = control_batch(kind, producer_id, marker.producer_epoch, marker.coordinator_epoch, now())
        storage.append(where, batch, TIMEOUT_MS, done)

    async def describe(request: Request[DescribeProducersRequest]) -> DescribeProducersResponse:
        """Each partition once, however often it is named: it may have thousands of producers."""
        asked: dict[str, dict[int, None]] = {}
        for where in _named(request.body.topics):
            asked.setdefault(where.topic, {})[where.partition] = None
        answered, turns = [], Turns()
        for topic, numbers in asked.items():
            parts = []
            for number in numbers:
                await turns.step()
                parts.append(_described(storage, TopicPartition(topic, number)))
            answered.append(TopicResponse(name=topic, partitions=parts))
        return DescribeProducersResponse(topics=answered)

    return {ApiKey.WRITE_TXN_MARKERS: write, ApiKey.DESCRIBE_PRODUCERS: describe}


def _named(topics: list[WritableTxnMarkerTopic] | list[TopicRequest]) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.name, number) for topic in topics for number in topic.partition_indexes)


def _described(storage: Storage, where: TopicPartition) -> PartitionResponse:
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
