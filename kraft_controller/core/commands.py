"""The controller's commands to brokers: LeaderAndIsr, UpdateMetadata and StopReplica, and their envelopes.

Three epochs fence commands. The broker epoch fences commands for an earlier registration of the broker, and the
controller epoch fences commands of an earlier controller. In LeaderAndIsr and StopReplica, the leader epoch of a
partition fences the results of earlier decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from attrs import evolve

from kraft_controller.core.names import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from kraft_controller.core.state import Assignment, Broker, PartitionState
from zab.core.frozen import frozen

EPOCH_UNKNOWN: Final = LeaderEpoch(-1)
"""The leader epoch of a `Stop` for a partition without a known state."""
EPOCH_OF_DELETION: Final = LeaderEpoch(-2)
"""The leader epoch of a `Stop` for a partition of a topic that is being deleted."""


@frozen
class Role:
    """The state of one partition: leader, ISR and replicas.

    where       the partition
    topic_id    None if the topic has none
    state       its leader and ISR
    assignment  its replicas
    """

    where: TopicPartition
    topic_id: TopicId | None
    state: PartitionState
    assignment: Assignment
    is_new: bool = False
    """True if the replica is newly assigned to the broker, so an empty log is not data loss."""


@frozen
class Stop:
    """The order to stop the replica of the partition `where`, and with `delete` to delete its log.

    leader_epoch  the leader epoch of the decision; a receiver with a newer one refuses the order
    """

    where: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool


@frozen
class LeaderAndIsr:
    """The command to lead or follow partitions.

    controller        the broker that sends the command, as the controller
    controller_epoch  its controller epoch
    broker_epoch      the epoch of the receiver's registration; the receiver refuses a command for an older one
    roles             the state of each partition
    """

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    full: bool
    """True if the broker must stop every replica that the command does not name."""
    roles: tuple[Role, ...]
    leaders: tuple[Broker, ...]
    """The registrations of the leaders, with their endpoints. Leaders that are not registered are left out."""


@frozen
class UpdateMetadata:
    """The command to remember the state of the cluster, for the answers to clients.

    controller        the broker that sends the command, as the controller
    controller_epoch  its controller epoch
    broker_epoch      the epoch of the receiver's registration; the receiver refuses a command for an older one
    """

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    roles: tuple[Role, ...]
    """Partition states. The leader `DELETED` means that the topic is being deleted."""
    brokers: tuple[Broker, ...]
    """All registered brokers, in every command."""
    full: bool = False
    """True if the receiver must forget every partition that the command does not name."""


@frozen
class StopReplica:
    """The command to stop replicas.

    controller        the broker that sends the command, as the controller
    controller_epoch  its controller epoch
    broker_epoch      the epoch of the receiver's registration; the receiver refuses a command for an older one
    stops             one order for each replica
    """

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    stops: tuple[Stop, ...]


Command: TypeAlias = LeaderAndIsr | UpdateMetadata | StopReplica


# -- envelopes -------------------------------------------------------------------------------------------


@frozen
class Numbered:
    """A command with a correlation id, addressed to one broker."""

    number: int
    command: Command
    to: BrokerId = NO_BROKER
    """The id of the addressed broker; with `NO_BROKER`, any broker accepts the command.

    If an endpoint was registered wrongly, the command reaches another broker, which refuses it.
    """


@frozen
class Answer:
    """The reply to a `Numbered` command or to a `ShutdownRequest`, with its correlation id."""

    number: int
    error: int
    """The Kafka error code of the whole request; 0 is success."""
    errors: Mapping[TopicPartition, int]
    """The error codes of single partitions."""


@frozen
class ShutdownRequest:
    """A broker's request to the controller for a controlled shutdown. The reply names the partitions that the broker
    still leads."""

    number: int
    broker: BrokerId
    epoch: BrokerEpoch


def in_pieces(command: Command, most: int) -> Iterator[Command]:
    """Split a command so that each piece starts, changes or stops at most `most` replicas.

    After the pieces of a full LeaderAndIsr the whole command follows, because the stray logs can be found only with all
    roles; roles that were in a piece change nothing more. UpdateMetadata only fills a cache and is not split.
    """
    match command:
        case LeaderAndIsr() if len(command.roles) > most:
            for at in range(0, len(command.roles), most):
                yield evolve(command, full=False, roles=command.roles[at : at + most])
            if command.full:
                yield command
        case StopReplica() if len(command.stops) > most:
            for at in range(0, len(command.stops), most):
                yield evolve(command, stops=command.stops[at : at + most])
        case _:
            yield command
