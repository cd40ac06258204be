"""Topics (CreateTopics, CreatePartitions and DeleteTopics), configurations, and log directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import define

from kraft_controller.core.names import TopicId
from replica.wire.api import ApiKey
from replica.wire.fields import (
    Api,
    boolean,
    i8,
    i16,
    i32,
    i32s,
    i64,
    message,
    structs,
    text,
    texts,
    uuid,
)


@define
class CreatableReplicaAssignment:
    partition_index: int = i32()
    broker_ids: Sequence[int] = i32s()


@define
class CreatableTopicConfig:
    name: str = text()
    value: str | None = text(null=0)


@define
class CreatableTopic:
    name: str = text()
    num_partitions: int = i32()
    replication_factor: int = i16()
    assignments: list[CreatableReplicaAssignment] = structs(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = structs(CreatableTopicConfig)


@define
class CreateTopicsRequest:
    topics: list[CreatableTopic] = structs(CreatableTopic)
    timeout_ms: int = i32(default=60000)
    validate_only: bool = boolean()


@define
class CreatableTopicConfigs:
    name: str = text()
    value: str | None = text(null=0)
    read_only: bool = boolean()
    config_source: int = i8(default=-1)
    is_sensitive: bool = boolean()


@define
class CreatableTopicResult:
    name: str = text()
    topic_id: TopicId | None = uuid(since=7)
    error_code: int = i16()
    error_message: str | None = message(null=0)
    topic_config_error_code: int = i16(since=5, tag=0)
    num_partitions: int = i32(since=5, default=-1)
    replication_factor: int = i16(since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = structs(CreatableTopicConfigs, since=5, null=0)


@define
class CreateTopicsResponse:
    throttle_time_ms: int = i32()
    topics: list[CreatableTopicResult] = structs(CreatableTopicResult)


CREATE_TOPICS: Final = Api(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse, first=2, last=7, flexible=5)


@define
class DeleteTopicState:
    name: str | None = text(null=0, default=None)
    topic_id: TopicId | None = uuid()


@define
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = structs(DeleteTopicState, since=6)
    topic_names: Sequence[str] = texts(until=5)
    timeout_ms: int = i32()


@define
class DeletableTopicResult:
    name: str | None = text(null=6)
    topic_id: TopicId | None = uuid(since=6)
    error_code: int = i16()
    error_message: str | None = message(since=5, null=0, default=None)


@define
class DeleteTopicsResponse:
    throttle_time_ms: int = i32()
    responses: list[DeletableTopicResult] = structs(DeletableTopicResult)


DELETE_TOPICS: Final = Api(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse, first=1, last=6, flexible=4)


@define
class CreatePartitionsAssignment:
    broker_ids: Sequence[int] = i32s()


@define
class CreatePartitionsTopic:
    name: str = text()
    count: int = i32()
    assignments: list[CreatePartitionsAssignment] | None = structs(CreatePartitionsAssignment, null=0)


@define
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = structs(CreatePartitionsTopic)
    timeout_ms: int = i32()
    validate_only: bool = boolean()


@define
class CreatePartitionsTopicResult:
    name: str = text()
    error_code: int = i16()
    error_message: str | None = message(null=0, default=None)


@define
class CreatePartitionsResponse:
    throttle_time_ms: int = i32()
    results: list[CreatePartitionsTopicResult] = structs(CreatePartitionsTopicResult)


CREATE_PARTITIONS: Final = Api(
    ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsResponse, first=0, last=3, flexible=2
)


@define
class DescribeConfigsResource:
    resource_type: int = i8()
    resource_name: str = text()
    configuration_keys: Sequence[str] | None = texts(null=0)


@define
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = structs(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(since=3)


@define
class DescribeConfigsSynonym:
    name: str = text()
    value: str | None = text(null=0)
    source: int = i8()


@define
class DescribeConfigsResourceResult:
    name: str = text()
    value: str | None = text(null=0)
    read_only: bool = boolean()
    config_source: int = i8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = structs(DescribeConfigsSynonym)
    config_type: int = i8(since=3)
    documentation: str | None = text(since=3, null=0)


@define
class DescribeConfigsResult:
    error_code: int = i16()
    error_message: str | None = message(null=0)
    resource_type: int = i8()
    resource_name: str = text()
    configs: list[DescribeConfigsResourceResult] = structs(DescribeConfigsResourceResult)


@define
class DescribeConfigsResponse:
    throttle_time_ms: int = i32()
    results: list[DescribeConfigsResult] = structs(DescribeConfigsResult)


DESCRIBE_CONFIGS: Final = Api(
    ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse, first=1, last=4, flexible=4
)


@define
class AlterableConfig:
    name: str = text()
    value: str | None = text(null=0)


@define
class AlterConfigsResource:
    resource_type: int = i8()
    resource_name: str = text()
    configs: list[AlterableConfig] = structs(AlterableConfig)


@define
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = structs(AlterConfigsResource)
    validate_only: bool = boolean()


@define
class AlterConfigsResourceResponse:
    error_code: int = i16()
    error_message: str | None = message(null=0)
    resource_type: int = i8()
    resource_name: str = text()


@define
class AlterConfigsResponse:
    throttle_time_ms: int = i32()
    responses: list[AlterConfigsResourceResponse] = structs(AlterConfigsResourceResponse)


ALTER_CONFIGS: Final = Api(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse, first=0, last=2, flexible=2)


@define
class IncrementalAlterableConfig:
    name: str = text()
    config_operation: int = i8()
    value: str | None = text(null=0)


@define
class IncrementalAlterConfigsResource:
    resource_type: int = i8()
    resource_name: str = text()
    configs: list[IncrementalAlterableConfig] = structs(IncrementalAlterableConfig)


@define
class IncrementalAlterConfigsRequest:
    resources: list[IncrementalAlterConfigsResource] = structs(IncrementalAlterConfigsResource)
    validate_only: bool = boolean()


@define
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = i32()
    responses: list[AlterConfigsResourceResponse] = structs(AlterConfigsResourceResponse)


INCREMENTAL_ALTER_CONFIGS: Final = Api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    first=0,
    last=1,
    flexible=1,
)


@define
class DescribableLogDirTopic:
    topic: str = text()
    partitions: Sequence[int] = i32s()


@define
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = structs(DescribableLogDirTopic, null=0)


@define
class DescribeLogDirsPartition:
    partition_index: int = i32()
    partition_size: int = i64()
    offset_lag: int = i64()
    is_future_key: bool = boolean()


@define
class DescribeLogDirsTopic:
    name: str = text()
    partitions: list[DescribeLogDirsPartition] = structs(DescribeLogDirsPartition)


@define
class DescribeLogDirsResult:
    error_code: int = i16()
    log_dir: str = text()
    topics: list[DescribeLogDirsTopic] = structs(DescribeLogDirsTopic)
    total_bytes: int = i64(since=4, default=-1)
    usable_bytes: int = i64(since=4, default=-1)


@define
class DescribeLogDirsResponse:
    throttle_time_ms: int = i32()
    error_code: int = i16(since=3)
    results: list[DescribeLogDirsResult] = structs(DescribeLogDirsResult)


DESCRIBE_LOG_DIRS: Final = Api(
    ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest, DescribeLogDirsResponse, first=1, last=4, flexible=2
)


APIS: Final[tuple[Api[Any, Any], ...]] = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    CREATE_PARTITIONS,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    DESCRIBE_LOG_DIRS,
)
