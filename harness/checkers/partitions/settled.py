"""Checks after the last fault: every broker knows the state in the store, and all replicas are equal."""

from __future__ import annotations

from collections.abc import Mapping

from harness.checkers.controller.settled import Data, absent, expected
from harness.checkers.partitions.checkers import Checkers
from harness.checkers.partitions.observed import Broker
from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, BrokerId, TopicPartition
from kraft_controller.core.state import Assignment, PartitionState
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.leader_role import LeaderRole

States = Mapping[TopicPartition, tuple[PartitionState, Assignment]]


def apart(data: Data, versions: Mapping[str, int], brokers: Mapping[BrokerId, Broker], count: int) -> str | None:
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
    who = f"broker {broker.id}"
    for where, (state, held) in states.items():
        knows = broker.metadata.state(where)
        if knows is None or (knows.leader, knows.leader_epoch, knows.isr) != (
            state.leader, state.leader_epoch, state.isr,
        ):  # fmt: skip
            return f"{who} takes {knows} for {where}, which is {state}"
        if broker.id not in held.replicas:
            continue
        partition = broker.core.partitions.get(where)
        if partition is None:
            return f"{who} does not hold {where}"
        if (partition.leader, partition.leader_epoch) != (state.leader, state.leader_epoch):
            return f"{who} takes {partition.leader} in epoch {partition.leader_epoch} for the leader of {state}"
        if partition.assignment.replicas != held.replicas:
            return f"{who} has {where} as {partition.assignment}, which is {held}"
        role = partition.role
        if broker.id == state.leader:
            if not isinstance(role, LeaderRole) or role.isr.asked is not None or role.isr.version != state.version:
                return f"{who} leads {where}, and has not come to know {state}"
        elif not isinstance(role, FollowerRole):
            return f"{who} does not follow in {where}"
    for where, partition in broker.core.partitions.items():
        if partition.role is not None and (where not in states or broker.id not in states[where][1].replicas):
            return f"{who} still has a part in {where}"
    return None


def unequal(checkers: Checkers) -> str | None:
    """Check that all records are committed at all replicas, and that every request has its reply."""
    replicas, world = checkers.replicas, checkers.replicas.world
    for key, producer in world.workload.producers.items():
        if not replicas.exists(producer.where):
            producer.forget()
        if not producer.settled:
            return f"producer {key[0]} of {producer.where} has not been told what became of what it wrote"
    for committer in world.workload.committers.values():
        if not committer.settled and not replicas.exists(TopicPartition(OFFSETS_TOPIC, 0)):
            committer.forget()
        if not committer.settled:
            return f"{committer.number} in {committer.group} has not been told what became of what it committed"
    for transactor in world.workload.transactors.values():
        if not transactor.settled and not replicas.exists(TopicPartition(TRANSACTIONS_TOPIC, 0)):
            transactor.forget()
        if not transactor.settled:
            return f"transactor {transactor.number} has not ended all its transactions"
    if (missing := checkers.positions.unsettled()) is not None:
        return missing
    for broker in world.brokers.values():
        for where, partition in broker.core.partitions.items():
            if partition.role is None:
                continue
            truth = replicas.truth(where)
            copy = replicas.copies[broker.id][where]
            leads = replicas.copy(partition.leader, where)
            if leads is not None and copy.start < leads.start:
                return f"broker {broker.id} has {where} from {copy.start} on, and its leader from {leads.start} on"
            if not len(copy.records) == len(truth.committed) == copy.has_of(truth.committed):
                return (
                    f"broker {broker.id} holds {len(copy.records)} records of {where}, and {len(truth.committed)} "
                    "are committed"
                )
            if partition.high_watermark != len(copy.records):
                return f"broker {broker.id} has {where} up to {partition.high_watermark}, not {len(copy.records)}"
    for consumer in world.workload.consumers.values():
        where = consumer.where
        if replicas.exists(where) and consumer.offset < checkers.stability.readable(
            where, committed=consumer.committed
        ):
            return f"consumer {consumer.number} of {where} has come to {consumer.offset} only"
    return None
