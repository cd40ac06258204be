"""The replica state machine: telling brokers to begin, to go on and to stop, and taking who is gone out of the ISR."""

from __future__ import annotations

from collections.abc import Iterable

from kraft_controller.core import election
from kraft_controller.core.asks import Steps
from kraft_controller.core.cluster import Replica
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.partitions import Failed, write_states
from kraft_controller.core.state import PartitionState
from kraft_controller.core.transitions import REPLICA_FROM, ReplicaPhase, may


def _may(desk: Desk, replicas: Iterable[Replica], to: ReplicaPhase) -> list[Replica]:
    """Those that may go there; what may not is noted and left alone: it is a mistake of ours."""
    allowed = []
    for where, broker in replicas:
        before = desk.cluster.replica_phase(where, broker)
        if may(REPLICA_FROM, before, to):
            allowed.append((where, broker))
        else:
            desk.note("illegal_transition", partition=str(where), broker=broker, before=before.value, after=to.value)
    return allowed


def move(desk: Desk, replicas: Iterable[Replica], to: ReplicaPhase) -> list[Replica]:
    """Those that went there. `OFFLINE` has a procedure of its own, because it writes."""
    cluster, batch = desk.cluster, desk.batch
    moved = _may(desk, replicas, to)
    for where, broker in moved:
        before = cluster.replica_phase(where, broker)
        if to is ReplicaPhase.DELETION_STARTED:
            batch.tell_stop(broker, where, delete=True)
        elif to in (ReplicaPhase.NEW, ReplicaPhase.ONLINE) and where in cluster.states:
            fresh = to is ReplicaPhase.NEW
            if fresh or before is not ReplicaPhase.NEW:  # a new one was told when its partition got a leader
                batch.tell_role([broker], where, is_new=fresh)
        if to is ReplicaPhase.NON_EXISTENT:
            cluster.replicas.pop((where, broker), None)
        else:
            cluster.replicas[where, broker] = to
    return moved


def take_offline(desk: Desk, replicas: Iterable[Replica]) -> Steps[Failed]:
    """They are stopped where somebody can hear it, and leave the ISR.

    Where one is not in it, its leader may be about to write that it is, on what it knows of a life that is over; and if
    the broker is back by then nothing in the store tells one life from the other. So the state is written all the same,
    under another version: whatever a leader has asked for before, it has to look again.
    """
    cluster, batch = desk.cluster, desk.batch
    allowed = _may(desk, replicas, ReplicaPhase.OFFLINE)
    failed: Failed = {}
    leaving: dict[TopicPartition, list[BrokerId]] = {}
    for where, broker in allowed:
        batch.tell_stop(broker, where, delete=False)
        leaving.setdefault(where, []).append(broker)
    waiting = list(leaving)
    while waiting:
        states: dict[TopicPartition, PartitionState] = {}
        for where in waiting:
            state = cluster.states.get(where)
            if state is None:
                batch.tell_metadata(cluster.brokers, [where])
            elif state.controller_epoch > desk.epoch:
                failed[where] = f"the controller of epoch {state.controller_epoch} has decided on it since"
            elif (shrunk := _without_all(desk, state, leaving[where])) is not None:
                states[where] = shrunk
            elif _may_be_let_in(desk, where, state, leaving[where]):
                states[where] = state
        waiting = yield from write_states(desk, states, failed)
        for where in states:
            if where not in waiting and where not in failed and not cluster.is_deleting(where.topic):
                others = [broker for broker in cluster.brokers_of(where) if broker not in leaving[where]]
                batch.tell_role(others, where)
    for where, broker in allowed:
        cluster.replicas[where, broker] = ReplicaPhase.OFFLINE
    for where, why in failed.items():
        desk.note("isr_not_shrunk", partition=str(where), why=why)
    return failed


def _without_all(desk: Desk, state: PartitionState, brokers: Iterable[BrokerId]) -> PartitionState | None:
    """In one decision, however many go: one leader epoch."""
    shrunk: PartitionState | None = None
    for broker in brokers:
        after = election.without(shrunk or state, broker, desk.epoch)
        if after is not None:
            shrunk = state.next(desk.epoch, leader=after.leader, isr=after.isr)
    return shrunk


def _may_be_let_in(desk: Desk, where: TopicPartition, state: PartitionState, gone: Iterable[BrokerId]) -> bool:
    cluster = desk.cluster
    led = state.leader in cluster.brokers and state.leader not in gone
    return led and not cluster.is_deleting(where.topic) and set(gone) <= set(cluster.brokers_of(where))
