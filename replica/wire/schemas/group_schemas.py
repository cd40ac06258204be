"""Requests of consumers and administrators to group coordinators. Also FindCoordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import define

from replica.wire.api import ApiKey
from replica.wire.fields import (
    FOREVER,
    Api,
    boolean,
    i8,
    i16,
    i32,
    i32s,
    i64,
    message,
    octets,
    structs,
    text,
    texts,
)
from replica.wire.schemas.cluster_schemas import NOT_ASKED


@define
class FindCoordinatorRequest:
    key: str = text(until=3)
    key_type: int = i8(since=1)
    coordinator_keys: Sequence[str] = texts(since=4)


@define
class Coordinator:
    key: str = text()
    node_id: int = i32()
    host: str = text()
    port: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0)


@define
class FindCoordinatorResponse:
    throttle_time_ms: int = i32(since=1)
    error_code: int = i16(until=3)
    error_message: str | None = message(since=1, until=3, null=0)
    node_id: int = i32(until=3)
    host: str = text(until=3)
    port: int = i32(until=3)
    coordinators: list[Coordinator] = structs(Coordinator, since=4)


FIND_COORDINATOR: Final = Api(
    ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, first=0, last=4, flexible=3
)


@define
class JoinGroupRequestProtocol:
    name: str = text()
    metadata: bytes = octets()


@define
class JoinGroupRequest:
    group_id: str = text()
    session_timeout_ms: int = i32()
    rebalance_timeout_ms: int = i32(since=1, default=-1)
    member_id: str = text()
    group_instance_id: str | None = text(since=5, null=0, default=None)
    protocol_type: str = text()
    protocols: list[JoinGroupRequestProtocol] = structs(JoinGroupRequestProtocol)
    reason: str | None = text(since=8, null=0, default=None)


@define
class JoinGroupResponseMember:
    member_id: str = text()
    group_instance_id: str | None = text(since=5, null=0, default=None)
    metadata: bytes = octets()


@define
class JoinGroupResponse:
    throttle_time_ms: int = i32(since=2)
    error_code: int = i16()
    generation_id: int = i32(default=-1)
    protocol_type: str | None = text(since=7, null=0, default=None)
    protocol_name: str | None = text(null=7)
    leader: str = text()
    skip_assignment: bool = boolean(since=9)
    member_id: str = text()
    members: list[JoinGroupResponseMember] = structs(JoinGroupResponseMember)


JOIN_GROUP: Final = Api(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, first=0, last=9, flexible=6)


@define
class SyncGroupRequestAssignment:
    member_id: str = text()
    assignment: bytes = octets()


@define
class SyncGroupRequest:
    group_id: str = text()
    generation_id: int = i32()
    member_id: str = text()
    group_instance_id: str | None = text(since=3, null=0, default=None)
    protocol_type: str | None = text(since=5, null=0, default=None)
    protocol_name: str | None = text(since=5, null=0, default=None)
    assignments: list[SyncGroupRequestAssignment] = structs(SyncGroupRequestAssignment)


@define
class SyncGroupResponse:
    throttle_time_ms: int = i32(since=1)
    error_code: int = i16()
    protocol_type: str | None = text(since=5, null=0, default=None)
    protocol_name: str | None = text(since=5, null=0, default=None)
    assignment: bytes = octets()


SYNC_GROUP: Final = Api(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse, first=0, last=5, flexible=4)


@define
class HeartbeatRequest:
    group_id: str = text()
    generation_id: int = i32()
    member_id: str = text()
    group_instance_id: str | None = text(since=3, null=0, default=None)


@define
class HeartbeatResponse:
    throttle_time_ms: int = i32(since=1)
    error_code: int = i16()


HEARTBEAT: Final = Api(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse, first=0, last=4, flexible=4)


@define
class MemberIdentity:
    member_id: str = text()
    group_instance_id: str | None = text(null=0, default=None)
    reason: str | None = text(since=5, null=0, default=None)


@define
class LeaveGroupRequest:
    group_id: str = text()
    member_id: str = text(until=2)
    members: list[MemberIdentity] = structs(MemberIdentity, since=3)


@define
class MemberResponse:
    member_id: str = text()
    group_instance_id: str | None = text(null=0)
    error_code: int = i16()


@define
class LeaveGroupResponse:
    throttle_time_ms: int = i32(since=1)
    error_code: int = i16()
    members: list[MemberResponse] = structs(MemberResponse, since=3)


LEAVE_GROUP: Final = Api(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, first=0, last=5, flexible=4)


@define
class OffsetCommitRequestPartition:
    partition_index: int = i32()
    committed_offset: int = i64()
    committed_leader_epoch: int = i32(since=6, default=-1)
    committed_metadata: str | None = text(null=0)


@define
class OffsetCommitRequestTopic:
    name: str = text()
    partitions: list[OffsetCommitRequestPartition] = structs(OffsetCommitRequestPartition)


@define
class OffsetCommitRequest:
    group_id: str = text()
    generation_id: int = i32(default=-1)
    member_id: str = text()
    group_instance_id: str | None = text(since=7, null=0, default=None)
    retention_time_ms: int = i64(until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = structs(OffsetCommitRequestTopic)


@define
class OffsetCommitResponsePartition:
    partition_index: int = i32()
    error_code: int = i16()


@define
class OffsetCommitResponseTopic:
    name: str = text()
    partitions: list[OffsetCommitResponsePartition] = structs(OffsetCommitResponsePartition)


@define
class OffsetCommitResponse:
    throttle_time_ms: int = i32(since=3)
    topics: list[OffsetCommitResponseTopic] = structs(OffsetCommitResponseTopic)


OFFSET_COMMIT: Final = Api(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, first=2, last=8, flexible=8)


@define
class OffsetFetchRequestTopic:
    name: str = text()
    partition_indexes: Sequence[int] = i32s()


@define
class OffsetFetchRequestGroup:
    group_id: str = text()
    topics: list[OffsetFetchRequestTopic] | None = structs(OffsetFetchRequestTopic, null=0)


@define
class OffsetFetchRequest:
    group_id: str = text(until=7)
    topics: list[OffsetFetchRequestTopic] | None = structs(OffsetFetchRequestTopic, until=7, null=2)
    groups: list[OffsetFetchRequestGroup] = structs(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


@define
class OffsetFetchResponsePartition:
    partition_index: int = i32()
    committed_offset: int = i64()
    committed_leader_epoch: int = i32(since=5, default=-1)
    metadata: str | None = text(null=0)
    error_code: int = i16()


@define
class OffsetFetchResponseTopic:
    name: str = text()
    partitions: list[OffsetFetchResponsePartition] = structs(OffsetFetchResponsePartition)


@define
class OffsetFetchResponseGroup:
    group_id: str = text()
    topics: list[OffsetFetchResponseTopic] = structs(OffsetFetchResponseTopic)
    error_code: int = i16()


@define
class OffsetFetchResponse:
    throttle_time_ms: int = i32(since=3)
    topics: list[OffsetFetchResponseTopic] = structs(OffsetFetchResponseTopic, until=7)
    error_code: int = i16(since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = structs(OffsetFetchResponseGroup, since=8)


OFFSET_FETCH: Final = Api(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, first=1, last=8, flexible=6)


@define
class DescribeGroupsRequest:
    groups: Sequence[str] = texts()
    include_authorized_operations: bool = boolean(since=3)


@define
class DescribedGroupMember:
    member_id: str = text()
    group_instance_id: str | None = text(since=4, null=0, default=None)
    client_id: str = text()
    client_host: str = text()
    member_metadata: bytes = octets()
    member_assignment: bytes = octets()


@define
class DescribeGroupsResponseGroup:
    error_code: int = i16()
    group_id: str = text()
    group_state: str = text()
    protocol_type: str = text()
    protocol_data: str = text()
    members: list[DescribedGroupMember] = structs(DescribedGroupMember)
    authorized_operations: int = i32(since=3, default=NOT_ASKED)


@define
class DescribeGroupsResponse:
    throttle_time_ms: int = i32(since=1)
    groups: list[DescribeGroupsResponseGroup] = structs(DescribeGroupsResponseGroup)


DESCRIBE_GROUPS: Final = Api(
    ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse, first=0, last=5, flexible=5
)


@define
class ListGroupsRequest:
    states_filter: Sequence[str] = texts(since=4)
    types_filter: Sequence[str] = texts(since=5)


@define
class ListedGroup:
    group_id: str = text()
    protocol_type: str = text()
    group_state: str = text(since=4)
    group_type: str = text(since=5)


@define
class ListGroupsResponse:
    throttle_time_ms: int = i32(since=1)
    error_code: int = i16()
    groups: list[ListedGroup] = structs(ListedGroup)


LIST_GROUPS: Final = Api(ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse, first=0, last=5, flexible=3)


@define
class DeleteGroupsRequest:
    groups_names: Sequence[str] = texts()


@define
class DeletableGroupResult:
    group_id: str = text()
    error_code: int = i16()


@define
class DeleteGroupsResponse:
    throttle_time_ms: int = i32()
    results: list[DeletableGroupResult] = structs(DeletableGroupResult)


DELETE_GROUPS: Final = Api(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse, first=0, last=2, flexible=2)


@define
class OffsetDeleteRequestPartition:
    partition_index: int = i32()


@define
class OffsetDeleteRequestTopic:
    name: str = text()
    partitions: list[OffsetDeleteRequestPartition] = structs(OffsetDeleteRequestPartition)


@define
class OffsetDeleteRequest:
    group_id: str = text()
    topics: list[OffsetDeleteRequestTopic] = structs(OffsetDeleteRequestTopic)


@define
class OffsetDeleteResponse:
    error_code: int = i16()
    throttle_time_ms: int = i32()
    topics: list[OffsetCommitResponseTopic] = structs(OffsetCommitResponseTopic)


OFFSET_DELETE: Final = Api(
    ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse, first=0, last=0, flexible=FOREVER
)


APIS: Final[tuple[Api[Any, Any], ...]] = (
    FIND_COORDINATOR,
    JOIN_GROUP,
    SYNC_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    DELETE_GROUPS,
    OFFSET_DELETE,
)
