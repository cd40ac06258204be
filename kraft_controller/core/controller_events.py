"""The events that a controller processes.

An event about the store says only that something has changed. Its procedure then reads the current state. So several
changes may be merged into one event, and a superfluous event is harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.topics.alter_partition import IsrChange

# -- changes in the store --------------------------------------------------------------------------------


@frozen
class ControllerElected:
    """This broker has been elected controller."""


@frozen
class BrokersChanged:
    """The list of registered brokers has changed."""


@frozen
class BrokerModified:
    """A broker's registration has changed."""

    id: BrokerId


@frozen
class TopicsChanged:
    """The list of topics has changed."""


@frozen
class TopicModified:
    """A topic's node has changed."""

    name: str


@frozen
class PartitionCreationResumed:
    """More new partitions are to be created. The controller queues this event itself when one event has created part of
    them."""


@frozen
class ConfigsChanged:
    """There are new notifications of changed configurations."""


@frozen
class PartitionStateChanged:
    """The state of a partition that is being reassigned, or was unreadable, has changed."""

    where: TopicPartition


@frozen
class PartitionStatesChanged:
    """Several `PartitionStateChanged` events, merged by the queue."""

    partitions: tuple[TopicPartition, ...]


@frozen
class TopicDeletionRequested:
    """The list of topics to delete has changed."""


@frozen
class TopicDeletionResumed:
    """The deletion of a topic can proceed. The controller queues this event itself. Each event carries out one part of
    the deletion."""

    topic: str


@frozen
class ReassignmentRequested:
    """The node with requested reassignments has changed."""


@frozen
class PreferredElectionRequested:
    """The node with requested preferred leader elections has changed."""


@frozen
class IsrChangeNotification:
    """There are new notifications of changed ISRs."""


@frozen
class LogDirEventNotification:
    """There are new notifications of failed log directories."""


@frozen
class AutoPreferredElection:
    """The periodic balancing of leaders is due (`leader.imbalance.check.interval.seconds`)."""


# -- replies to commands ---------------------------------------------------------------------------------


@frozen
class LeaderAndIsrReplied:
    """A broker's reply to a LeaderAndIsr names replicas whose logs the broker cannot use."""

    broker: BrokerId
    epoch: BrokerEpoch
    offline: tuple[TopicPartition, ...]


@frozen
class StopReplicaReplied:
    """A broker has replied to a StopReplica that deletes replicas."""

    broker: BrokerId
    epoch: BrokerEpoch
    done: tuple[TopicPartition, ...]
    failed: tuple[TopicPartition, ...]


@frozen
class CommandQueueOverflowed:
    """The command queue of a broker was full, and was dropped."""

    broker: BrokerId
    epoch: BrokerEpoch


# -- requests of brokers and administrators, which wait for a result -----------------------------------------


@frozen
class ControlledShutdownRequested:
    """The request of a `broker`, with the `epoch` of its registration, to move its leaderships to other brokers."""

    broker: BrokerId
    epoch: BrokerEpoch


@frozen
class AlterPartitionRequested:
    """A leader's request for changes of ISRs: the id and broker epoch of its `broker`, and the `changes`.

    epoch  the epoch of the broker's registration
    """

    broker: BrokerId
    epoch: BrokerEpoch
    changes: tuple[IsrChange, ...]


@frozen
class ElectLeadersRequested:
    """A request to elect the preferred leaders of `partitions`, or with `unclean` any live replica as leader."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool = False


@frozen
class AlterReassignmentsRequested:
    """A request to start or cancel reassignments."""

    wanted: Mapping[TopicPartition, Sequence[BrokerId] | None]
    """The target replicas by partition; None cancels the reassignment."""


Event: TypeAlias = (
    ControllerElected | BrokersChanged | BrokerModified | TopicsChanged | TopicModified
    | PartitionCreationResumed | ConfigsChanged | PartitionStateChanged | PartitionStatesChanged
    | TopicDeletionRequested | TopicDeletionResumed | ReassignmentRequested | PreferredElectionRequested
    | IsrChangeNotification | LogDirEventNotification | AutoPreferredElection
    | LeaderAndIsrReplied | StopReplicaReplied | CommandQueueOverflowed
    | ControlledShutdownRequested | AlterPartitionRequested | ElectLeadersRequested | AlterReassignmentsRequested
)  # fmt: skip


class StaleBrokerEpoch(Exception):
    """The broker epoch of the request is not that of the broker's registration, as far as this controller knows."""


class BrokerNotAvailable(Exception):
    """The broker that sent the request is not registered, as far as this controller knows."""
