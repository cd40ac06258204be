"""Checks after the last fault: every procedure has ended, and every broker agrees with the store."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Final, Protocol

from harness.checkers.controller.case import ANY, STATE, TOPIC, read_state, read_topic
from kraft_controller.core.commands import Role
from kraft_controller.core.names import NO_LEADER, BrokerId, TopicPartition, Version
from kraft_controller.core.state import Assignment, PartitionState, Topic
from kraft_controller.wire import znodes

UNFINISHED: Final = "everything that was begun completes"
APART: Final = "brokers agree with the store"

Data = Mapping[str, bytes | None]


class Replicas(Protocol):
    """The state of a broker: its metadata, its roles, and the partitions on its disk."""

    @property
    def metadata(self) -> Mapping[TopicPartition, PartitionState]: ...
    @property
    def roles(self) -> Mapping[TopicPartition, Role]: ...
    @property
    def stopped(self) -> Container[TopicPartition]: ...
    @property
    def disk(self) -> Collection[TopicPartition]: ...


def unfinished(data: Data) -> str | None:
    """Return a request or a procedure that has not ended, or None."""
    for path in (znodes.REASSIGN, znodes.PREFERRED):
        if path in data:
            return f"{path} still exists: {data[path]!r}"
    for path in data:
        if path.startswith((znodes.DELETE_TOPICS + "/", znodes.ISR_CHANGES + "/", znodes.LOG_DIR_EVENTS + "/")):
            return f"{path} still exists"
    for topic in _topics(data).values():
        for number, held in topic.partitions.items():
            where = TopicPartition(topic.name, number)
            if held.moving:
                return f"{where} is still in a reassignment: {held}"
            node = data.get(znodes.state_path(where))
            if node is None:
                return f"{where} has no state"
            state = read_state(where, node, ANY)
            if state.leader == NO_LEADER:
                return f"{where} has no leader: {state}"
            if set(state.isr) != set(held.replicas):
                return f"{where}: the ISR is {list(state.isr)}, but the replicas are {list(held.replicas)}"
    return None


def apart(data: Data, versions: Mapping[str, int], replicas: Mapping[BrokerId, Replicas], brokers: int) -> str | None:
    """Return a difference between the brokers and the store, or None.

    All brokers must be registered. Each must have the right metadata of all partitions, and the right roles for its
    own.
    """
    missing = absent(data, replicas, brokers) or _unlisted(data)
    if missing is not None:
        return missing
    states = expected(data, versions)
    return next(filter(None, (_unlike(broker, known, states) for broker, known in replicas.items())), None)


def absent(data: Data, there: Container[BrokerId], brokers: int) -> str | None:
    if znodes.CONTROLLER not in data:
        return "no broker is the controller"
    for number in range(1, brokers + 1):
        if znodes.broker_path(BrokerId(number)) not in data or BrokerId(number) not in there:
            return f"broker {number} is not registered"
    return None


def _unlisted(data: Data) -> str | None:
    """Return the path of a partition state whose topic does not list the partition, or None."""
    topics = _topics(data)
    for path in data:
        named = STATE.fullmatch(path)
        if named is not None:
            topic = topics.get(named[1])
            if topic is None or int(named[2]) not in topic.partitions:
                return f"{path} exists, but its topic does not list the partition"
    return None


def expected(data: Data, versions: Mapping[str, int]) -> dict[TopicPartition, tuple[PartitionState, Assignment]]:
    """Return the state and assignment of every partition, which all brokers must have in the end."""
    topics = _topics(data)
    found = {}
    for path, node in data.items():
        named = STATE.fullmatch(path)
        if named is not None:
            where = TopicPartition(named[1], int(named[2]))
            state = read_state(where, node, Version(versions[path]))
            found[where] = state, topics[where.topic].partitions[where.partition]
    return found


def _unlike(
    broker: BrokerId, known: Replicas, states: Mapping[TopicPartition, tuple[PartitionState, Assignment]]
) -> str | None:
    for where, (state, held) in states.items():
        has = known.metadata.get(where)
        if has is None or (has.leader, has.leader_epoch, has.isr) != (state.leader, state.leader_epoch, state.isr):
            return f"broker {broker} has the metadata {has} for {where}, but the store has {state}"
        role = known.roles.get(where)
        if broker in held.replicas:
            if role is None:
                return f"broker {broker} has no role for {where}"
            if (role.state.leader, role.state.leader_epoch) != (state.leader, state.leader_epoch):
                return f"broker {broker} has the role {role.state} for {where}, but the store has {state}"
            if role.assignment.replicas != held.replicas or where in known.stopped:
                return f"broker {broker} has the assignment {role.assignment} for {where}, but the store has {held}"
            if broker == state.leader and role.state.version != state.version:
                return f"broker {broker} leads {where} with version {role.state.version}, but it is {state.version}"
    for where in (*known.roles, *known.disk):
        if where not in states or broker not in states[where][1].replicas:
            return f"broker {broker} still has {where}, but is not a replica"
    for where in known.metadata:
        if where not in states:
            return f"broker {broker} still has metadata for {where}, which has no state in the store"
    return None


def _topics(data: Data) -> dict[str, Topic]:
    """Return the topics by name."""
    return {named[1]: read_topic(named[1], data[path], ANY) for path in data if (named := TOPIC.fullmatch(path))}
