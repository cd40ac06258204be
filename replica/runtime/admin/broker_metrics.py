"""Measurements of one broker's replicas, and of how far groups are behind.

Names are Kafka's own of its JMX beans, in small letters with underscores; those of the groups are the ones that
exporters beside Kafka use. What is counted of leaders only is 0 elsewhere, so that sums over all brokers are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft_controller.core.names import TopicPartition
from replica.core.leader_role import LeaderRole
from replica.runtime.admin.overview import lag_of, partitions_of
from replica.runtime.broker import Broker
from zab.admin.exposition import GAUGE, MetricSample

MANAGER: Final = "kafka_server_replica_manager"
PARTITION: Final = "kafka_cluster_partition"
LOG: Final = "kafka_log_log"
GROUP: Final = "kafka_consumergroup"

OF_BROKER: Final = (
    (f"{MANAGER}_partition_count", "replicas that it holds"),
    (f"{MANAGER}_leader_count", "partitions that it leads"),
    (f"{MANAGER}_under_replicated_partitions", "of these, of which some replica is not in sync"),
    (f"{MANAGER}_under_min_isr_partition_count", "of these, that refuse acks=all: too few are in sync"),
    (f"{MANAGER}_at_min_isr_partition_count", "of these, that will, if one more falls behind"),
    (
        f"{MANAGER}_partitions_with_open_transactions",
        "of these, in which one holds back who reads only what is committed",
    ),
    (
        f"{MANAGER}_oldest_open_transaction_ms",
        "of any of them: how long ago its producer has written, by the times of its records; 0 without any",
    ),
    (f"{MANAGER}_damaged_log_count", "logs that could not be opened"),
    (
        "kafka_log_log_cleaner_manager_uncleanable_partitions_count",
        "logs that are left uncompacted, as they are damaged",
    ),
    ("kafka_log_log_manager_offline_log_directory_count", "log directories that have failed"),
    ("kafka_server_delayed_operation_purgatory_size", "produces and fetches that wait"),
    (
        "kafka_server_refused_fetches_count",
        "partitions that a leader refused to this follower since the start: some, whenever leaders change",
    ),
    (
        "kafka_server_unsupported_version_count",
        "requests since the start that ended their connection: clients that do not ask which versions are spoken",
    ),
    ("kafka_server_stalled_loops_count", "times since the start that a loop which serves many was held up for 200 ms"),
    ("kafka_server_broker_serves", "1: clients are answered, and the session with the store lasts"),
)
OF_PARTITION: Final = (
    (f"{LOG}_log_start_offset", "the first offset that can be read"),
    (f"{LOG}_log_end_offset", "of the next record"),
    (f"{LOG}_high_watermark", "everything before it is committed"),
    (f"{LOG}_last_stable_offset", "no transaction is open before it: so far read_committed reads"),
)
OF_LED_PARTITION: Final = (
    (f"{PARTITION}_replicas_count", "replicas of a partition that is led here"),
    (f"{PARTITION}_in_sync_replicas_count", "of these, that are in sync"),
)
OF_GROUP: Final = (
    (f"{GROUP}_current_offset", "what a group that is coordinated here has committed"),
    (f"{GROUP}_lag", "how much is left of that partition, as far as this broker knows: it has to hold a replica"),
)


def samples(broker: Broker) -> Iterator[MetricSample]:
    """As of now. It looks at every partition, so not more often than a person or an exporter would."""
    yield from _of_broker(broker)
    yield from _of_partitions(broker)
    yield from _of_groups(broker)


def _of_broker(broker: Broker) -> Iterator[MetricSample]:
    found, waiting = partitions_of(broker), list(_open_for_ms(broker))
    behind = sum(
        isinstance(held.role, LeaderRole) and len(held.role.isr.members) < len(held.assignment.target)
        for held in broker.replication.core.partitions.values()
    )
    values = (
        found.held_here,
        found.led_here,
        behind,
        found.under_min_isr,
        found.at_min_isr,
        len(waiting),
        max(waiting, default=0),
        len(broker.disk.damaged),
        len(broker.disk.uncleanable),
        len(broker.disk.failed),
        len(broker.replication.core.purgatory),
        broker.replication.fetches_refused,
        sum(door.context.unsupported_requests for door in broker.dynamic.doors),
        broker.watchdogs.stalls,
        broker.started.is_set() and broker.session() is not None,
    )
    for (name, about), value in zip(OF_BROKER, values, strict=True):
        yield MetricSample(name, GAUGE, about, value)


def _open_for_ms(broker: Broker) -> Iterator[int]:
    """Of each partition that is led here and in which something holds back those who read only what is committed."""
    now = broker.replication.now()
    for held in broker.replication.core.partitions.values():
        if isinstance(held.role, LeaderRole) and held.stable_offset < held.high_watermark:
            begun = [each for each in held.log.active_producers() if each.txn_start >= 0]
            oldest = min(begun, key=lambda each: each.txn_start, default=None)
            yield 0 if oldest is None else max(now - oldest.timestamp, 0)


def _of_partitions(broker: Broker) -> Iterator[MetricSample]:
    for where, held in sorted(broker.replication.core.partitions.items()):
        labels = _labels(where)
        values = (held.log.start_offset, held.log.end_offset, held.high_watermark, held.stable_offset)
        for (name, about), value in zip(OF_PARTITION, values, strict=True):
            yield MetricSample(name, GAUGE, about, value, labels)
        if isinstance(held.role, LeaderRole):
            counts = (len(held.assignment.replicas), len(held.role.isr.members))
            for (name, about), value in zip(OF_LED_PARTITION, counts, strict=True):
                yield MetricSample(name, GAUGE, about, value, labels)


def _of_groups(broker: Broker) -> Iterator[MetricSample]:
    for group in broker.groups.coordinator.groups:
        for where, position in sorted(group.offsets.positions.items()):
            labels = {"consumergroup": group.id, **_labels(where)}
            values = (position.offset, lag_of(broker, where, position.offset))
            for (name, about), value in zip(OF_GROUP, values, strict=True):
                if value is not None:
                    yield MetricSample(name, GAUGE, about, value, labels)


def _labels(where: TopicPartition) -> dict[str, str]:
    return {"topic": where.topic, "partition": str(where.partition)}


def table() -> str:
    """For the docs."""
    every = (*OF_BROKER, *OF_PARTITION, *OF_LED_PARTITION, *OF_GROUP)
    return "\n".join(["| Name | What it says |", "|---|---|", *(f"| `{name}` | {about} |" for name, about in every)])
