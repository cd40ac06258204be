"""A description of the cluster, read from its nodes, for tables and for plans.

The nodes are read with many concurrent requests, not in one transaction, so the description may combine nodes of
different moments. A change that is planned with the description is checked again when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from attrs import frozen

import zab
from kraft_controller.core.names import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicPartition,
    Version,
    decimal,
    wrong_with_name,
)
from kraft_controller.core.state import Assignment, Broker, PartitionState, Topic
from kraft_controller.runtime.bounded_requests import run_bounded
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode


@frozen
class Registered:
    broker: Broker
    since_ms: int
    """The time of the registration, by the store's clock."""


@frozen
class Acting:
    """The current controller."""

    id: BrokerId
    since_ms: int


@frozen
class ClusterDescription:
    """Brokers, topics and partitions, at about the same time.

    brokers  the registered brokers, by id
    topics   the topics, by name
    states   leader and ISR of each partition that has them
    """

    brokers: Mapping[BrokerId, Registered]
    topics: Mapping[str, Topic]
    states: Mapping[TopicPartition, PartitionState]
    configs: Mapping[str, Mapping[str, str]]
    """The configurations of topics."""
    deleting: frozenset[str]
    """Topics whose deletion is requested."""
    damaged: tuple[str, ...]
    """Descriptions of nodes that cannot be parsed."""

    def partitions(self, topics: Iterable[str] | None = None) -> list[TopicPartition]:
        """Return the partitions of these topics, or of all."""
        names = self.topics if topics is None else topics
        return [TopicPartition(name, number) for name in names for number in sorted(self.topics[name].partitions)]

    def assignment(self, where: TopicPartition) -> Assignment:
        """Return the replicas of a partition."""
        return self.topics[where.topic].partitions[where.partition]

    def isr(self, where: TopicPartition) -> tuple[BrokerId, ...]:
        """Return the registered members of the ISR. The recorded ISR may also name failed brokers: one that has just
        failed, or the last member, which the controller keeps."""
        state = self.states.get(where)
        return () if state is None else tuple(broker for broker in state.isr if broker in self.brokers)

    def leader(self, where: TopicPartition) -> BrokerId | None:
        """Return the leader; None if there is no registered leader."""
        state = self.states.get(where)
        return None if state is None or state.leader not in self.brokers else state.leader

    def min_isr(self, where: TopicPartition, default: int) -> int:
        """Return the topic's own `min.insync.replicas`, or `default`, the value of the brokers."""
        known = decimal(self.configs.get(where.topic, {}).get("min.insync.replicas", ""))
        return default if known is None else known

    def deletion_waits(self, name: str) -> str | None:
        """Return `waits for broker N` if replicas of this topic are on unregistered brokers, else None.

        A deletion may also wait for other reasons, such as a failed log directory, which only the controller knows.
        """
        away = {
            broker: None
            for held in self.topics[name].partitions.values()
            for broker in held.replicas
            if broker not in self.brokers
        }
        if not away:
            return None
        named = ", ".join(map(str, sorted(away)))
        return f"waits for broker {named}" if len(away) == 1 else f"waits for brokers {named}"

    def led_by(self, broker: BrokerId) -> list[TopicPartition]:
        """Return the partitions that a broker leads."""
        return [where for where in self.partitions() if self.leader(where) == broker]

    def on(self, broker: BrokerId) -> list[TopicPartition]:
        """Return the partitions with a replica on a broker."""
        return [where for where in self.partitions() if broker in self.assignment(where).replicas]


async def describe_cluster(session: zab.Session, topics: Iterable[str] | None = None) -> ClusterDescription:
    """Read the cluster with these topics, or with all. Missing topics are left out."""
    damaged: list[str] = []
    brokers = await read_brokers(session, damaged)
    names = []
    for name in sorted(await names_below(session, znodes.TOPICS) if topics is None else set(topics)):
        why = wrong_with_name(name)
        if why is None:
            names.append(name)
        elif topics is None or await session.exists(znodes.topic_path(name)) is not None:
            damaged.append(f"{znodes.topic_path(name)}: {why}; the controller ignores it")
    found = {
        topic.name: topic for topic in await run_bounded([partial(_topic, session, n, damaged) for n in names]) if topic
    }
    wheres = [TopicPartition(topic.name, number) for topic in found.values() for number in topic.partitions]
    states = await run_bounded([partial(_state, session, where, damaged) for where in wheres])
    configs = await run_bounded([partial(_config, session, name, damaged) for name in found])
    return ClusterDescription(
        brokers,
        found,
        {where: state for where, state in zip(wheres, states, strict=True) if state is not None},
        dict(zip(found, configs, strict=True)),
        frozenset(await names_below(session, znodes.DELETE_TOPICS)),
        tuple(damaged),
    )


async def read_brokers(session: zab.Session, damaged: list[str] | None = None) -> dict[BrokerId, Registered]:
    numbers = [number for name in await names_below(session, znodes.BROKERS) if (number := decimal(name)) is not None]
    damaged = [] if damaged is None else damaged
    found = await run_bounded([partial(_broker, session, BrokerId(number), damaged) for number in numbers])
    return {each.broker.id: each for each in sorted((e for e in found if e), key=lambda each: each.broker.id)}


async def read_acting(session: zab.Session) -> Acting | None:
    """Return the controller; None if there is none, or if its node cannot be parsed."""
    try:
        data, stat = await session.get(znodes.CONTROLLER)
        return Acting(znodes.read_controller(data), stat.ctime)
    except (zab.NoNode, DamagedNode):
        return None


async def read_epoch(session: zab.Session) -> ControllerEpoch:
    """Return the newest controller epoch; 0 if there has been no controller, or if the node cannot be parsed."""
    try:
        return znodes.read_controller_epoch((await session.get(znodes.CONTROLLER_EPOCH))[0])
    except (zab.NoNode, DamagedNode):
        return ControllerEpoch(0)


async def read_wrong_requests(session: zab.Session) -> tuple[str, ...]:
    """Return an error for each node that cannot be parsed, of `/controller`, `/controller_epoch`, and the requests for
    reassignments and elections.

    The controller ignores damaged requests. A damaged `/controller` or `/controller_epoch` may block the next
    controller election.
    """
    found: list[str] = []
    for path, read in _REQUESTS.items():
        try:
            read((await session.get(path))[0])
        except zab.NoNode:
            continue
        except DamagedNode as error:
            found.append(str(error))
    return tuple(found)


_REQUESTS: Final[Mapping[str, Callable[[bytes | None], object]]] = {
    znodes.CONTROLLER: znodes.read_controller,
    znodes.CONTROLLER_EPOCH: znodes.read_controller_epoch,
    znodes.REASSIGN: znodes.read_reassignment,
    znodes.PREFERRED: znodes.read_elections,
}


async def names_below(session: zab.Session, path: str) -> list[str]:
    try:
        return await session.children(path)
    except zab.NoNode:
        return []


async def _broker(session: zab.Session, ident: BrokerId, damaged: list[str]) -> Registered | None:
    try:
        data, stat = await session.get(znodes.broker_path(ident))
        return Registered(znodes.read_broker(ident, data, BrokerEpoch(stat.czxid)), stat.ctime)
    except zab.NoNode:
        return None
    except DamagedNode as error:
        damaged.append(str(error))
        return None


async def _topic(session: zab.Session, name: str, damaged: list[str]) -> Topic | None:
    try:
        data, stat = await session.get(znodes.topic_path(name))
        return znodes.read_topic(name, data, Version(stat.version))
    except zab.NoNode:
        return None
    except DamagedNode as error:
        damaged.append(str(error))
        return None


async def _state(session: zab.Session, where: TopicPartition, damaged: list[str]) -> PartitionState | None:
    try:
        data, stat = await session.get(znodes.state_path(where))
        return znodes.read_partition_state(where, data, Version(stat.version))
    except zab.NoNode:
        return None
    except DamagedNode as error:
        damaged.append(str(error))
        return None


async def _config(session: zab.Session, name: str, damaged: list[str]) -> Mapping[str, str]:
    path = znodes.config_path("topics", name)
    try:
        return znodes.read_config(path, (await session.get(path))[0])
    except zab.NoNode:
        return {}
    except DamagedNode as error:
        damaged.append(str(error))
        return {}
