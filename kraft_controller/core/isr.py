"""Changes of ISRs that leaders make: written by them and noted, or asked of the controller."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from attrs import evolve, frozen

from kraft_controller.core import moves, partitions
from kraft_controller.core.asks import Partitions, Steps, TakeIsrChanges
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.partitions import Failed
from kraft_controller.core.state import PartitionState, Recovery


def noted(desk: Desk) -> Steps[None]:
    """Leaders have written ISRs themselves, and left a note of which. The picture follows, and everybody hears."""
    [found] = yield [TakeIsrChanges()]
    named = found.partitions if isinstance(found, Partitions) else ()
    known = [where for where in dict.fromkeys(named) if where in desk.cluster.states]
    failed: Failed = {}
    read = yield from partitions.read_states(desk, known, failed)
    desk.batch.tell_metadata(desk.cluster.brokers, read)
    yield from moves.go_on(desk, *read)


class Error(Enum):
    """As the wire names them."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    STALE_BROKER_EPOCH = 77
    INVALID_UPDATE_VERSION = 95
    INELIGIBLE_REPLICA = 107


@frozen
class Member:
    id: BrokerId
    epoch: BrokerEpoch = BrokerEpoch(-1)
    """Which of its lives the leader means; -1: it does not say."""


@frozen
class Wish:
    """What a leader wants its ISR to be, on what it knows of the partition."""

    where: TopicPartition
    leader_epoch: LeaderEpoch
    version: Version
    isr: tuple[Member, ...]
    recovery: Recovery = Recovery.RECOVERED


@frozen
class Granted:
    error: Error
    state: PartitionState | None = None
    """As it is now, where there is no error."""


def alter(
    desk: Desk, broker: BrokerId, epoch: BrokerEpoch, wishes: Sequence[Wish]
) -> Steps[dict[TopicPartition, Granted]]:
    """A leader asks. Refused as a whole if the broker that asks has died and come back since."""
    cluster = desk.cluster
    known = cluster.brokers.get(broker)
    if known is None or known.epoch != epoch:
        return {wish.where: Granted(Error.STALE_BROKER_EPOCH) for wish in wishes}
    answers: dict[TopicPartition, Granted] = {}
    writes: dict[TopicPartition, PartitionState] = {}
    for wish in wishes:
        judged = _judge(desk, broker, wish)
        if isinstance(judged, PartitionState):
            writes[wish.where] = judged
        else:
            answers[wish.where] = judged
    failed: Failed = {}
    changed = yield from partitions.write_states(desk, writes, failed)
    for where in writes:
        if where in changed or where in failed:
            answers[where] = Granted(Error.INVALID_UPDATE_VERSION)
        else:
            answers[where] = Granted(Error.NONE, cluster.states[where])
    written = [where for where in writes if answers[where].error is Error.NONE]
    desk.batch.tell_metadata(cluster.brokers if written else (), written)
    yield from moves.go_on(desk, *written)
    return answers


def _judge(desk: Desk, broker: BrokerId, wish: Wish) -> Granted | PartitionState:
    """An answer, or the state that the leader may have. Who is behind is told so before anything else is looked at."""
    cluster = desk.cluster
    state = cluster.states.get(wish.where)
    if state is None:
        return Granted(Error.UNKNOWN_TOPIC_OR_PARTITION)
    if wish.leader_epoch > state.leader_epoch or wish.version > state.version:
        return Granted(Error.NOT_CONTROLLER)  # it has heard of something newer than this controller knows
    if wish.leader_epoch < state.leader_epoch:
        return Granted(Error.FENCED_LEADER_EPOCH)
    isr = tuple(member.id for member in wish.isr)
    if isr == state.isr and wish.recovery is state.recovery:
        return Granted(Error.NONE, state)  # the answer to the first asking was lost
    if wish.version < state.version:
        return Granted(Error.INVALID_UPDATE_VERSION)
    recovering = wish.recovery is Recovery.RECOVERING
    if (
        broker != state.leader
        or broker not in isr
        or len(set(isr)) != len(isr)
        or not set(isr) <= set(cluster.brokers_of(wish.where))
        or (recovering and (len(isr) > 1 or state.recovery is Recovery.RECOVERED))
    ):
        return Granted(Error.INVALID_REQUEST)
    for member in wish.isr:
        there = cluster.brokers.get(member.id)
        if there is None or member.id in cluster.leaving or member.epoch not in (-1, there.epoch):
            return Granted(Error.INELIGIBLE_REPLICA)
    # The leader epoch stays: it is the leader's own decision, and nobody has to be told to stop.
    return evolve(state, isr=isr, recovery=wish.recovery, controller_epoch=desk.epoch)
