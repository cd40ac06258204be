"""What members of a group ask of its coordinator."""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import FOREVER, Api, boolean, i8, i16, i32, i64, many, message, octets, structs, text
from replica.wire.schemas.cluster import NOT_ASKED

FIND_COORDINATOR: Final = Api(
    ApiKey.FIND_COORDINATOR,
    0,
    4,
    3,
    request=(text("key", until=3), i8("key_type", since=1), many(text("coordinator_keys", since=4))),
    reply=(
        i32("throttle_time_ms", since=1),
        i16("error_code", until=3),
        message("error_message", since=1, until=3, null=0),
        i32("node_id", until=3),
        text("host", until=3),
        i32("port", until=3),
        structs(
            "coordinators",
            (
                text("key"),
                i32("node_id"),
                text("host"),
                i32("port"),
                i16("error_code"),
                message("error_message", null=0),
            ),
            since=4,
        ),
    ),
)

JOIN_GROUP: Final = Api(
    ApiKey.JOIN_GROUP,
    0,
    9,
    6,
    request=(
        text("group_id"),
        i32("session_timeout_ms"),
        i32("rebalance_timeout_ms", since=1, default=-1),
        text("member_id"),
        text("group_instance_id", since=5, null=0, default=None),
        text("protocol_type"),
        structs("protocols", (text("name"), octets("metadata"))),
        text("reason", since=8, null=0, default=None),
    ),
    reply=(
        i32("throttle_time_ms", since=2),
        i16("error_code"),
        i32("generation_id", default=-1),
        text("protocol_type", since=7, null=0, default=None),
        text("protocol_name", null=7),
        text("leader"),
        boolean("skip_assignment", since=9),
        text("member_id"),
        structs(
            "members", (text("member_id"), text("group_instance_id", since=5, null=0, default=None), octets("metadata"))
        ),
    ),
)

SYNC_GROUP: Final = Api(
    ApiKey.SYNC_GROUP,
    0,
    5,
    4,
    request=(
        text("group_id"),
        i32("generation_id"),
        text("member_id"),
        text("group_instance_id", since=3, null=0, default=None),
        text("protocol_type", since=5, null=0, default=None),
        text("protocol_name", since=5, null=0, default=None),
        structs("assignments", (text("member_id"), octets("assignment"))),
    ),
    reply=(
        i32("throttle_time_ms", since=1),
        i16("error_code"),
        text("protocol_type", since=5, null=0, default=None),
        text("protocol_name", since=5, null=0, default=None),
        octets("assignment"),
    ),
)

HEARTBEAT: Final = Api(
    ApiKey.HEARTBEAT,
    0,
    4,
    4,
    request=(
        text("group_id"),
        i32("generation_id"),
        text("member_id"),
        text("group_instance_id", since=3, null=0, default=None),
    ),
    reply=(i32("throttle_time_ms", since=1), i16("error_code")),
)

LEAVE_GROUP: Final = Api(
    ApiKey.LEAVE_GROUP,
    0,
    5,
    4,
    request=(
        text("group_id"),
        text("member_id", until=2),
        structs(
            "members",
            (
                text("member_id"),
                text("group_instance_id", null=0, default=None),
                text("reason", since=5, null=0, default=None),
            ),
            since=3,
        ),
    ),
    reply=(
        i32("throttle_time_ms", since=1),
        i16("error_code"),
        structs("members", (text("member_id"), text("group_instance_id", null=0), i16("error_code")), since=3),
    ),
)

OFFSET_COMMIT: Final = Api(
    ApiKey.OFFSET_COMMIT,
    2,
    8,
    8,
    request=(
        text("group_id"),
        i32("generation_id", default=-1),
        text("member_id"),
        text("group_instance_id", since=7, null=0, default=None),
        i64("retention_time_ms", until=4, default=-1),
        structs(
            "topics",
            (
                text("name"),
                structs(
                    "partitions",
                    (
                        i32("partition_index"),
                        i64("committed_offset"),
                        i32("committed_leader_epoch", since=6, default=-1),
                        text("committed_metadata", null=0),
                    ),
                ),
            ),
        ),
    ),
    reply=(
        i32("throttle_time_ms", since=3),
        structs("topics", (text("name"), structs("partitions", (i32("partition_index"), i16("error_code"))))),
    ),
)

OFFSET_FETCH: Final = Api(
    ApiKey.OFFSET_FETCH,
    1,
    8,
    6,
    request=(
        text("group_id", until=7),
        structs("topics", (text("name"), many(i32("partition_indexes"))), until=7, null=2),
        structs(
            "groups",
            (text("group_id"), structs("topics", (text("name"), many(i32("partition_indexes"))), null=0)),
            since=8,
        ),
        boolean("require_stable", since=7),
    ),
    reply=(
        i32("throttle_time_ms", since=3),
        structs(
            "topics",
            (
                text("name"),
                structs(
                    "partitions",
                    (
                        i32("partition_index"),
                        i64("committed_offset"),
                        i32("committed_leader_epoch", since=5, default=-1),
                        text("metadata", null=0),
                        i16("error_code"),
                    ),
                ),
            ),
            until=7,
        ),
        i16("error_code", since=2, until=7),
        structs(
            "groups",
            (
                text("group_id"),
                structs(
                    "topics",
                    (
                        text("name"),
                        structs(
                            "partitions",
                            (
                                i32("partition_index"),
                                i64("committed_offset"),
                                i32("committed_leader_epoch", default=-1),
                                text("metadata", null=0),
                                i16("error_code"),
                            ),
                        ),
                    ),
                ),
                i16("error_code"),
            ),
            since=8,
        ),
    ),
)

DESCRIBE_GROUPS: Final = Api(
    ApiKey.DESCRIBE_GROUPS,
    0,
    5,
    5,
    request=(many(text("groups")), boolean("include_authorized_operations", since=3)),
    reply=(
        i32("throttle_time_ms", since=1),
        structs(
            "groups",
            (
                i16("error_code"),
                text("group_id"),
                text("group_state"),
                text("protocol_type"),
                text("protocol_data"),
                structs(
                    "members",
                    (
                        text("member_id"),
                        text("group_instance_id", since=4, null=0, default=None),
                        text("client_id"),
                        text("client_host"),
                        octets("member_metadata"),
                        octets("member_assignment"),
                    ),
                ),
                i32("authorized_operations", since=3, default=NOT_ASKED),
            ),
        ),
    ),
)

LIST_GROUPS: Final = Api(
    ApiKey.LIST_GROUPS,
    0,
    5,
    3,
    request=(many(text("states_filter", since=4)), many(text("types_filter", since=5))),
    reply=(
        i32("throttle_time_ms", since=1),
        i16("error_code"),
        structs(
            "groups",
            (text("group_id"), text("protocol_type"), text("group_state", since=4), text("group_type", since=5)),
        ),
    ),
)

DELETE_GROUPS: Final = Api(
    ApiKey.DELETE_GROUPS,
    0,
    2,
    2,
    request=(many(text("groups_names")),),
    reply=(i32("throttle_time_ms"), structs("results", (text("group_id"), i16("error_code")))),
)

OFFSET_DELETE: Final = Api(
    ApiKey.OFFSET_DELETE,
    0,
    0,
    FOREVER,
    request=(text("group_id"), structs("topics", (text("name"), structs("partitions", (i32("partition_index"),))))),
    reply=(
        i16("error_code"),
        i32("throttle_time_ms"),
        structs("topics", (text("name"), structs("partitions", (i32("partition_index"), i16("error_code"))))),
    ),
)

APIS: Final = (
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
