"""What the store says of brokers, topics and partitions, as values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from attrs import evolve, field, frozen

from kraft_controller.core.names import NOBODY, BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId, Version


@frozen
class Endpoint:
    listener: str
    """Its name; what it speaks is in the broker's map of protocols."""
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

    def is_told_like(self, other: Broker) -> bool:
        """Whether nobody need be told of the difference."""
        return (
            self.endpoints == other.endpoints
            and dict(self.protocols) == dict(other.protocols)
            and self.rack == other.rack
            and dict(self.features) == dict(other.features)
        )


class Recovery(IntEnum):
    """How the leader was made."""

    RECOVERED = 0
    RECOVERING = 1
    """Uncleanly: it may lack what was committed, and has not yet said that it has settled."""


@frozen
class PartitionState:
    """Who leads, and who is in sync. `version` is the one under which the node was read or written."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    recovery: Recovery = Recovery.RECOVERED
    version: Version = Version(0)
    written: int = field(default=0, eq=False)
    """The zxid of the write that was read; 0: it is not known."""

    @property
    def led(self) -> bool:
        return self.leader != NOBODY

    def next(
        self,
        by: ControllerEpoch,
        *,
        leader: BrokerId | None = None,
        isr: tuple[BrokerId, ...] | None = None,
        recovery: Recovery | None = None,
    ) -> PartitionState:
        """As the controller of epoch `by` would leave it: every decision has a leader epoch of its own."""
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
    """Which brokers hold a replica, in order: the first is preferred to lead.

    While replicas move, `replicas` are all of before and after, and the other two say which come and which go.
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    before: tuple[BrokerId, ...] = ()
    """Those of before in their order, where the others do not tell it: there is no other place that remembers it."""

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """As it was before the move, to which a cancelled one returns. If nobody has said in which order, whoever stays
        stands where the target has it."""
        stay = tuple(replica for replica in self.replicas if replica not in self.adding)
        return self.before if sorted(self.before) == sorted(stay) else stay

    @property
    def target(self) -> tuple[BrokerId, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def to(self, target: tuple[BrokerId, ...]) -> Assignment:
        """On the way to `target`; from where a move that was under way began, if one was."""
        origin = self.origin
        replicas = target + tuple(replica for replica in origin if replica not in target)
        moved = Assignment(
            replicas,
            adding=tuple(replica for replica in replicas if replica not in origin),
            removing=tuple(replica for replica in replicas if replica not in target),
        )
        return evolve(moved, before=origin) if moved.moving and moved.origin != origin else moved

    def arrived(self) -> Assignment:
        return Assignment(self.target)


@frozen
class Topic:
    name: str
    id: TopicId | None
    partitions: Mapping[int, Assignment]
    version: Version = Version(0)
    """Of its node."""
