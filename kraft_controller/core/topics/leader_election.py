"""The leader election of a partition (PartitionLeaderElectionAlgorithms in Apache Kafka).

The leader is the first eligible replica in the order of the assignment; the order of the ISR does not matter. Each
election returns the state to write and the brokers to notify, or None if no replica is eligible.
"""

from __future__ import annotations

from collections.abc import Container

from attrs import frozen

from kraft_controller.core.names import NO_LEADER, BrokerId, ControllerEpoch
from kraft_controller.core.state import PartitionState, Recovery


@frozen
class Election:
    state: PartitionState
    recipients: tuple[BrokerId, ...]
    """The brokers to which the new state is sent in a LeaderAndIsr."""
    unclean: bool = False
    """True if the new leader was not in the ISR: records that only ISR members had are lost."""


def offline(
    replicas: tuple[BrokerId, ...],
    state: PartitionState,
    live: Container[int],
    by: ControllerEpoch,
    *,
    unclean: bool = False,
) -> Election | None:
    """Replace a failed leader by an ISR member. With `unclean`, use any live replica if no ISR member is live."""
    there = tuple(replica for replica in replicas if replica in live)
    for replica in there:
        if replica in state.isr:
            isr = tuple(member for member in state.isr if member in live)
            return Election(state.next(by, leader=replica, isr=isr), there)
    if unclean and there:
        state = state.next(by, leader=there[0], isr=(there[0],), recovery=Recovery.RECOVERING)
        return Election(state, there, unclean=True)
    return None


def reassigned(
    target: tuple[BrokerId, ...], state: PartitionState, live: Container[int], by: ControllerEpoch
) -> Election | None:
    """Elect the first of a reassignment's target replicas that is live and in the ISR."""
    for replica in target:
        if replica in live and replica in state.isr:
            isr = tuple(member for member in state.isr if member in live)
            return Election(state.next(by, leader=replica, isr=isr), target)
    return None


def preferred(
    replicas: tuple[BrokerId, ...], state: PartitionState, live: Container[int], by: ControllerEpoch
) -> Election | None:
    """Elect the first replica of the assignment if it is live and in the ISR."""
    if replicas and replicas[0] in live and replicas[0] in state.isr:
        return Election(state.next(by, leader=replicas[0]), replicas)
    return None


def controlled_shutdown(
    replicas: tuple[BrokerId, ...],
    state: PartitionState,
    live: Container[int],
    shutting_down: Container[int],
    by: ControllerEpoch,
) -> Election | None:
    """Replace a leader in controlled shutdown by an ISR member. The former leader still receives commands, so it is
    notified, too."""
    reachable = tuple(replica for replica in replicas if replica in live or replica in shutting_down)
    for replica in reachable:
        if replica in state.isr and replica not in shutting_down:
            isr = tuple(member for member in state.isr if member not in shutting_down)
            return Election(state.next(by, leader=replica, isr=isr), reachable)
    return None


def without(state: PartitionState, replica: BrokerId, by: ControllerEpoch) -> PartitionState | None:
    """Remove an offline replica from the ISR; return None if it is not a member.

    The last member of the ISR is kept, so that the replica with all committed records is still known.
    """
    if replica not in state.isr:
        return None
    leader = NO_LEADER if state.leader == replica else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple(member for member in state.isr if member != replica)
    return state.next(by, leader=leader, isr=isr)
