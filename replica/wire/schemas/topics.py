"""Making, changing and deleting topics, and what is configured."""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api, boolean, i8, i16, i32, i64, many, message, structs, text, uuid

CREATE_TOPICS: Final = Api(
    ApiKey.CREATE_TOPICS,
    2,
    7,
    5,
    request=(
        structs(
            "topics",
            (
                text("name"),
                i32("num_partitions"),
                i16("replication_factor"),
                structs("assignments", (i32("partition_index"), many(i32("broker_ids")))),
                structs("configs", (text("name"), text("value", null=0))),
            ),
        ),
        i32("timeout_ms", default=60000),
        boolean("validate_only"),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "topics",
            (
                text("name"),
                uuid("topic_id", since=7),
                i16("error_code"),
                message("error_message", null=0),
                i16("topic_config_error_code", since=5, tag=0),
                i32("num_partitions", since=5, default=-1),
                i16("replication_factor", since=5, default=-1),
                structs(
                    "configs",
                    (
                        text("name"),
                        text("value", null=0),
                        boolean("read_only"),
                        i8("config_source", default=-1),
                        boolean("is_sensitive"),
                    ),
                    since=5,
                    null=0,
                ),
            ),
        ),
    ),
)

DELETE_TOPICS: Final = Api(
    ApiKey.DELETE_TOPICS,
    1,
    6,
    4,
    request=(
        structs("topics", (text("name", null=0, default=None), uuid("topic_id")), since=6),
        many(text("topic_names", until=5)),
        i32("timeout_ms"),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "responses",
            (
                text("name", null=6),
                uuid("topic_id", since=6),
                i16("error_code"),
                message("error_message", since=5, null=0, default=None),
            ),
        ),
    ),
)

CREATE_PARTITIONS: Final = Api(
    ApiKey.CREATE_PARTITIONS,
    0,
    3,
    2,
    request=(
        structs("topics", (text("name"), i32("count"), structs("assignments", (many(i32("broker_ids")),), null=0))),
        i32("timeout_ms"),
        boolean("validate_only"),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs("results", (text("name"), i16("error_code"), message("error_message", null=0, default=None))),
    ),
)

DESCRIBE_CONFIGS: Final = Api(
    ApiKey.DESCRIBE_CONFIGS,
    1,
    4,
    4,
    request=(
        structs("resources", (i8("resource_type"), text("resource_name"), many(text("configuration_keys", null=0)))),
        boolean("include_synonyms"),
        boolean("include_documentation", since=3),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "results",
            (
                i16("error_code"),
                message("error_message", null=0),
                i8("resource_type"),
                text("resource_name"),
                structs(
                    "configs",
                    (
                        text("name"),
                        text("value", null=0),
                        boolean("read_only"),
                        i8("config_source", default=-1),
                        boolean("is_sensitive"),
                        structs("synonyms", (text("name"), text("value", null=0), i8("source"))),
                        i8("config_type", since=3),
                        text("documentation", since=3, null=0),
                    ),
                ),
            ),
        ),
    ),
)

ALTER_CONFIGS: Final = Api(
    ApiKey.ALTER_CONFIGS,
    0,
    2,
    2,
    request=(
        structs(
            "resources",
            (i8("resource_type"), text("resource_name"), structs("configs", (text("name"), text("value", null=0)))),
        ),
        boolean("validate_only"),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "responses",
            (i16("error_code"), message("error_message", null=0), i8("resource_type"), text("resource_name")),
        ),
    ),
)

INCREMENTAL_ALTER_CONFIGS: Final = Api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    0,
    1,
    1,
    request=(
        structs(
            "resources",
            (
                i8("resource_type"),
                text("resource_name"),
                structs("configs", (text("name"), i8("config_operation"), text("value", null=0))),
            ),
        ),
        boolean("validate_only"),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "responses",
            (i16("error_code"), message("error_message", null=0), i8("resource_type"), text("resource_name")),
        ),
    ),
)

DESCRIBE_LOG_DIRS: Final = Api(
    ApiKey.DESCRIBE_LOG_DIRS,
    1,
    4,
    2,
    request=(structs("topics", (text("topic"), many(i32("partitions"))), null=0),),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code", since=3),
        structs(
            "results",
            (
                i16("error_code"),
                text("log_dir"),
                structs(
                    "topics",
                    (
                        text("name"),
                        structs(
                            "partitions",
                            (
                                i32("partition_index"),
                                i64("partition_size"),
                                i64("offset_lag"),
                                boolean("is_future_key"),
                            ),
                        ),
                    ),
                ),
                i64("total_bytes", since=4, default=-1),
                i64("usable_bytes", since=4, default=-1),
            ),
        ),
    ),
)

APIS: Final = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    CREATE_PARTITIONS,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    DESCRIBE_LOG_DIRS,
)
