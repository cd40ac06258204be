"""Elections that somebody asked for, and replicas that move."""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api, i8, i16, i32, many, message, structs, text

ELECT_LEADERS: Final = Api(
    ApiKey.ELECT_LEADERS,
    0,
    2,
    2,
    request=(
        i8("election_type", since=1),
        structs("topic_partitions", (text("topic"), many(i32("partitions"))), null=0),
        i32("timeout_ms", default=60000),
    ),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code", since=1),
        structs(
            "replica_election_results",
            (
                text("topic"),
                structs("partition_result", (i32("partition_id"), i16("error_code"), message("error_message", null=0))),
            ),
        ),
    ),
)

ALTER_PARTITION_REASSIGNMENTS: Final = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    0,
    0,
    0,
    request=(
        i32("timeout_ms", default=60000),
        structs(
            "topics",
            (
                text("name"),
                structs("partitions", (i32("partition_index"), many(i32("replicas", null=0, default=None)))),
            ),
        ),
    ),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code"),
        message("error_message", null=0),
        structs(
            "responses",
            (
                text("name"),
                structs("partitions", (i32("partition_index"), i16("error_code"), message("error_message", null=0))),
            ),
        ),
    ),
)

LIST_PARTITION_REASSIGNMENTS: Final = Api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    0,
    0,
    0,
    request=(
        i32("timeout_ms", default=60000),
        structs("topics", (text("name"), many(i32("partition_indexes"))), null=0, default=None),
    ),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code"),
        message("error_message", null=0),
        structs(
            "topics",
            (
                text("name"),
                structs(
                    "partitions",
                    (
                        i32("partition_index"),
                        many(i32("replicas")),
                        many(i32("adding_replicas")),
                        many(i32("removing_replicas")),
                    ),
                ),
            ),
        ),
    ),
)

APIS: Final = (ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS)
