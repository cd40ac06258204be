"""Metrics of one candidate for controller, as samples and in the text format of Prometheus.

The names follow those of Kafka's JMX beans, in lower case with underscores. Values that only the controller knows are
0 at all other brokers, as in Apache Kafka, or missing if they have a broker label. So they can be summed over all
brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kraft_controller.core.cluster_health import Health, health
from kraft_controller.core.command_channel import BrokerCommandQueue
from kraft_controller.runtime.command_connections import CommandConnections
from kraft_controller.runtime.controller import Controller
from zab.admin import exposition as text_format
from zab.admin.exposition import COUNTER, GAUGE
from zab.admin.exposition import MetricSample as Sample

__all__ = ["Sample", "exposition", "samples", "table"]


def samples(controller: Controller) -> Iterator[Sample]:
    """Yield the current metrics. The cost grows with the number of partitions: call it once for each scrape."""
    term, sink = controller.term, controller.sink
    found = Health() if term is None else health(term.context)
    about = "1 at the controller, 0 at other brokers; the sum over all brokers should be 1"
    yield Sample("kafka_controller_active_controller_count", GAUGE, about, controller.active)
    for name, about, attribute in _OF_CLUSTER:
        yield Sample(f"kafka_controller_{name}", GAUGE, about, getattr(found, attribute))
    for broker, count in found.led_by.items():
        labels = {"broker": str(broker)}
        yield Sample("kafka_controller_broker_leader_count", GAUGE, "partitions that the broker leads", count, labels)
    for broker, count in found.held_by.items():
        labels = {"broker": str(broker)}
        yield Sample("kafka_controller_broker_partition_count", GAUGE, "replicas assigned to the broker", count, labels)
    yield from _of_candidate(controller)
    yield from _of_channel(sink.queues() if isinstance(sink, CommandConnections) else [])


_OF_CLUSTER: Final = (
    ("active_broker_count", "registered brokers", "brokers"),
    ("leaving_broker_count", "registered brokers in controlled shutdown", "leaving"),
    ("global_topic_count", "topics", "topics"),
    ("global_partition_count", "partitions", "partitions"),
    ("offline_partitions_count", "partitions without a live leader", "offline"),
    (
        "under_replicated_partitions_count",
        "partitions with fewer live in-sync replicas than their replication factor (in a reassignment: the new one)",
        "under_replicated",
    ),
    ("under_min_isr_partition_count", "partitions that refuse acks=all: too few replicas are in sync", "under_min_isr"),
    ("at_min_isr_partition_count", "partitions that refuse acks=all if one more replica leaves the ISR", "at_min_isr"),
    ("preferred_replica_imbalance_count", "partitions that are not led by their preferred replica", "imbalanced"),
    ("reassigning_partitions_count", "partitions with a reassignment in progress", "moving"),
    ("recovering_partitions_count", "partitions with an uncleanly elected leader that is recovering", "recovering"),
    ("topics_to_delete_count", "topics being deleted", "deleting"),
    (
        "topics_ineligible_to_delete_count",
        "topics whose deletion cannot proceed at present",
        "waiting_for_deletion",
    ),
    ("replicas_to_delete_count", "replicas that brokers are deleting", "replicas_to_delete"),
    ("replicas_ineligible_to_delete_count", "replicas that cannot be deleted at present", "replicas_ineligible"),
    (
        "offline_replica_count",
        "replicas that their brokers cannot use, in failed log directories for example",
        "offline_replicas",
    ),
)


def _of_candidate(controller: Controller) -> Iterator[Sample]:
    counts, term = controller.counts, controller.term
    elections = counts.elections + (0 if term is None else term.partitions.elections)
    unclean = counts.unclean_elections + (0 if term is None else term.partitions.unclean_elections)
    manager = "kafka_controller_controller_event_manager_"
    stats = "kafka_controller_controller_stats_"
    yield Sample(f"{manager}event_queue_size", GAUGE, "events in the queue", controller.waiting)
    yield Sample(f"{manager}events_total", COUNTER, "processed events", counts.events.total())
    about = "milliseconds that events waited in the queue, in total"
    yield Sample(f"{manager}event_queue_time_ms_total", COUNTER, about, counts.waited_ms)
    about = "longest wait of the newest thousand events, in milliseconds"
    yield Sample(f"{manager}event_queue_time_ms_recent_max", GAUGE, about, counts.recent_waited_max)
    about = "milliseconds that events took to process, in total"
    yield Sample(f"{manager}event_process_time_ms_total", COUNTER, about, counts.worked_ms)
    for kind, count in sorted(counts.events.items()):
        yield Sample(f"{manager}events_by_kind_total", COUNTER, "processed events, by kind", count, {"kind": kind})
    yield Sample(f"{stats}leader_elections_total", COUNTER, "leader elections of partitions", elections)
    about = "unclean leader elections: records may have been lost"
    yield Sample(f"{stats}unclean_leader_elections_total", COUNTER, about, unclean)
    about = "elections of this broker as controller"
    yield Sample(f"{stats}controller_elections_won_total", COUNTER, about, counts.won)
    about = "terms of this broker as controller that ended with a failure"
    yield Sample(f"{stats}controller_gave_up_total", COUNTER, about, counts.gave_up)
    about = "reports of nodes that cannot be parsed"
    yield Sample(f"{stats}damaged_nodes_total", COUNTER, about, counts.damaged)
    if counts.failover_ms is not None:
        about = "milliseconds from the newest election of this broker to the end of its failover"
        yield Sample(f"{stats}controller_failover_time_ms", GAUGE, about, counts.failover_ms)
    about = "the controller epoch at the controller, 0 at other brokers"
    yield Sample("kafka_controller_controller_epoch", GAUGE, about, 0 if term is None else term.context.epoch)


def _of_channel(queues: Iterable[BrokerCommandQueue]) -> Iterator[Sample]:
    manager, total = "kafka_controller_controller_channel_manager_", 0
    for queue in queues:
        labels = {"broker": str(queue.broker.id)}
        total += len(queue)
        yield Sample(f"{manager}queue_size", GAUGE, "commands without a reply", len(queue), labels)
        about = "failed attempts to send a command since the controller opened the broker's queue"
        yield Sample(f"{manager}resends", GAUGE, about, queue.resent, labels)
        about = "commands that the broker refused, in whole or in part, since the controller opened the broker's queue"
        yield Sample(f"{manager}refusals", GAUGE, about, queue.refused, labels)
    yield Sample(f"{manager}total_queue_size", GAUGE, "commands without a reply, to all brokers together", total)


def exposition(found: Iterable[Sample]) -> str:
    """Return the samples in Prometheus's text format 0.0.4. Needs the package `prometheus_client`."""
    return text_format.exposition(found).decode()


def table() -> str:
    """Return the metrics of the cluster as a table for the documentation."""
    rows = [f"| `kafka_controller_{name}` | {about} |" for name, about, _ in _OF_CLUSTER]
    return "\n".join(["| Name | What it counts |", "|---|---|", *rows])
