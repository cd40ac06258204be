"""The command channel from the controller to the brokers (ControllerChannelManager in Apache Kafka).

Each broker has one queue, with at most one command in flight. A command without a reply is sent again on a new
connection, until the broker replies, its registration or this term ends, or its queue overflows. No single command is
skipped, because later commands do not repeat its contents. A queue that overflows is dropped as a whole, and the broker
receives its full state. A slow or unreachable broker does not delay others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

from attrs import frozen

from kraft_controller.core.commands import Answer, Command, LeaderAndIsr, Numbered, StopReplica
from kraft_controller.core.controller_events import (
    CommandQueueOverflowed,
    Event,
    LeaderAndIsrReplied,
    StopReplicaReplied,
)
from kraft_controller.core.error_codes import (
    ANOTHER_BROKER,
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_CONTROLLER_EPOCH,
)
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.state import Broker

UNUSABLE: Final = (KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID)
"""Errors of a replica that can neither lead nor follow until an operator acts. Another ISR member must lead."""


class WrongReply(ValueError):
    """The reply does not belong to the command in flight. The connection is closed, and the command is sent again."""


class MisaddressedCommand(WrongReply):
    """The reply is from another broker, because the registered endpoint belongs to that one."""


@frozen
class CommandReply:
    """The contents of a reply, for the controller."""

    event: Event | None
    """The event that the reply causes, if any."""
    refused: Mapping[TopicPartition, int]
    """The roles that the broker refused, with their error codes. Those in failed log directories are left out."""
    stale_controller_epoch: bool
    """True if the broker knows a newer controller epoch."""


class BrokerCommandQueue:
    """The commands to one registration of one broker."""

    def __init__(self, broker: Broker, numbers: Iterator[int]) -> None:
        self.broker = broker
        """The registration, replaced when its endpoints change. A registration with another epoch has its own queue."""
        self._numbers = numbers
        """The source of correlation ids. All queues share it, so a broker's next queue continues with greater ids."""
        self._waiting: deque[Command] = deque()
        """Commands without a reply; the first one may be in flight."""
        self._in_flight: Numbered | None = None
        """The first command of `_waiting`, once it has a correlation id. It keeps the id when it is sent again."""
        self.closed = False
        """True if the channel has dropped the queue: nothing more is sent."""
        self.unreachable = False
        """True if the latest attempt to send a command failed."""
        self.resent = 0
        """The number of attempts to send a command that ended without a valid reply. Another attempt follows while the
        queue is open."""
        self.refused = 0
        """The number of commands that the broker refused, as a whole or for some of their roles. Roles in failed log
        directories do not count."""

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, command: Command) -> None:
        self._waiting.append(command)

    def next(self) -> Numbered | None:
        """Return the command to send now; None if there is none."""
        if self.closed or not self._waiting:
            return None
        if self._in_flight is None:
            self._in_flight = Numbered(next(self._numbers), self._waiting[0], self.broker.id)
        return self._in_flight

    def attempt_failed(self) -> bool:
        """Record a failed attempt; the same command is sent again. Return whether the attempt before did not fail."""
        self.resent += 1
        before, self.unreachable = self.unreachable, True
        return not before

    def replied(self, answer: object) -> CommandReply:
        """Handle a reply, which completes the command in flight. Raise `WrongReply` if the reply does not belong to
        that command, or is from another broker."""
        sent = self._in_flight
        if sent is None or not isinstance(answer, Answer) or answer.number != sent.number:
            raise WrongReply("the reply does not belong to the command in flight")
        if answer.error == ANOTHER_BROKER:
            raise MisaddressedCommand("the registered endpoint belongs to another broker")
        self._waiting.popleft()
        self._in_flight, self.unreachable = None, False
        refused = _refused_roles(sent.command, answer)
        self.refused += bool(refused or answer.error)
        stale = answer.error == STALE_CONTROLLER_EPOCH
        return CommandReply(event_of(self.broker, sent.command, answer), refused, stale)


def event_of(broker: Broker, command: Command, answer: Answer) -> Event | None:
    """Return the event that a reply causes, if any. A LeaderAndIsr that is refused as a whole causes none. If its
    controller epoch is stale, this controller's next write to the store fails and ends the term."""
    if isinstance(command, LeaderAndIsr):
        offline = tuple(tp for tp, error in answer.errors.items() if error in UNUSABLE)
        return LeaderAndIsrReplied(broker.id, broker.epoch, offline) if offline else None
    if isinstance(command, StopReplica):
        deleted = [stop.where for stop in command.stops if stop.delete]
        failed = tuple(tp for tp in deleted if answer.error or answer.errors.get(tp))
        done = tuple(tp for tp in deleted if tp not in failed)
        return StopReplicaReplied(broker.id, broker.epoch, done, failed) if deleted else None
    return None


def _refused_roles(command: Command, answer: Answer) -> dict[TopicPartition, int]:
    """Return the refused roles. A failed log directory is reported as an event instead."""
    if not isinstance(command, LeaderAndIsr):
        return {}
    return {tp: error for tp, error in answer.errors.items() if error not in (NONE, KAFKA_STORAGE_ERROR)}


class CommandChannel:
    """The queues for all registered brokers, during one or several terms."""

    def __init__(
        self,
        overflowed: Callable[[CommandQueueOverflowed], None],
        opened: Callable[[BrokerCommandQueue], None],
        appended: Callable[[BrokerCommandQueue], None],
        closed: Callable[[BrokerCommandQueue], None],
        waiting_max: int,
    ) -> None:
        self._overflowed = overflowed
        """Receives an event for the controller when a queue has overflowed."""
        self._opened = opened
        """Called with each new queue; the driver starts to send its commands."""
        self._appended = appended
        """Called with the queue when a command was added to it."""
        self._closed = closed
        """Called with each queue that is dropped; the driver closes its connection."""
        self._waiting_max = waiting_max
        """The limit of commands in one queue. A queue that would exceed it is dropped, and the broker receives its full
        state."""
        self._queues: dict[BrokerId, BrokerCommandQueue] = {}
        self._numbers = count(1)

    def update_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """Open a queue for each registration without one, and drop the queues of former registrations."""
        for ident, queue in list(self._queues.items()):
            broker = brokers.get(ident)
            if broker is None or broker.epoch != queue.broker.epoch:
                self._drop(ident)
            elif broker.endpoints != queue.broker.endpoints:
                queue.broker = broker  # the next connection uses the new endpoint
        for ident, broker in brokers.items():
            if ident not in self._queues:
                queue = self._queues[ident] = BrokerCommandQueue(broker, self._numbers)
                self._opened(queue)

    def send(self, to: BrokerId, command: Command) -> None:
        queue = self._queues.get(to)
        if queue is None or command.broker_epoch != queue.broker.epoch:
            return
        if len(queue) < self._waiting_max:
            queue.append(command)
            self._appended(queue)
            return
        self._drop(to)
        self._overflowed(CommandQueueOverflowed(to, queue.broker.epoch))

    def close(self) -> None:
        """Drop all queues at the end of a term, so that none of their commands is sent any more."""
        for ident in list(self._queues):
            self._drop(ident)

    def waiting(self) -> dict[BrokerId, int]:
        """Return the number of commands without a reply, by broker."""
        return {ident: len(queue) for ident, queue in self._queues.items()}

    def queues(self) -> list[BrokerCommandQueue]:
        return list(self._queues.values())

    def _drop(self, ident: BrokerId) -> None:
        queue = self._queues.pop(ident)
        queue.closed = True
        self._closed(queue)
