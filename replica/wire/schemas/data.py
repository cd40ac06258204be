"""What producers, consumers and followers ask of the leader of a partition."""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api, i8, i16, i32, i64, many, message, octets, struct, structs, text

# Versions 10 and 11 add the address of another leader, as optional tagged fields that are not sent, and an error code.
PRODUCE: Final = Api(
    ApiKey.PRODUCE,
    3,
    11,
    9,
    request=(
        text("transactional_id", null=0, default=None),
        i16("acks"),
        i32("timeout_ms"),
        structs("topic_data", (text("name"), structs("partition_data", (i32("index"), octets("records", null=0))))),
    ),
    reply=(
        structs(
            "responses",
            (
                text("name"),
                structs(
                    "partition_responses",
                    (
                        i32("index"),
                        i16("error_code"),
                        i64("base_offset"),
                        i64("log_append_time_ms", default=-1),
                        i64("log_start_offset", since=5, default=-1),
                        structs(
                            "record_errors",
                            (i32("batch_index"), message("batch_index_error_message", null=0, default=None)),
                            since=8,
                        ),
                        message("error_message", since=8, null=0, default=None),
                    ),
                ),
            ),
        ),
        i32("throttle_time_ms"),
    ),
)

FETCH: Final = Api(
    ApiKey.FETCH,
    4,
    12,
    12,
    request=(
        text("cluster_id", since=12, null=0, tag=0, default=None),
        struct(
            "replica_state", (i32("replica_id", default=-1), i64("replica_epoch", default=-1)), since=12, tag=1
        ),  # as in later versions; between brokers it says which life of a replica asks
        i32("replica_id", default=-1),
        i32("max_wait_ms"),
        i32("min_bytes"),
        i32("max_bytes", default=0x7FFF_FFFF),
        i8("isolation_level"),
        i32("session_id", since=7),
        i32("session_epoch", since=7, default=-1),
        structs(
            "topics",
            (
                text("topic"),
                structs(
                    "partitions",
                    (
                        i32("partition"),
                        i32("current_leader_epoch", since=9, default=-1),
                        i64("fetch_offset"),
                        i32("last_fetched_epoch", since=12, default=-1),
                        i64("log_start_offset", since=5, default=-1),
                        i32("partition_max_bytes"),
                    ),
                ),
            ),
        ),
        structs("forgotten_topics_data", (text("topic"), many(i32("partitions"))), since=7),
        text("rack_id", since=11),
    ),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code", since=7),
        i32("session_id", since=7),
        structs(
            "responses",
            (
                text("topic"),
                structs(
                    "partitions",
                    (
                        i32("partition_index"),
                        i16("error_code"),
                        i64("high_watermark"),
                        i64("last_stable_offset", default=-1),
                        i64("log_start_offset", since=5, default=-1),
                        struct(
                            "diverging_epoch",
                            (i32("epoch", default=-1), i64("end_offset", default=-1)),
                            since=12,
                            tag=0,
                        ),
                        struct(
                            "current_leader",
                            (i32("leader_id", default=-1), i32("leader_epoch", default=-1)),
                            since=12,
                            tag=1,
                        ),
                        struct(
                            "snapshot_id", (i64("end_offset", default=-1), i32("epoch", default=-1)), since=12, tag=2
                        ),
                        structs("aborted_transactions", (i64("producer_id"), i64("first_offset")), null=0),
                        i32("preferred_read_replica", since=11, default=-1),
                        octets("records", null=0),
                    ),
                ),
            ),
        ),
    ),
)

LIST_OFFSETS: Final = Api(
    ApiKey.LIST_OFFSETS,
    1,
    7,
    6,
    request=(
        i32("replica_id"),
        i8("isolation_level", since=2),
        structs(
            "topics",
            (
                text("name"),
                structs(
                    "partitions",
                    (i32("partition_index"), i32("current_leader_epoch", since=4, default=-1), i64("timestamp")),
                ),
            ),
        ),
    ),
    reply=(
        i32("throttle_time_ms", since=2),
        structs(
            "topics",
            (
                text("name"),
                structs(
                    "partitions",
                    (
                        i32("partition_index"),
                        i16("error_code"),
                        i64("timestamp", default=-1),
                        i64("offset", default=-1),
                        i32("leader_epoch", since=4, default=-1),
                    ),
                ),
            ),
        ),
    ),
)

OFFSET_FOR_LEADER_EPOCH: Final = Api(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    2,
    4,
    4,
    request=(
        i32("replica_id", since=3, default=-2),
        structs(
            "topics",
            (
                text("topic"),
                structs("partitions", (i32("partition"), i32("current_leader_epoch", default=-1), i32("leader_epoch"))),
            ),
        ),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "topics",
            (
                text("topic"),
                structs(
                    "partitions",
                    (
                        i16("error_code"),
                        i32("partition"),
                        i32("leader_epoch", default=-1),
                        i64("end_offset", default=-1),
                    ),
                ),
            ),
        ),
    ),
)

DELETE_RECORDS: Final = Api(
    ApiKey.DELETE_RECORDS,
    0,
    2,
    2,
    request=(
        structs("topics", (text("name"), structs("partitions", (i32("partition_index"), i64("offset"))))),
        i32("timeout_ms"),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "topics",
            (text("name"), structs("partitions", (i32("partition_index"), i64("low_watermark"), i16("error_code")))),
        ),
    ),
)

INIT_PRODUCER_ID: Final = Api(
    ApiKey.INIT_PRODUCER_ID,
    0,
    4,
    2,
    request=(
        text("transactional_id", null=0),
        i32("transaction_timeout_ms"),
        i64("producer_id", since=3, default=-1),
        i16("producer_epoch", since=3, default=-1),
    ),
    reply=(i32("throttle_time_ms"), i16("error_code"), i64("producer_id", default=-1), i16("producer_epoch")),
)

APIS: Final = (PRODUCE, FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, DELETE_RECORDS, INIT_PRODUCER_ID)
