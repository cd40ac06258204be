"""What producers ask of the coordinator of their transactions, it of leaders, and operators of both.

These are the versions of clients that end a transaction before they begin the next one under the same epoch; later
ones, in which each transaction has an epoch of its own, are not spoken.
"""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api, boolean, i16, i32, i64, many, message, structs, text

ADD_PARTITIONS_TO_TXN: Final = Api(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    0,
    3,
    3,
    request=(
        text("transactional_id"),
        i64("producer_id"),
        i16("producer_epoch"),
        structs("topics", (text("name"), many(i32("partitions")))),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "results_by_topic",
            (text("name"), structs("results_by_partition", (i32("partition_index"), i16("partition_error_code")))),
        ),
    ),
)

ADD_OFFSETS_TO_TXN: Final = Api(
    ApiKey.ADD_OFFSETS_TO_TXN,
    0,
    3,
    3,
    request=(text("transactional_id"), i64("producer_id"), i16("producer_epoch"), text("group_id")),
    reply=(i32("throttle_time_ms"), i16("error_code")),
)

END_TXN: Final = Api(
    ApiKey.END_TXN,
    0,
    3,
    3,
    request=(text("transactional_id"), i64("producer_id"), i16("producer_epoch"), boolean("committed")),
    reply=(i32("throttle_time_ms"), i16("error_code")),
)

TXN_OFFSET_COMMIT: Final = Api(
    ApiKey.TXN_OFFSET_COMMIT,
    0,
    3,
    3,
    request=(
        text("transactional_id"),
        text("group_id"),
        i64("producer_id"),
        i16("producer_epoch"),
        i32("generation_id", since=3, default=-1),
        text("member_id", since=3),
        text("group_instance_id", since=3, null=0, default=None),
        structs(
            "topics",
            (
                text("name"),
                structs(
                    "partitions",
                    (
                        i32("partition_index"),
                        i64("committed_offset"),
                        i32("committed_leader_epoch", since=2, default=-1),
                        text("committed_metadata", null=0),
                    ),
                ),
            ),
        ),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs("topics", (text("name"), structs("partitions", (i32("partition_index"), i16("error_code"))))),
    ),
)

WRITE_TXN_MARKERS: Final = Api(
    ApiKey.WRITE_TXN_MARKERS,
    0,
    1,
    1,
    request=(
        structs(
            "markers",
            (
                i64("producer_id"),
                i16("producer_epoch"),
                boolean("transaction_result"),
                structs("topics", (text("name"), many(i32("partition_indexes")))),
                i32("coordinator_epoch"),
            ),
        ),
    ),
    reply=(
        structs(
            "markers",
            (
                i64("producer_id"),
                structs("topics", (text("name"), structs("partitions", (i32("partition_index"), i16("error_code"))))),
            ),
        ),
    ),
)

DESCRIBE_PRODUCERS: Final = Api(
    ApiKey.DESCRIBE_PRODUCERS,
    0,
    0,
    0,
    request=(structs("topics", (text("name"), many(i32("partition_indexes")))),),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "topics",
            (
                text("name"),
                structs(
                    "partitions",
                    (
                        i32("partition_index"),
                        i16("error_code"),
                        message("error_message", null=0, default=None),
                        structs(
                            "active_producers",
                            (
                                i64("producer_id"),
                                i32("producer_epoch"),
                                i32("last_sequence", default=-1),
                                i64("last_timestamp", default=-1),
                                i32("coordinator_epoch"),
                                i64("current_txn_start_offset", default=-1),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
)

DESCRIBE_TRANSACTIONS: Final = Api(
    ApiKey.DESCRIBE_TRANSACTIONS,
    0,
    0,
    0,
    request=(many(text("transactional_ids")),),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "transaction_states",
            (
                i16("error_code"),
                text("transactional_id"),
                text("transaction_state"),
                i32("transaction_timeout_ms"),
                i64("transaction_start_time_ms"),
                i64("producer_id"),
                i16("producer_epoch"),
                structs("topics", (text("topic"), many(i32("partitions")))),
            ),
        ),
    ),
)

LIST_TRANSACTIONS: Final = Api(
    ApiKey.LIST_TRANSACTIONS,
    0,
    1,
    0,
    request=(
        many(text("state_filters")),
        many(i64("producer_id_filters")),
        i64("duration_filter", since=1, default=-1),
    ),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code"),
        many(text("unknown_state_filters")),
        structs("transaction_states", (text("transactional_id"), i64("producer_id"), text("transaction_state"))),
    ),
)

APIS: Final = (
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)
