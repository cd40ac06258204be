"""Translates requests of the `TransactionMarkerManager` to Kafka's WriteTxnMarkers, and the responses back."""

from __future__ import annotations

from collections.abc import Iterator

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, error_of
from replica.core.transactions.transaction_effects import Marker, MarkerId
from replica.core.transactions.transaction_marker_manager import MarkerKey, MarkerRequest
from replica.wire.schemas.transaction_schemas import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def request_body(request: MarkerRequest) -> WriteTxnMarkersRequest:
    found: dict[MarkerId, tuple[Marker, dict[str, list[int]]]] = {}
    for (_, where), marker in request.markers.items():
        _, topics = found.setdefault(marker.number, (marker, {}))
        topics.setdefault(where.topic, []).append(where.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer,
                producer_epoch=marker.epoch,
                transaction_result=marker.commit,
                topics=[WritableTxnMarkerTopic(name=name, partition_indexes=each) for name, each in topics.items()],
                coordinator_epoch=marker.coordinator_epoch,
            )
            for marker, topics in found.values()
        ]
    )


def answers_in(response: WriteTxnMarkersResponse) -> Iterator[tuple[MarkerKey, ErrorCode]]:
    for marker in response.markers:
        for topic in marker.topics:
            for part in topic.partitions:
                where = TopicPartition(topic.name, part.partition_index)
                yield (marker.producer_id, where), error_of(part.error_code)
