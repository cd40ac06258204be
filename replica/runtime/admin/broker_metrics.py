"""Metrics of one broker's replicas, and the lag of groups.

A metric that Kafka has as a JMX bean is named after the bean, in lower case with underscores; the offsets and lag
of groups have the names that common exporters use. Partitions are counted only by their leaders, so that the counts can
be summed over all brokers. Groups are reported by their coordinators, and replicas, logs and log offsets by each broker
that holds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft_controller.core.names import TopicPartition
from replica.core.partitions.leader_role import LeaderRole
from replica.runtime.admin.overview import lag_of, partitions_of
from replica.runtime.broker import Broker
from zab.admin.exposition import COUNTER, GAUGE, MetricSample

MANAGER: Final = "kafka_server_replica_manager"
PARTITION: Final = "kafka_cluster_partition"
LOG: Final = "kafka_log_log"
GROUP: Final = "kafka_consumergroup"

OF_BROKER: Final = (
    (f"{MANAGER}_partition_count", "replicas on this broker"),
    (f"{MANAGER}_leader_count", "partitions led by this broker"),
    (
        f"{MANAGER}_under_replicated_partitions",
        "partitions led here whose ISR is smaller than the replication factor (in a reassignment: the old one)",
    ),
    (
        f"{MANAGER}_under_min_isr_partition_count",
        "partitions led here that refuse acks=all: the ISR is too small",
    ),
    (
        f"{MANAGER}_at_min_isr_partition_count",
        "partitions led here that refuse acks=all if one more replica leaves the ISR",
    ),
    (
        f"{MANAGER}_partitions_with_open_transactions",
        "partitions led here where a transaction keeps the last stable offset below the high watermark",
    ),
    (
        f"{MANAGER}_oldest_open_transaction_ms",
        "ms since the last record of a partition's oldest open transaction: the maximum of those led here; 0 if none",
    ),
    (
        f"{MANAGER}_damaged_log_count",
        "logs that could not be opened, or went offline without a failure of their directory",
    ),
    (
        "kafka_log_log_cleaner_manager_uncleanable_partitions_count",
        "logs that the cleaner no longer compacts after a failure",
    ),
    ("kafka_log_log_manager_offline_log_directory_count", "log directories that have failed"),
    ("kafka_server_delayed_operation_purgatory_size", "delayed produce, fetch and DeleteRecords operations"),
    (
        "kafka_server_refused_fetches_count",
        "Fetch refusals by leaders since the start: one for a partition or a whole request; normal when leaders change",
    ),
    (
        "kafka_server_unsupported_version_count",
        "requests of an unknown API or version that ended their connection, since the start",
    ),
    (
        "kafka_server_stalled_loops_count",
        "stalls of 200 ms or more of a loop that serves clients, since the start",
    ),
    ("kafka_server_broker_serves", "1 while the broker answers clients and has a session with the store"),
)
COUNTERS: Final = frozenset(
    {"kafka_server_refused_fetches_count", "kafka_server_unsupported_version_count", "kafka_server_stalled_loops_count"}
)
"""Those of OF_BROKER that only grow; all others are gauges."""
OF_PARTITION: Final = (
    (f"{LOG}_log_start_offset", "the first readable offset"),
    (f"{LOG}_log_end_offset", "the offset of the next record"),
    (f"{LOG}_high_watermark", "the high watermark: all records before it are committed"),
    (f"{LOG}_last_stable_offset", "the last stable offset: read_committed consumers read only records before it"),
)
OF_LED_PARTITION: Final = (
    (f"{PARTITION}_replicas_count", "replicas of a partition led here"),
    (f"{PARTITION}_in_sync_replicas_count", "in-sync replicas of a partition led here"),
)
OF_GROUP: Final = (
    (f"{GROUP}_current_offset", "the committed offset of a group coordinated here"),
    (
        f"{GROUP}_lag",
        "the high watermark minus the committed offset, at least 0; only if this broker holds a replica",
    ),
)


def samples(broker: Broker) -> Iterator[MetricSample]:
    """Yield the current metrics. The cost grows with the numbers of partitions and of committed offsets: call it
    once a scrape."""
    yield from _of_broker(broker)
    yield from _of_partitions(broker)
    yield from _of_groups(broker)


def _of_broker(broker: Broker) -> Iterator[MetricSample]:
    found, waiting = partitions_of(broker), list(_open_for_ms(broker))
    behind = sum(
        isinstance(held.role, LeaderRole) and len(held.role.isr.members) < len(held.assignment.origin)
        for held in broker.parts.replica_manager.core.partitions.values()
    )
    values = (
        found.held_here,
        found.led_here,
        behind,
        found.under_min_isr,
        found.at_min_isr,
        len(waiting),
        max(waiting, default=0),
        len(broker.parts.log_manager.damaged),
        len(broker.parts.log_manager.uncleanable),
        len(broker.parts.log_manager.failed),
        len(broker.parts.replica_manager.core.purgatory),
        broker.parts.replica_manager.notes.fetches_refused,
        sum(each.context.unsupported_requests for each in broker.listeners),
        broker.watchdogs.stalls,
        broker.started.is_set() and broker.parts.membership.session() is not None,
    )
    for (name, about), value in zip(OF_BROKER, values, strict=True):
        yield MetricSample(name, COUNTER if name in COUNTERS else GAUGE, about, value)


def _open_for_ms(broker: Broker) -> Iterator[int]:
    """Yield a time in ms for each partition led here in which a transaction holds back the last stable offset.

    It is the time since the last record of the oldest open transaction. It is 0 if no transaction is open: then a
    marker is written, but it is not below the high watermark yet.
    """
    now = broker.parts.replica_manager.now()
    for held in broker.parts.replica_manager.core.partitions.values():
        if isinstance(held.role, LeaderRole) and held.stable_offset < held.high_watermark:
            begun = [each for each in held.log.active_producers() if each.txn_start >= 0]
            oldest = min(begun, key=lambda each: each.txn_start, default=None)
            yield 0 if oldest is None else max(now - oldest.timestamp, 0)


def _of_partitions(broker: Broker) -> Iterator[MetricSample]:
    for where, held in sorted(broker.parts.replica_manager.core.partitions.items()):
        labels = _labels(where)
        values = (held.log.start_offset, held.log.end_offset, held.high_watermark, held.stable_offset)
        for (name, about), value in zip(OF_PARTITION, values, strict=True):
            yield MetricSample(name, GAUGE, about, value, labels)
        if isinstance(held.role, LeaderRole):
            counts = (len(held.assignment.replicas), len(held.role.isr.members))
            for (name, about), value in zip(OF_LED_PARTITION, counts, strict=True):
                yield MetricSample(name, GAUGE, about, value, labels)


def _of_groups(broker: Broker) -> Iterator[MetricSample]:
    for group in broker.parts.group_coordinator.coordinator.groups:
        for where, position in sorted(group.offsets.positions.items()):
            labels = {"consumergroup": group.id, **_labels(where)}
            values = (position.offset, lag_of(broker, where, position.offset))
            for (name, about), value in zip(OF_GROUP, values, strict=True):
                if value is not None:
                    yield MetricSample(name, GAUGE, about, value, labels)


def _labels(where: TopicPartition) -> dict[str, str]:
    return {"topic": where.topic, "partition": str(where.partition)}


def table() -> str:
    """Return the metrics as a table for the documentation."""
    every = (*OF_BROKER, *OF_PARTITION, *OF_LED_PARTITION, *OF_GROUP)
    return "\n".join(["| Name | What it says |", "|---|---|", *(f"| `{name}` | {about} |" for name, about in every)])
