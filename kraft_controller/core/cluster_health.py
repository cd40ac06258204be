"""The state of the cluster as counts, for metrics and health checks."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from kraft_controller.core.controller_context import ControllerContext
from kraft_controller.core.names import BrokerId
from kraft_controller.core.transitions import ReplicaPhase


@frozen
class Health:
    """Counts at one moment. The counts of partitions leave out topics that are being deleted, except `led_by` and
    `held_by`.

    brokers             registered brokers
    topics              topics, with those that are being deleted
    partitions          all partitions
    under_replicated    partitions with fewer live in-sync replicas than replicas
    replicas_to_delete  replicas whose deletion has begun
    led_by, held_by     the partitions that each broker leads, and the replicas on it
    """

    brokers: int = 0
    leaving: int = 0
    """Brokers in controlled shutdown."""
    topics: int = 0
    partitions: int = 0
    offline: int = 0
    """Partitions without a live leader."""
    under_replicated: int = 0
    under_min_isr: int = 0
    """Partitions with too few live in-sync replicas for acks=all (`min.insync.replicas`)."""
    at_min_isr: int = 0
    """Partitions with just enough live in-sync replicas for acks=all."""
    imbalanced: int = 0
    """Partitions that are not led by their preferred replica."""
    moving: int = 0
    """Partitions with a reassignment in progress."""
    recovering: int = 0
    """Partitions that have not recovered from an unclean leader election yet."""
    deleting: int = 0
    """Topics that are being deleted."""
    waiting_for_deletion: int = 0
    """Topics whose deletion cannot proceed at present."""
    offline_replicas: int = 0
    """Replicas that their brokers cannot use, in failed log directories for example."""
    replicas_to_delete: int = 0
    replicas_ineligible: int = 0
    """Replicas that cannot be deleted at present."""
    led_by: Mapping[BrokerId, int] = field(factory=dict)
    held_by: Mapping[BrokerId, int] = field(factory=dict)

    @property
    def worries(self) -> tuple[str, ...]:
        """Conditions that need an operator."""
        conditions = (
            (self.offline, "partition without a leader", "partitions without a leader"),
            (self.under_min_isr, "partition that refuses acks=all", "partitions that refuse acks=all"),
            (self.offline_replicas, "replica that its broker cannot use", "replicas that their brokers cannot use"),
        )
        return tuple(f"{count} {one if count == 1 else many}" for count, one, many in conditions if count)


def health(context: ControllerContext) -> Health:
    """Compute all counts, in time proportional to the numbers of partitions, replicas and brokers."""
    partitions = offline = behind = under = at_least = imbalanced = recovering = 0
    for tp in context.all_partitions():
        if context.is_deleting(tp.topic):
            continue
        partitions += 1
        state, held = context.states.get(tp), context.assignment(tp)
        if state is None:
            offline += 1
            continue
        offline += state.leader not in context.brokers
        in_sync = sum(broker in context.brokers for broker in state.isr)
        behind += in_sync < len(held.target)
        least = min(context.min_isr.get(tp.topic, context.defaults.min_isr), len(held.replicas))
        under += in_sync < least
        at_least += in_sync == least
        imbalanced += held.replicas[0] != state.leader
        recovering += bool(state.recovery)
    phases = list(context.replicas.values())
    return Health(
        brokers=len(context.brokers),
        leaving=len(context.shutting_down),
        topics=len(context.topics),
        partitions=partitions,
        offline=offline,
        under_replicated=behind,
        under_min_isr=under,
        at_min_isr=at_least,
        imbalanced=imbalanced,
        moving=len(context.moving),
        recovering=recovering,
        deleting=len(context.deleting),
        waiting_for_deletion=len(context.deletion_waits),
        offline_replicas=sum(map(len, context.offline_dirs.values())),
        replicas_to_delete=phases.count(ReplicaPhase.DELETION_STARTED),
        replicas_ineligible=phases.count(ReplicaPhase.DELETION_INELIGIBLE),
        led_by={broker: len(context.led_by(broker)) for broker in context.brokers},
        held_by={broker: len(context.held_by(broker)) for broker in context.brokers},
    )
