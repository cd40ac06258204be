"""Who is to lead a partition: the first in the order of the assignment that may. The order of the ISR says nothing.

Each function answers with the state to be written and with who must be told, or with None: nobody can lead.
"""

from __future__ import annotations

from collections.abc import Container

from attrs import frozen

from kraft_controller.core.names import BrokerId, ControllerEpoch
from kraft_controller.core.state import PartitionState, Recovery


@frozen
class Election:
    state: PartitionState
    tell: tuple[BrokerId, ...]
    """Who must hear of it: those who hold a replica and can hear."""
    unclean: bool = False
    """The new leader was not in sync: what only the others had is lost."""


def offline(
    replicas: tuple[BrokerId, ...],
    state: PartitionState,
    live: Container[int],
    by: ControllerEpoch,
    *,
    unclean: bool = False,
) -> Election | None:
    """The leader is gone. With `unclean`, when nobody in sync is alive anybody will do."""
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
    """The replicas have moved to `target`, and the leader is not among them, or dead."""
    for replica in target:
        if replica in live and replica in state.isr:
            isr = tuple(member for member in state.isr if member in live)
            return Election(state.next(by, leader=replica, isr=isr), target)
    return None


def preferred(
    replicas: tuple[BrokerId, ...], state: PartitionState, live: Container[int], by: ControllerEpoch
) -> Election | None:
    """The first of the assignment, or nobody."""
    if replicas and replicas[0] in live and replicas[0] in state.isr:
        return Election(state.next(by, leader=replicas[0]), replicas)
    return None


def controlled_shutdown(
    replicas: tuple[BrokerId, ...],
    state: PartitionState,
    live: Container[int],
    leaving: Container[int],
    by: ControllerEpoch,
) -> Election | None:
    """Some brokers are about to leave. They still hear, and must hear that they lead no more."""
    hearing = tuple(replica for replica in replicas if replica in live or replica in leaving)
    for replica in hearing:
        if replica in state.isr and replica not in leaving:
            isr = tuple(member for member in state.isr if member not in leaving)
            return Election(state.next(by, leader=replica, isr=isr), hearing)
    return None


def without(state: PartitionState, replica: BrokerId, by: ControllerEpoch) -> PartitionState | None:
    """A replica went offline. None when it is not in the ISR, so that nothing is to be written.

    The last in-sync replica stays on record, so that the one who has everything can be told from the others
    when they come back.
    """
    if replica not in state.isr:
        return None
    leader = BrokerId(-1) if state.leader == replica else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple(member for member in state.isr if member != replica)
    return state.next(by, leader=leader, isr=isr)
