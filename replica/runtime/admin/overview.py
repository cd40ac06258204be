"""The state of a broker as plain values: the cluster as this broker knows it, its replicas, and the groups that it
coordinates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, TypedDict

from attrs import define, field

from kraft_controller.core.commands import Role
from kraft_controller.core.names import INTERNAL, BrokerId, TopicPartition
from kraft_controller.runtime.operator_port import HealthReport
from replica.core.partitions.leader_role import LeaderRole
from replica.runtime.broker import Broker
from zab.core.addresses import with_port
from zab.host.clocks import wall_ms

HEALTHY, DEGRADED, DOWN = "healthy", "degraded", "down"
TROUBLED_MAX: Final = 100
"""The maximum number of unhealthy partitions in the list."""
LISTED_MAX: Final = 1_000
"""The maximum number of listed topics, and of listed groups. Internal topics come last, and groups with the largest lag
first."""


@define
class Partitions:
    """Counts of the cluster's partitions in the controller's metadata. Some fields count only partitions led or stored
    here."""

    total: int = 0
    offline: int = 0
    under_replicated: int = 0
    not_preferred: int = 0
    led_here: int = 0
    held_here: int = 0
    under_min_isr: int = 0
    """The number of partitions led here that refuse acks=all."""
    at_min_isr: int = 0
    """The number of partitions led here that refuse acks=all if one more replica leaves the ISR."""
    leads: Counter[int] = field(factory=Counter)
    holds: Counter[int] = field(factory=Counter)
    in_sync: Counter[int] = field(factory=Counter)


class Health(HealthReport):
    broker: int
    serves: bool
    controller: int | None
    active: bool


class BrokerRow(TypedDict):
    id: int
    me: bool
    alive: bool
    controller: bool
    rack: str | None
    listeners: list[str]
    leads: int
    holds: int
    in_sync: int


class PartitionCounts(TypedDict):
    total: int
    offline: int
    under_replicated: int
    under_min_isr_here: int
    not_preferred: int
    led_here: int
    held_here: int


class TopicRow(TypedDict):
    topic: str
    internal: bool
    partitions: int
    replicas: int
    offline: int
    under_replicated: int
    led_here: int
    held_here: int
    offsets_here: int


class PartitionRow(TypedDict):
    topic: str
    partition: int
    leader: int | None
    epoch: int
    replicas: list[int]
    isr: list[int]
    gone: list[int]


class GroupRow(TypedDict):
    """A group that this broker coordinates.

    topics, partitions   those with a committed offset
    lag                  the lag in the partitions that this broker holds; None if it holds none of them, but 0 if the
                         group has no committed offset
    lag_unknown          the number of those partitions that this broker does not hold
    """

    group: str
    state: str
    members: int
    topics: list[str]
    partitions: int
    lag: int | None
    lag_unknown: int


class Omitted(TypedDict):
    topics: int
    groups: int


class DirectoryRow(TypedDict):
    path: str
    failed: str | None


class Overview(TypedDict):
    broker: int
    cluster: str
    now_ms: int
    health: str
    controller: int | None
    warnings: list[str]
    brokers: list[BrokerRow]
    partitions: PartitionCounts
    topics_total: int
    topics: list[TopicRow]
    troubled: list[PartitionRow]
    groups: list[GroupRow]
    omitted: Omitted
    directories: list[DirectoryRow]


def partitions_of(broker: Broker) -> Partitions:
    found = Partitions()
    live = broker.parts.metadata_cache.brokers
    for role in roles(broker):
        found.total += 1
        found.offline += role.state.leader not in live
        found.under_replicated += is_under_replicated(broker, role)
        found.not_preferred += role.assignment.replicas[:1] != (role.state.leader,)
        found.leads[role.state.leader] += 1
        found.holds.update(role.assignment.replicas)
        found.in_sync.update(role.state.isr)
    for held in broker.parts.replica_manager.core.partitions.values():
        found.held_here += 1
        if isinstance(held.role, LeaderRole):
            found.led_here += 1
            spare = len(held.role.isr.members) - min(held.min_insync, max(len(held.assignment.replicas), 1))
            found.under_min_isr += spare < 0
            found.at_min_isr += spare == 0 and held.min_insync > 1
    return found


def roles(broker: Broker) -> Iterator[Role]:
    for topic in broker.parts.metadata_cache.topics.values():
        yield from topic.partitions.values()


def is_under_replicated(broker: Broker, role: Role) -> bool:
    """Return whether the ISR has fewer live brokers than the replication factor (in a reassignment: the old one)."""
    in_sync = sum(each in broker.parts.metadata_cache.brokers for each in role.state.isr)
    return in_sync < len(role.assignment.origin)


def lag_of(broker: Broker, where: TopicPartition, offset: int) -> int | None:
    """Return the lag of a committed offset: the high watermark minus the offset, at least 0; None if this broker holds
    no replica."""
    held = broker.parts.replica_manager.log_and_high_watermark(where)
    return None if held is None else max(held[1] - offset, 0)


def worries(broker: Broker, found: Partitions) -> list[str]:
    """Return the warnings. Those about the whole cluster are the same at every broker that has the same metadata."""
    warnings = broker.problems() + broker.stalls()
    if broker.parts.membership.session() is None:
        warnings.append("no session with the store: the controller considers this broker dead, or soon will")
    elif broker.parts.membership.acting_controller() is None:
        warnings.append("this broker knows no controller: if the cluster has none, no leaders are elected")
    for count, what in (
        (found.offline, "without a leader: no client can write or read there"),
        (found.under_min_isr, "led here with too few replicas in sync for acks=all"),
        (found.under_replicated, "under-replicated: some replica is not in sync"),
    ):
        if count:
            warnings.append(f"{count} partition{'s' * (count > 1)} {what}")
    gone = sorted(set(found.holds) - set(broker.parts.metadata_cache.brokers))
    if gone:
        warnings.append(f"brokers that are gone and hold replicas: {', '.join(map(str, gone))}")
    log_manager = broker.parts.log_manager
    warnings += [f"log directory {where} has failed: {why}" for where, why in log_manager.failed.items()]
    warnings += [f"the log of {where} is damaged: {why}" for where, why in log_manager.damaged.items()]
    warnings += [f"the log of {where} is no longer compacted: {why}" for where, why in log_manager.uncleanable.items()]
    warnings += [f"{where} has no replica here: {why}" for where, why in log_manager.mismatched_logs.items()]
    return warnings


def health(broker: Broker) -> Health:
    """Return the health for supervisors and load balancers. A broker is healthy if it serves, knows the controller, and
    no loop hangs; other warnings do not make it unhealthy."""
    usable = not broker.parts.log_manager.failed or len(broker.parts.log_manager.failed) < len(broker.config.log_dirs)
    serves = broker.started.is_set() and broker.parts.membership.session() is not None and usable
    controller = broker.parts.membership.acting_controller()
    return {
        "healthy": serves and controller is not None and not broker.problems(),
        "broker": broker.config.id,
        "serves": serves,
        "controller": controller,
        "active": broker.parts.membership.is_controller,
        "worries": worries(broker, partitions_of(broker)),
    }


def overview(broker: Broker) -> Overview:
    found = partitions_of(broker)
    warnings = worries(broker, found)
    serves = health(broker)["serves"] and not broker.problems()
    topics = sorted(broker.parts.metadata_cache.topics, key=lambda name: (name in INTERNAL, name))
    groups = sorted(_groups(broker), key=lambda group: (-(group["lag"] or 0), group["group"]))
    return {
        "broker": broker.config.id,
        "cluster": broker.cluster,
        "now_ms": wall_ms(),
        "health": DOWN if not serves else DEGRADED if warnings else HEALTHY,
        "controller": broker.parts.membership.acting_controller(),
        "warnings": warnings,
        "brokers": [
            _broker(broker, BrokerId(each), found)
            for each in sorted({*broker.parts.metadata_cache.brokers, *found.holds})
        ],
        "partitions": {
            "total": found.total,
            "offline": found.offline,
            "under_replicated": found.under_replicated,
            "under_min_isr_here": found.under_min_isr,
            "not_preferred": found.not_preferred,
            "led_here": found.led_here,
            "held_here": found.held_here,
        },
        "topics_total": sum(name not in INTERNAL for name in topics),
        "topics": [_topic(broker, name) for name in topics[:LISTED_MAX]],
        "troubled": [_partition(broker, role) for role in _troubled(broker)],
        "groups": groups[:LISTED_MAX],
        "omitted": {"topics": max(len(topics) - LISTED_MAX, 0), "groups": max(len(groups) - LISTED_MAX, 0)},
        "directories": [
            {"path": str(each), "failed": broker.parts.log_manager.failed.get(str(each))}
            for each in broker.config.log_dirs
        ],
    }


def _broker(broker: Broker, ident: BrokerId, found: Partitions) -> BrokerRow:
    described = broker.parts.metadata_cache.brokers.get(ident)
    endpoints = () if described is None else described.endpoints
    return {
        "id": ident,
        "me": ident == broker.config.id,
        "alive": described is not None,
        "controller": ident == broker.parts.membership.acting_controller(),
        "rack": None if described is None else described.rack,
        "listeners": [f"{each.listener}://{with_port(each.host, each.port)}" for each in endpoints],
        "leads": found.leads[ident],
        "holds": found.holds[ident],
        "in_sync": found.in_sync[ident],
    }


def _topic(broker: Broker, name: str) -> TopicRow:
    partitions = broker.parts.metadata_cache.topics[name].partitions.values()
    held = [broker.parts.replica_manager.log_and_high_watermark(role.where) for role in partitions]
    known = [each for each in held if each is not None]
    return {
        "topic": name,
        "internal": name in INTERNAL,
        "partitions": len(partitions),
        "replicas": max((len(role.assignment.replicas) for role in partitions), default=0),
        "offline": sum(role.state.leader not in broker.parts.metadata_cache.brokers for role in partitions),
        "under_replicated": sum(is_under_replicated(broker, role) for role in partitions),
        "led_here": sum(role.state.leader == broker.config.id for role in partitions),
        "held_here": len(known),
        "offsets_here": sum(watermark - log.start_offset for log, watermark in known),
    }


def _troubled(broker: Broker) -> list[Role]:
    """List the unhealthy partitions, those without a leader first, at most `TROUBLED_MAX`."""
    live = broker.parts.metadata_cache.brokers
    found = [role for role in roles(broker) if role.state.leader not in live or is_under_replicated(broker, role)]
    return sorted(found, key=lambda role: (role.state.leader in live, role.where))[:TROUBLED_MAX]


def _partition(broker: Broker, role: Role) -> PartitionRow:
    live = broker.parts.metadata_cache.brokers
    return {
        "topic": role.where.topic,
        "partition": role.where.partition,
        "leader": role.state.leader if role.state.leader in live else None,
        "epoch": role.state.leader_epoch,
        "replicas": list(role.assignment.replicas),
        "isr": list(role.state.isr),
        "gone": [each for each in role.assignment.replicas if each not in live],
    }


def _groups(broker: Broker) -> Iterator[GroupRow]:
    for group in broker.parts.group_coordinator.coordinator.groups:
        lags = [lag_of(broker, where, position.offset) for where, position in group.offsets.positions.items()]
        known = [lag for lag in lags if lag is not None]
        yield {
            "group": group.id,
            "state": group.state.value,
            "members": len(group.members),
            "topics": sorted({where.topic for where in group.offsets.positions}),
            "partitions": len(lags),
            "lag": sum(known) if known or not lags else None,
            "lag_unknown": len(lags) - len(known),
        }
