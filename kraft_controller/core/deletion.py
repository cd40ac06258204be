"""Deleting topics: all replicas are told to go, and when all have said that they went, so does what is known of them.

The request stays in the store until everything else is gone, so a controller that comes after one that died finds it,
and does again what may have been done: stopping a replica that is gone is no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraft_controller.core import partitions, replicas
from kraft_controller.core.asks import Done, DropDeletion, DropMoves, ForgetTopic, ListDeletions, Names, Steps
from kraft_controller.core.cluster import Replica
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase

_UNKNOWN: Final = "there is no such topic any more, or none that can be read"


def requested(desk: Desk) -> Steps[None]:
    """Somebody may have asked for the deletion of topics."""
    [found] = yield [ListDeletions()]
    names = found.names if isinstance(found, Names) else ()
    yield from ask_for(desk, names)
    yield from go_on(desk)


def ask_for(desk: Desk, names: Iterable[str]) -> Steps[None]:
    cluster = desk.cluster
    dropped: list[DropDeletion | DropMoves] = []
    for name in names:
        if name not in cluster.topics or not desk.settings.deletion:
            why = "topics are not deleted here (delete.topic.enable)" if name in cluster.topics else _UNKNOWN
            desk.note("deletion_refused", topic=name, why=why)
            dropped.append(DropDeletion(name))
        elif name not in cluster.deleting:
            cluster.deleting[name] = None
            # What is on the move is deleted where it comes from and where it goes to. To wait for the end of a move
            # would be to wait for replicas that catch up only to be deleted, and may never.
            moving = [where for where in cluster.partitions_of(name) if cluster.moving.pop(where, True) is None]
            if moving:
                dropped.append(DropMoves(tuple(moving)))
    if dropped:
        yield dropped


def waits_for(desk: Desk, name: str) -> str | None:
    """What a deletion cannot go on without."""
    cluster = desk.cluster
    for where in cluster.partitions_of(name):
        for broker in cluster.brokers_of(where):
            if broker not in cluster.brokers:
                return f"broker {broker}, which holds {where}, is not there"
            if where in cluster.offline_dirs.get(broker, ()):
                return f"{where} is on a failed disk of broker {broker}"
    return None


def go_on(desk: Desk) -> Steps[None]:
    """With all that can go on."""
    cluster = desk.cluster
    for name in list(cluster.deleting):
        why = waits_for(desk, name)
        if why is not None and cluster.deletion_waits.get(name) != why:
            desk.note("deletion_waits", topic=name, why=why)
        if why is None:
            cluster.deletion_waits.pop(name, None)
        else:
            cluster.deletion_waits[name] = why
        yield from _step(desk, name)


def _step(desk: Desk, name: str) -> Steps[None]:
    cluster = desk.cluster
    held = list(cluster.partitions_of(name))
    everyone = [(where, broker) for where in held for broker in cluster.brokers_of(where)]
    if all(cluster.replica_phase(*replica) is ReplicaPhase.DELETION_SUCCESSFUL for replica in everyone):
        yield from _finish(desk, name, held, everyone)
        return
    if name in cluster.deletion_waits:
        return
    if any(cluster.phase(where) is not PartitionPhase.NON_EXISTENT for where in held):
        standing = [where for where in held if cluster.phase(where) is not PartitionPhase.NON_EXISTENT]
        gone = partitions.move(desk, standing, PartitionPhase.OFFLINE)
        partitions.move(desk, gone, PartitionPhase.NON_EXISTENT)
        desk.batch.tell_metadata(cluster.brokers, held)
    started = (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL)
    standing_still = [replica for replica in everyone if cluster.replica_phase(*replica) not in started]
    for replica in standing_still:
        if cluster.replica_phase(*replica) is ReplicaPhase.NON_EXISTENT:
            cluster.replicas[replica] = ReplicaPhase.NEW  # never begun, and yet there may be something on its disk
    yield from replicas.take_offline(desk, standing_still)
    replicas.move(desk, standing_still, ReplicaPhase.DELETION_STARTED)


def _finish(desk: Desk, name: str, held: list[TopicPartition], everyone: list[Replica]) -> Steps[None]:
    replicas.move(desk, everyone, ReplicaPhase.NON_EXISTENT)
    [answer] = yield [ForgetTopic(name)]
    if isinstance(answer, Done):
        desk.cluster.forget_topic(name)
        desk.note("topic_deleted", topic=name)
    else:
        why = "somebody makes nodes below that of the topic"
        desk.cluster.deletion_waits[name] = why
        desk.note("deletion_waits", topic=name, why=why)


def answered(
    desk: Desk, broker: BrokerId, done: Iterable[TopicPartition], failed: Iterable[TopicPartition]
) -> Steps[None]:
    """A broker says which replicas it has deleted, and which it could not."""
    cluster = desk.cluster

    def waiting(named: Iterable[TopicPartition]) -> list[Replica]:
        started = ReplicaPhase.DELETION_STARTED
        return [(where, broker) for where in named if cluster.replica_phase(where, broker) is started]

    replicas.move(desk, waiting(done), ReplicaPhase.DELETION_SUCCESSFUL)
    could_not = replicas.move(desk, waiting(failed), ReplicaPhase.DELETION_INELIGIBLE)
    for where, _ in could_not:
        cluster.deletion_waits[where.topic] = f"broker {broker} could not delete {where}"
        desk.note("deletion_waits", topic=where.topic, why=cluster.deletion_waits[where.topic])
    for name in {where.topic: None for where in done}:
        if name in cluster.deleting:
            yield from _step(desk, name)


def replicas_died(desk: Desk, dead: Iterable[Replica]) -> None:
    """Their brokers are gone in the middle of it. It goes on when they are back."""
    cluster = desk.cluster
    for where, broker in dead:
        if cluster.replica_phase(where, broker) is not ReplicaPhase.DELETION_SUCCESSFUL:
            cluster.replicas[where, broker] = ReplicaPhase.DELETION_INELIGIBLE
            cluster.deletion_waits[where.topic] = f"broker {broker}, which holds {where}, is not there"
