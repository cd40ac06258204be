"""Leader elections and partition reassignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import define

from replica.wire.api import ApiKey
from replica.wire.fields import (
    Api,
    i8,
    i16,
    i32,
    i32s,
    message,
    structs,
    text,
)


@define
class TopicPartitions:
    topic: str = text()
    partitions: Sequence[int] = i32s()


@define
class ElectLeadersRequest:
    election_type: int = i8(since=1)
    topic_partitions: list[TopicPartitions] | None = structs(TopicPartitions, null=0)
    timeout_ms: int = i32(default=60000)


@define
class PartitionResult:
    partition_id: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0)


@define
class ReplicaElectionResult:
    topic: str = text()
    partition_result: list[PartitionResult] = structs(PartitionResult)


@define
class ElectLeadersResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16(since=1)
    replica_election_results: list[ReplicaElectionResult] = structs(ReplicaElectionResult)


ELECT_LEADERS: Final = Api(ApiKey.ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse, first=0, last=2, flexible=2)


@define
class ReassignablePartition:
    partition_index: int = i32()
    replicas: Sequence[int] | None = i32s(null=0, default=None)


@define
class ReassignableTopic:
    name: str = text()
    partitions: list[ReassignablePartition] = structs(ReassignablePartition)


@define
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = i32(default=60000)
    topics: list[ReassignableTopic] = structs(ReassignableTopic)


@define
class ReassignablePartitionResponse:
    partition_index: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0)


@define
class ReassignableTopicResponse:
    name: str = text()
    partitions: list[ReassignablePartitionResponse] = structs(ReassignablePartitionResponse)


@define
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0)
    responses: list[ReassignableTopicResponse] = structs(ReassignableTopicResponse)


ALTER_PARTITION_REASSIGNMENTS: Final = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    first=0,
    last=0,
    flexible=0,
)


@define
class ListPartitionReassignmentsTopics:
    name: str = text()
    partition_indexes: Sequence[int] = i32s()


@define
class ListPartitionReassignmentsRequest:
    timeout_ms: int = i32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = structs(
        ListPartitionReassignmentsTopics, null=0, default=None
    )


@define
class OngoingPartitionReassignment:
    partition_index: int = i32()
    replicas: Sequence[int] = i32s()
    adding_replicas: Sequence[int] = i32s()
    removing_replicas: Sequence[int] = i32s()


@define
class OngoingTopicReassignment:
    name: str = text()
    partitions: list[OngoingPartitionReassignment] = structs(OngoingPartitionReassignment)


@define
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0)
    topics: list[OngoingTopicReassignment] = structs(OngoingTopicReassignment)


LIST_PARTITION_REASSIGNMENTS: Final = Api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    first=0,
    last=0,
    flexible=0,
)


APIS: Final[tuple[Api[Any, Any], ...]] = (
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
)
