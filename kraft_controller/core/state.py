"""Immutable values for brokers, topics and partitions, as the store records them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from attrs import evolve, field

from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId, Version
from zab.core.frozen import frozen


@frozen
class Endpoint:
    """The address of a broker's listener: `host` and `port`."""

    listener: str
    """The listener's name, which `Broker.protocols` maps to a security protocol."""
    host: str
    port: int


@frozen
class Broker:
    """The registration of a broker.

    id         its number
    epoch      the zxid that created the registration; `NO_EPOCH` before
    endpoints  the addresses of its listeners
    rack       the place of the broker, which replicas of one partition should not share; None: unknown
    features   the least and greatest version of each feature, by name
    """

    id: BrokerId
    epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    protocols: Mapping[str, str] = field(factory=dict)
    """The security protocol of each listener, by listener name."""
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(factory=dict)

    def looks_like(self, other: Broker) -> bool:
        """Return whether all fields that other brokers and clients receive are equal."""
        return (
            self.endpoints == other.endpoints
            and dict(self.protocols) == dict(other.protocols)
            and self.rack == other.rack
            and dict(self.features) == dict(other.features)
        )


class Recovery(IntEnum):
    """The recovery of a leader from an unclean election (LeaderRecoveryState, KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1
    """After an unclean election: the leader may lack committed records. It has not reported its recovery yet, by an ISR
    change for example."""


@frozen
class PartitionState:
    """Leader and in-sync replicas (LeaderAndIsr in Apache Kafka).

    leader            -1 without a leader
    isr               the in-sync replicas
    leader_epoch      the number of decisions of controllers about this partition
    controller_epoch  the epoch of the controller that wrote the state
    recovery          whether the leader still recovers from an unclean election
    """

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    recovery: Recovery = Recovery.RECOVERED
    version: Version = Version(0)
    """The node's version when this state was read or written (the partition epoch)."""
    written: int = field(default=0, eq=False)
    """The zxid of the last write to the node; 0 if unknown."""

    def next(
        self,
        by: ControllerEpoch,
        *,
        leader: BrokerId | None = None,
        isr: tuple[BrokerId, ...] | None = None,
        recovery: Recovery | None = None,
    ) -> PartitionState:
        """Return the state with these changes and the next leader epoch, as decided by the controller with epoch
        `by`."""
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
    """The replicas of a partition, as broker ids. The first one is the preferred leader.

    During a reassignment, `replicas` contains the target replicas first, then the other former ones.

    adding    the replicas that the reassignment adds
    removing  the replicas that it removes at its end
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    before: tuple[BrokerId, ...] = ()
    """The former replicas in their order, if their order in `replicas` differs; else empty."""

    @property
    def moving(self) -> bool:
        """True during a reassignment."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """The replicas before the reassignment, which a cancellation restores.

        If `before` does not name them, they have their order in `replicas`.
        """
        stay = tuple(replica for replica in self.replicas if replica not in self.adding)
        return self.before if sorted(self.before) == sorted(stay) else stay

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas after the reassignment; outside of one, all replicas."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def to(self, target: tuple[BrokerId, ...]) -> Assignment:
        """Return the assignment during a reassignment to `target`. If one is in progress already, its origin stays."""
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
    """A topic as its node in the store describes it.

    name        its name
    id          None if the topic was created without one
    partitions  the replicas of each partition, by number
    """

    name: str
    id: TopicId | None
    partitions: Mapping[int, Assignment]
    version: Version = Version(0)
    """The version of the topic's node."""
