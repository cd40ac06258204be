"""What operators ask first of a cluster, counted on the controller's picture."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from kraft_controller.core.desk import Desk
from kraft_controller.core.names import BrokerId
from kraft_controller.core.transitions import ReplicaPhase


@frozen
class Health:
    """Partitions of topics that are being deleted count nowhere but in `deleting`."""

    brokers: int = 0
    leaving: int = 0
    topics: int = 0
    partitions: int = 0
    offline: int = 0
    """Nobody who is alive leads them."""
    under_replicated: int = 0
    under_min_isr: int = 0
    """acks=all is refused there."""
    at_min_isr: int = 0
    """And there, if one more falls behind."""
    imbalanced: int = 0
    """Led by another than who is preferred."""
    moving: int = 0
    recovering: int = 0
    """Their leader was elected uncleanly, and has not settled yet."""
    deleting: int = 0
    """Topics."""
    waiting_for_deletion: int = 0
    """Of these, topics that cannot go on now."""
    offline_replicas: int = 0
    """On disks that failed."""
    replicas_to_delete: int = 0
    replicas_ineligible: int = 0
    led_by: Mapping[BrokerId, int] = field(factory=dict)
    held_by: Mapping[BrokerId, int] = field(factory=dict)

    @property
    def worries(self) -> tuple[str, ...]:
        """Empty when nobody has to get up."""
        said = (
            (self.offline, "partition without a leader", "partitions without a leader"),
            (self.under_min_isr, "partition that refuses acks=all", "partitions that refuse acks=all"),
            (self.offline_replicas, "replica on a failed disk", "replicas on failed disks"),
        )
        return tuple(f"{count} {one if count == 1 else many}" for count, one, many in said if count)


def health(desk: Desk) -> Health:
    """One look at every partition."""
    cluster = desk.cluster
    partitions = offline = behind = under = at_least = uneven = recovering = 0
    for where in cluster.all_partitions():
        if cluster.is_deleting(where.topic):
            continue
        partitions += 1
        state, held = cluster.states.get(where), cluster.assignment(where)
        if state is None:
            offline += 1
            continue
        offline += state.leader not in cluster.brokers
        in_sync = sum(broker in cluster.brokers for broker in state.isr)
        behind += in_sync < len(held.target)
        least = min(cluster.min_isr.get(where.topic, desk.min_isr_by_default), len(held.replicas))
        under += in_sync < least
        at_least += in_sync == least
        uneven += held.replicas[0] != state.leader
        recovering += bool(state.recovery)
    phases = list(cluster.replicas.values())
    return Health(
        brokers=len(cluster.brokers),
        leaving=len(cluster.leaving),
        topics=len(cluster.topics),
        partitions=partitions,
        offline=offline,
        under_replicated=behind,
        under_min_isr=under,
        at_min_isr=at_least,
        imbalanced=uneven,
        moving=len(cluster.moving),
        recovering=recovering,
        deleting=len(cluster.deleting),
        waiting_for_deletion=len(cluster.deletion_waits),
        offline_replicas=sum(map(len, cluster.offline_dirs.values())),
        replicas_to_delete=phases.count(ReplicaPhase.DELETION_STARTED),
        replicas_ineligible=phases.count(ReplicaPhase.DELETION_INELIGIBLE),
        led_by={broker: len(cluster.led_by(broker)) for broker in cluster.brokers},
        held_by={broker: len(cluster.on(broker)) for broker in cluster.brokers},
    )
