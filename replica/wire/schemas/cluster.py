"""Who is there, what they speak, and who somebody is."""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import FOREVER, Api, boolean, i8, i16, i32, i64, many, message, octets, structs, text, uuid

NOT_ASKED: Final = -(2**31)
"""Of a set of operations: whoever asked did not want to know it."""


API_VERSIONS: Final = Api(
    ApiKey.API_VERSIONS,
    0,
    4,
    3,
    request=(text("client_software_name", since=3), text("client_software_version", since=3)),
    reply=(
        i16("error_code"),
        structs("api_keys", (i16("api_key"), i16("min_version"), i16("max_version"))),
        i32("throttle_time_ms", since=1),
        structs("supported_features", (text("name"), i16("min_version"), i16("max_version")), since=3, tag=0),
        i64("finalized_features_epoch", since=3, tag=1, default=-1),
        structs(
            "finalized_features", (text("name"), i16("max_version_level"), i16("min_version_level")), since=3, tag=2
        ),
        boolean("zk_migration_ready", since=3, tag=3),
    ),
)

METADATA: Final = Api(
    ApiKey.METADATA,
    0,
    12,
    9,
    request=(
        structs("topics", (uuid("topic_id", since=10), text("name", null=10)), null=1),
        boolean("allow_auto_topic_creation", since=4, default=True),
        boolean("include_cluster_authorized_operations", since=8, until=10),
        boolean("include_topic_authorized_operations", since=8),
    ),
    reply=(
        i32("throttle_time_ms", since=3),
        structs("brokers", (i32("node_id"), text("host"), i32("port"), text("rack", since=1, null=0, default=None))),
        text("cluster_id", since=2, null=0, default=None),
        i32("controller_id", since=1, default=-1),
        structs(
            "topics",
            (
                i16("error_code"),
                text("name", null=12),
                uuid("topic_id", since=10),
                boolean("is_internal", since=1),
                structs(
                    "partitions",
                    (
                        i16("error_code"),
                        i32("partition_index"),
                        i32("leader_id"),
                        i32("leader_epoch", since=7, default=-1),
                        many(i32("replica_nodes")),
                        many(i32("isr_nodes")),
                        many(i32("offline_replicas", since=5)),
                    ),
                ),
                i32("topic_authorized_operations", since=8, default=NOT_ASKED),
            ),
        ),
        i32("cluster_authorized_operations", since=8, until=10, default=NOT_ASKED),
    ),
)

DESCRIBE_CLUSTER: Final = Api(
    ApiKey.DESCRIBE_CLUSTER,
    0,
    1,
    0,
    request=(boolean("include_cluster_authorized_operations"), i8("endpoint_type", since=1, default=1)),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code"),
        message("error_message", null=0, default=None),
        i8("endpoint_type", since=1, default=1),
        text("cluster_id"),
        i32("controller_id", default=-1),
        structs("brokers", (i32("broker_id"), text("host"), i32("port"), text("rack", null=0, default=None))),
        i32("cluster_authorized_operations", default=NOT_ASKED),
    ),
)

SASL_HANDSHAKE: Final = Api(
    ApiKey.SASL_HANDSHAKE,
    0,
    1,
    FOREVER,
    request=(text("mechanism"),),
    reply=(i16("error_code"), many(text("mechanisms"))),
)

SASL_AUTHENTICATE: Final = Api(
    ApiKey.SASL_AUTHENTICATE,
    0,
    2,
    2,
    request=(octets("auth_bytes"),),
    reply=(
        i16("error_code"),
        message("error_message", null=0),
        octets("auth_bytes"),
        i64("session_lifetime_ms", since=1),
    ),
)

APIS: Final = (API_VERSIONS, METADATA, DESCRIBE_CLUSTER, SASL_HANDSHAKE, SASL_AUTHENTICATE)
