"""Checks after the last fault: every broker has the state in the store, and all replicas are equal."""

from __future__ import annotations

from collections.abc import Mapping

from harness.checkers.controller.settled import Data, absent, expected
from harness.checkers.partitions.checkers import ReplicationCheckers
from harness.checkers.partitions.observed import Broker
from kraft_controller.core.names import OFFSETS_TOPIC, BrokerId, TopicPartition
from kraft_controller.core.state import Assignment, PartitionState
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.leader_role import LeaderRole

States = Mapping[TopicPartition, tuple[PartitionState, Assignment]]


def apart(data: Data, versions: Mapping[str, int], brokers: Mapping[BrokerId, Broker], count: int) -> str | None:
    """Return the first difference between the state in the store and the brokers; None if there is none."""
    missing = absent(data, brokers, count)
    if missing is not None:
        return missing
    states = expected(data, versions)
    for broker in brokers.values():
        missing = _unlike(broker, states)
        if missing is not None:
            return missing
    return None


def _unlike(broker: Broker, states: States) -> str | None:
    name = f"broker {broker.id}"
    for where, (state, held) in states.items():
        cached = broker.metadata.state(where)
        if cached is None or (cached.leader, cached.leader_epoch, cached.isr) != (
            state.leader, state.leader_epoch, state.isr,
        ):  # fmt: skip
            return f"{name} has {cached} in its metadata for {where}, not {state}"
        if broker.id not in held.replicas:
            continue
        partition = broker.core.partitions.get(where)
        if partition is None:
            return f"{name} has no replica of {where}"
        if (partition.leader, partition.leader_epoch) != (state.leader, state.leader_epoch):
            return f"{name} has leader {partition.leader} of epoch {partition.leader_epoch} for {where}, not {state}"
        if partition.assignment.replicas != held.replicas:
            return f"{name} has {partition.assignment} for {where}, not {held}"
        role = partition.role
        if broker.id == state.leader:
            if not isinstance(role, LeaderRole) or role.isr.asked is not None or role.isr.version != state.version:
                return f"{name} should lead {where}, and has not received {state}"
        elif not isinstance(role, FollowerRole):
            return f"{name} should follow in {where}, and does not"
    for where, partition in broker.core.partitions.items():
        if partition.role is not None and (where not in states or broker.id not in states[where][1].replicas):
            return f"{name} still has a role in {where}, of which it should have no replica"
    return None


def unequal(checkers: ReplicationCheckers) -> str | None:
    """Return the first difference between replicas, uncommitted record, or request without a reply.

    Return None if there is none.
    """
    replicas, world = checkers.replicas, checkers.replicas.world
    for key, producer in world.workload.producers.items():
        if not replicas.exists(producer.where):
            producer.forget()
        if not producer.settled:
            return f"producer {key[0]} of {producer.where} has no reply to a batch"
    for committer in world.workload.committers.values():
        if not committer.settled and not replicas.exists(TopicPartition(OFFSETS_TOPIC, 0)):
            committer.forget()
        if not committer.settled:
            return f"committer {committer.number} of group {committer.group} has no reply to a commit"
    for transactor in world.workload.transactors.values():
        if not transactor.settled:
            transactor.forget(replicas.exists)
        if not transactor.settled:
            return f"transactional producer {transactor.number} has transactions that have not ended"
    if (missing := checkers.positions.unsettled()) is not None:
        return missing
    for broker in world.brokers.values():
        for where, partition in broker.core.partitions.items():
            if partition.role is None:
                continue
            truth = replicas.truth(where)
            copy = replicas.copies[broker.id][where]
            leader = replicas.copy(partition.leader, where)
            if leader is not None and copy.start < leader.start:
                return f"broker {broker.id} has log start {copy.start} in {where}, and its leader {leader.start}"
            if not len(copy.records) == len(truth.committed) == copy.has_of(truth.committed):
                return (
                    f"broker {broker.id} has {len(copy.records)} records of {where} that differ from the "
                    f"{len(truth.committed)} committed ones"
                )
            if partition.high_watermark != len(copy.records):
                text = f"has high watermark {partition.high_watermark} in {where}, not {len(copy.records)}"
                return f"broker {broker.id} {text}"
    for consumer in world.workload.consumers.values():
        where = consumer.where
        if replicas.exists(where) and consumer.offset < checkers.stability.readable(
            where, committed=consumer.committed
        ):
            return f"consumer {consumer.number} of {where} has stopped at offset {consumer.offset}"
    return None
