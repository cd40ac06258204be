"""What can happen to a controller, and which procedure answers it. One event at a time, each to its end.

Events say that something is different, never how: whoever handles one reads what is there now. So several changes may
come as one event, and an event too many does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from kraft_controller.core import deletion, failover, isr, members, moves, rebalance, topics
from kraft_controller.core.asks import Brokers, ListBrokers, Steps, TakeLogDirEvents
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicId, TopicPartition


@frozen
class TookOver:
    """This broker has become the controller."""


@frozen
class BrokersChanged:
    pass


@frozen
class BrokerModified:
    id: BrokerId


@frozen
class TopicsChanged:
    pass


@frozen
class TopicModified:
    name: str


@frozen
class ConfigsChanged:
    """Notes say whose."""


@frozen
class StateChanged:
    """Of a partition on the move, or of one whose state could not be read."""

    where: TopicPartition


@frozen
class StatesChanged:
    """Several of these at once."""

    some: tuple[TopicPartition, ...]


@frozen
class DeletionsRequested:
    pass


@frozen
class MovesRequested:
    pass


@frozen
class PreferredRequested:
    pass


@frozen
class IsrChangesNoted:
    pass


@frozen
class LogDirsFailed:
    pass


@frozen
class TimeToBalance:
    pass


# -- what brokers answered -------------------------------------------------------------------------------


@frozen
class RolesAnswered:
    """Of which partitions a broker has a log that it cannot use, on a disk that failed, say, of those it was told its
    role in."""

    broker: BrokerId
    epoch: BrokerEpoch
    offline: tuple[TopicPartition, ...]


@frozen
class DeletionAnswered:
    broker: BrokerId
    epoch: BrokerEpoch
    done: tuple[TopicPartition, ...]
    failed: tuple[TopicPartition, ...]


@frozen
class LinkOverflowed:
    """More waited to be said to this broker than may: all of it was dropped."""

    broker: BrokerId
    epoch: BrokerEpoch


# -- what brokers and people ask, and wait for ---------------------------------------------------------------


@frozen
class ShutdownAsked:
    broker: BrokerId
    epoch: BrokerEpoch


@frozen
class IsrAsked:
    broker: BrokerId
    epoch: BrokerEpoch
    wishes: tuple[isr.Wish, ...]


@frozen
class ElectionAsked:
    partitions: tuple[TopicPartition, ...]
    unclean: bool = False


@frozen
class MovesAsked:
    """None as a target cancels."""

    wanted: Mapping[TopicPartition, Sequence[BrokerId] | None]


Event: TypeAlias = (
    TookOver | BrokersChanged | BrokerModified | TopicsChanged | TopicModified | ConfigsChanged | StateChanged
    | StatesChanged
    | DeletionsRequested | MovesRequested | PreferredRequested | IsrChangesNoted | LogDirsFailed | TimeToBalance
    | RolesAnswered | DeletionAnswered | LinkOverflowed | ShutdownAsked | IsrAsked | ElectionAsked | MovesAsked
)  # fmt: skip


class StaleBrokerEpoch(Exception):
    """Who asks has died and come back since."""


class BrokerNotAvailable(Exception):
    """Who asks is not registered, as far as this controller knows."""


def handle(desk: Desk, event: Event, new_id: Callable[[], TopicId]) -> Steps[Any]:
    """What the procedure returns is the answer to whoever asked."""
    match event:
        case TookOver():
            return (yield from failover.take_over(desk, new_id))
        case BrokersChanged():
            [found] = yield [ListBrokers()]
            return (yield from members.brokers_changed(desk, found.epochs if isinstance(found, Brokers) else {}))
        case BrokerModified(broker):
            return (yield from members.broker_modified(desk, broker))
        case TopicsChanged():
            return (yield from topics.topics_changed(desk, new_id))
        case TopicModified(name):
            return (yield from topics.topic_changed(desk, name, new_id))
        case ConfigsChanged():
            return (yield from topics.configs_changed(desk))
        case StateChanged(where):
            return (yield from _states_changed(desk, [where]))
        case StatesChanged(some):
            return (yield from _states_changed(desk, some))
        case DeletionsRequested():
            return (yield from deletion.requested(desk))
        case MovesRequested():
            return (yield from moves.requested(desk))
        case PreferredRequested():
            return (yield from rebalance.requested(desk))
        case IsrChangesNoted():
            return (yield from isr.noted(desk))
        case LogDirsFailed():
            [found] = yield [TakeLogDirEvents()]
            members.log_dirs_failed(desk, found.epochs if isinstance(found, Brokers) else ())
        case TimeToBalance():
            return (yield from rebalance.balance(desk))
        case RolesAnswered(broker, epoch, offline):
            if _lives(desk, broker, epoch):
                return (yield from members.replicas_failed(desk, broker, offline))
        case DeletionAnswered(broker, epoch, done, failed):
            if _lives(desk, broker, epoch):
                return (yield from deletion.answered(desk, broker, done, failed))
        case LinkOverflowed(broker, epoch):
            if _lives(desk, broker, epoch):
                return (yield from members.told_anew(desk, broker))
        case ShutdownAsked(broker, epoch):
            if broker not in desk.cluster.brokers:
                raise BrokerNotAvailable(f"broker {broker} is not registered")
            if not _lives(desk, broker, epoch):
                raise StaleBrokerEpoch(f"broker {broker} is not registered with epoch {epoch}")
            return (yield from members.controlled_shutdown(desk, broker))
        case IsrAsked(broker, epoch, wishes):
            return (yield from isr.alter(desk, broker, epoch, wishes))
        case ElectionAsked(wanted, unclean):
            return (yield from rebalance.elect(desk, wanted, unclean=unclean))
        case MovesAsked(moved):
            return (yield from moves.start(desk, moved))


def _states_changed(desk: Desk, some: Sequence[TopicPartition]) -> Steps[None]:
    for where in some:
        if where not in desk.cluster.states:
            yield from topics.state_mended(desk, where)
    yield from moves.go_on(desk, *some)


def _lives(desk: Desk, broker: BrokerId, epoch: BrokerEpoch) -> bool:
    """An answer of a life that is over says nothing of the one that is."""
    known = desk.cluster.brokers.get(broker)
    return known is not None and known.epoch == epoch
