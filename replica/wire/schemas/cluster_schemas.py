"""ApiVersions, Metadata, DescribeCluster and SASL authentication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import define

from kraft_controller.core.names import TopicId
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
    uuid,
)

NOT_ASKED: Final = -(2**31)
"""The value of authorized operations that a response does not report, usually because they were not requested."""


@define
class ApiVersionsRequest:
    client_software_name: str = text(since=3)
    client_software_version: str = text(since=3)


@define
class ApiVersion:
    api_key: int = i16()
    min_version: int = i16()
    max_version: int = i16()


@define
class SupportedFeatureKey:
    name: str = text()
    min_version: int = i16()
    max_version: int = i16()


@define
class FinalizedFeatureKey:
    name: str = text()
    max_version_level: int = i16()
    min_version_level: int = i16()


@define
class ApiVersionsResponse:
    error_code: int = i16()
    api_keys: list[ApiVersion] = structs(ApiVersion)
    throttle_time_ms: int = i32(since=1)
    supported_features: list[SupportedFeatureKey] = structs(SupportedFeatureKey, since=3, tag=0)
    finalized_features_epoch: int = i64(since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = structs(FinalizedFeatureKey, since=3, tag=2)
    zk_migration_ready: bool = boolean(since=3, tag=3)


API_VERSIONS: Final = Api(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, first=0, last=4, flexible=3)


@define
class MetadataRequestTopic:
    topic_id: TopicId | None = uuid(since=10)
    name: str | None = text(null=10)


@define
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = structs(MetadataRequestTopic, null=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


@define
class MetadataResponseBroker:
    node_id: int = i32()
    host: str = text()
    port: int = i32()
    rack: str | None = text(since=1, null=0, default=None)


@define
class MetadataResponsePartition:
    error_code: int = i16()
    partition_index: int = i32()
    leader_id: int = i32()
    leader_epoch: int = i32(since=7, default=-1)
    replica_nodes: Sequence[int] = i32s()
    isr_nodes: Sequence[int] = i32s()
    offline_replicas: Sequence[int] = i32s(since=5)


@define
class MetadataResponseTopic:
    error_code: int = i16()
    name: str | None = text(null=12)
    topic_id: TopicId | None = uuid(since=10)
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataResponsePartition] = structs(MetadataResponsePartition)
    topic_authorized_operations: int = i32(since=8, default=NOT_ASKED)


@define
class MetadataResponse:
    throttle_time_ms: int = i32(since=3)
    brokers: list[MetadataResponseBroker] = structs(MetadataResponseBroker)
    cluster_id: str | None = text(since=2, null=0, default=None)
    controller_id: int = i32(since=1, default=-1)
    topics: list[MetadataResponseTopic] = structs(MetadataResponseTopic)
    cluster_authorized_operations: int = i32(since=8, until=10, default=NOT_ASKED)


METADATA: Final = Api(ApiKey.METADATA, MetadataRequest, MetadataResponse, first=0, last=12, flexible=9)


@define
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = i8(since=1, default=1)


@define
class DescribeClusterBroker:
    broker_id: int = i32()
    host: str = text()
    port: int = i32()
    rack: str | None = text(null=0, default=None)


@define
class DescribeClusterResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16()
    error_message: str | None = message(null=0, default=None)
    endpoint_type: int = i8(since=1, default=1)
    cluster_id: str = text()
    controller_id: int = i32(default=-1)
    brokers: list[DescribeClusterBroker] = structs(DescribeClusterBroker)
    cluster_authorized_operations: int = i32(default=NOT_ASKED)


DESCRIBE_CLUSTER: Final = Api(
    ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse, first=0, last=1, flexible=0
)


@define
class SaslHandshakeRequest:
    mechanism: str = text()


@define
class SaslHandshakeResponse:
    error_code: int = i16()
    mechanisms: Sequence[str] = texts()


SASL_HANDSHAKE: Final = Api(
    ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse, first=0, last=1, flexible=FOREVER
)


@define
class SaslAuthenticateRequest:
    auth_bytes: bytes = octets()


@define
class SaslAuthenticateResponse:
    error_code: int = i16()
    error_message: str | None = message(null=0)
    auth_bytes: bytes = octets()
    session_lifetime_ms: int = i64(since=1)


SASL_AUTHENTICATE: Final = Api(
    ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest, SaslAuthenticateResponse, first=0, last=2, flexible=2
)


APIS: Final[tuple[Api[Any, Any], ...]] = (
    API_VERSIONS,
    METADATA,
    DESCRIBE_CLUSTER,
    SASL_HANDSHAKE,
    SASL_AUTHENTICATE,
)
