"""Brokers, topics and partitions as values, as the store records them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from attrs import evolve, field, frozen

from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId, Version


@frozen
class Endpoint:
    listener: str
    """The listener's name; `Broker.protocols` maps it to a security protocol."""
    host: str
    port: int


@frozen
class Broker:
    id: BrokerId
    epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    protocols: Mapping[str, str] = field(factory=dict)
    """Listener name to security protocol."""
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(factory=dict)

    def looks_like(self, other: Broker) -> bool:
        """Compare everything that other brokers and clients receive."""
        return (
            self.endpoints == other.endpoints
            and dict(self.protocols) == dict(other.protocols)
            and self.rack == other.rack
            and dict(self.features) == dict(other.features)
        )


class Recovery(IntEnum):
    """How the leader was elected (LeaderRecoveryState, KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1
    """Uncleanly: the leader may lack committed records and has not reported its recovery yet."""


@frozen
class PartitionState:
    """Leader and in-sync replicas (LeaderAndIsr in Apache Kafka)."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    recovery: Recovery = Recovery.RECOVERED
    version: Version = Version(0)
    """The node's version at the read or write of this state (the partition epoch)."""
    written: int = field(default=0, eq=False)
    """The zxid of the write that was read; 0 if unknown."""

    def next(
        self,
        by: ControllerEpoch,
        *,
        leader: BrokerId | None = None,
        isr: tuple[BrokerId, ...] | None = None,
        recovery: Recovery | None = None,
    ) -> PartitionState:
        """Return the state after a decision of the controller of epoch `by`: each one takes the next leader epoch."""
        return evolve(
            self,
            leader=self.leader if leader is None else leader,
            isr=self.isr if isr is None else isr,
            leader_epoch=LeaderEpoch(self.leader_epoch + 1),
            controller_epoch=by,
            recovery=self.recovery if recovery is None else recovery,
        )


@frozen
class Assignment:
    """The brokers that hold a replica, in order: the first is the preferred leader.

    During a reassignment `replicas` is the union of the former and the target replicas.
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    before: tuple[BrokerId, ...] = ()
    """The former replicas in their order, if `replicas` does not preserve it."""

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """The replicas before the reassignment, which a cancellation restores.

        If their order was not recorded, the staying replicas keep the order of the target.
        """
        stay = tuple(replica for replica in self.replicas if replica not in self.adding)
        return self.before if sorted(self.before) == sorted(stay) else stay

    @property
    def target(self) -> tuple[BrokerId, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def to(self, target: tuple[BrokerId, ...]) -> Assignment:
        """Return the assignment on the way to `target`, from where a reassignment in progress started."""
        origin = self.origin
        replicas = target + tuple(replica for replica in origin if replica not in target)
        moved = Assignment(
            replicas,
            adding=tuple(replica for replica in replicas if replica not in origin),
            removing=tuple(replica for replica in replicas if replica not in target),
        )
        return evolve(moved, before=origin) if moved.moving and moved.origin != origin else moved

    def arrived(self) -> Assignment:
        """Return the assignment after the completed reassignment."""
        return Assignment(self.target)


@frozen
class Topic:
    name: str
    id: TopicId | None
    partitions: Mapping[int, Assignment]
    version: Version = Version(0)
    """The version of the topic's node."""
