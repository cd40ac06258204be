"""Measurements of one candidate for controller, as values for whatever exporter, and in the text of Prometheus.

Names are Kafka's own of its JMX beans, in small letters with underscores. What only the controller can know is 0 at the
others, as with Kafka: sums over all brokers are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kraft_controller.core.health import Health, health
from kraft_controller.runtime.controller import Controller
from kraft_controller.runtime.links import BrokerLinks
from zab.admin import exposition as text_format
from zab.admin.exposition import COUNTER, GAUGE
from zab.admin.exposition import MetricSample as Sample

__all__ = ["Sample", "exposition", "samples", "table"]


def samples(controller: Controller) -> Iterator[Sample]:
    """As of now. It looks at every partition, so not more often than a person or an exporter would."""
    desk, links = controller.desk, controller.links
    found = health(desk) if controller.active and desk is not None else Health()
    yield Sample(
        "kafka_controller_active_controller_count",
        GAUGE,
        "1 at the controller, 0 at all others; the sum is 1",
        controller.active,
    )
    for name, about, of in _OF_CLUSTER:
        yield Sample(f"kafka_controller_{name}", GAUGE, about, getattr(found, of))
    for broker, count in found.led_by.items():
        labels = {"broker": str(broker)}
        yield Sample("kafka_controller_broker_leader_count", GAUGE, "partitions that it leads", count, labels)
    for broker, count in found.held_by.items():
        labels = {"broker": str(broker)}
        yield Sample("kafka_controller_broker_partition_count", GAUGE, "replicas that it holds", count, labels)
    yield from _of_itself(controller)
    told = links.counts() if isinstance(links, BrokerLinks) else {}
    for broker, (waiting, resent, refused) in told.items():
        labels = {"broker": str(broker)}
        yield Sample(
            "kafka_controller_controller_channel_manager_queue_size",
            GAUGE,
            "commands that it has not answered",
            waiting,
            labels,
        )
        yield Sample(
            "kafka_controller_controller_channel_manager_resends",
            GAUGE,
            "how often a command was said again since the link began",
            resent,
            labels,
        )
        yield Sample(
            "kafka_controller_controller_channel_manager_refusals",
            GAUGE,
            "commands that it refused, in whole or in part, since the link began",
            refused,
            labels,
        )
    yield Sample(
        "kafka_controller_controller_channel_manager_total_queue_size",
        GAUGE,
        "commands that some broker has not answered",
        sum(waiting for waiting, _, _ in told.values()),
    )


_OF_CLUSTER: Final = (
    ("active_broker_count", "brokers that are registered", "brokers"),
    ("leaving_broker_count", "of these, that asked to be let go", "leaving"),
    ("global_topic_count", "topics", "topics"),
    ("global_partition_count", "partitions", "partitions"),
    ("offline_partitions_count", "partitions that nobody who is alive leads", "offline"),
    ("under_replicated_partitions_count", "partitions of which some replica is not in sync", "under_replicated"),
    ("under_min_isr_partition_count", "partitions that refuse acks=all: too few are in sync", "under_min_isr"),
    ("at_min_isr_partition_count", "partitions that will, if one more falls behind", "at_min_isr"),
    ("preferred_replica_imbalance_count", "partitions led by another than who is preferred", "imbalanced"),
    ("reassigning_partitions_count", "partitions whose replicas are on the move", "moving"),
    ("recovering_partitions_count", "partitions elected uncleanly that have not settled", "recovering"),
    ("topics_to_delete_count", "topics whose deletion was asked for", "deleting"),
    ("topics_ineligible_to_delete_count", "of these, that wait for a broker or a disk", "waiting_for_deletion"),
    ("replicas_to_delete_count", "replicas that a broker was told to delete", "replicas_to_delete"),
    ("replicas_ineligible_to_delete_count", "replicas that cannot be deleted now", "replicas_ineligible"),
    ("offline_replica_count", "replicas on disks that failed", "offline_replicas"),
)


def _of_itself(controller: Controller) -> Iterator[Sample]:
    counts, desk = controller.counts, controller.desk
    now = controller.active and desk is not None
    elections = counts.elections + (desk.elections if now and desk else 0)
    unclean = counts.unclean_elections + (desk.unclean_elections if now and desk else 0)
    manager = "kafka_controller_controller_event_manager_"
    stats = "kafka_controller_controller_stats_"
    yield Sample(f"{manager}event_queue_size", GAUGE, "events that have not been dealt with", controller.waiting)
    yield Sample(f"{manager}events_total", COUNTER, "events that have", counts.events.total())
    about = "milliseconds that they waited for it, in all"
    yield Sample(f"{manager}event_queue_time_ms_total", COUNTER, about, counts.waited_ms)
    about = "milliseconds, the longest of the newest thousand"
    yield Sample(f"{manager}event_queue_time_ms_recent_max", GAUGE, about, counts.recent_waited_max)
    about = "milliseconds that they took, in all"
    yield Sample(f"{manager}event_process_time_ms_total", COUNTER, about, counts.worked_ms)
    for kind, count in sorted(counts.events.items()):
        yield Sample(f"{manager}events_by_kind_total", COUNTER, "events of a kind", count, {"kind": kind})
    yield Sample(f"{stats}leader_elections_total", COUNTER, "of partitions", elections)
    yield Sample(f"{stats}unclean_leader_elections_total", COUNTER, "of these, records may have been lost", unclean)
    yield Sample(f"{stats}controller_elections_won_total", COUNTER, "it became the controller", counts.won)
    yield Sample(
        f"{stats}controller_gave_up_total", COUNTER, "it stepped down because something failed", counts.gave_up
    )
    yield Sample(f"{stats}damaged_nodes_total", COUNTER, "nodes that could not be read, each time", counts.damaged)
    if counts.failover_ms is not None:
        about = "milliseconds from its newest election until all was taken over"
        yield Sample(f"{stats}controller_failover_time_ms", GAUGE, about, counts.failover_ms)
    about = "of the controller, where it is this broker"
    yield Sample("kafka_controller_controller_epoch", GAUGE, about, desk.epoch if now and desk else 0)


def exposition(found: Iterable[Sample]) -> str:
    """Return the text format 0.0.4 of Prometheus. Needs the package `prometheus_client`."""
    return text_format.exposition(found).decode()


def table() -> str:
    """For the documentation: those of the cluster."""
    rows = [f"| `kafka_controller_{name}` | {about} |" for name, about, _ in _OF_CLUSTER]
    return "\n".join(["| Name | What it counts |", "|---|---|", *rows])
