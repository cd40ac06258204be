"""Reassignments by administrators: plans, requests, throttles and progress (ReassignPartitionsCommand).

Requests are written to the node that the controller watches; the topics' nodes show the progress. During a throttled
reassignment, brokers have dynamic replication rates, and topics list the replicas to which these apply (KIP-73).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final

from attrs import frozen

import zab
from kraft_controller.core.configuration.config_keys import DEFAULT, throttled
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.topics.assignment import Start, assign
from kraft_controller.runtime.admin.cluster_description import ClusterDescription
from kraft_controller.runtime.admin.entity_configs import Entity, alter_config, entities
from kraft_controller.runtime.bounded_requests import run_bounded
from kraft_controller.wire import znodes

TRIES_MAX: Final = 20
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

Moves = Mapping[TopicPartition, tuple[BrokerId, ...]]


class MoveError(ValueError):
    """A plan is impossible or cannot be parsed. The message gives the reason."""


# -- files ---------------------------------------------------------------------------------------


def as_json(moves: Moves) -> str:
    """Format a plan like kafka-reassign-partitions.sh."""
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "replicas": list(replicas),
            "log_dirs": ["any"] * len(replicas),
        }
        for where, replicas in moves.items()
    ]
    return json.dumps({"version": 1, "partitions": rows})


def from_json(text: str) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    try:
        found = znodes.read_reassignment(text.encode())
    except znodes.DamagedNode as error:
        raise MoveError(f"the plan cannot be parsed: {str(error).partition(': ')[2]}") from None
    if len(found) != len(json.loads(text)["partitions"]):
        raise MoveError("the plan names a partition twice")
    if not found:
        raise MoveError("the plan names no partitions")
    return found


def topics_from_json(text: str) -> list[str]:
    """Parse `{"version":1,"topics":[{"topic":"t"}]}`."""
    try:
        value: Any = json.loads(text)
        return [str(row["topic"]) for row in value["topics"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MoveError(f'the topics cannot be parsed: {error!r}; expected {{"topics":[{{"topic":"t"}}]}}') from None


# -- planning ----------------------------------------------------------------------------------------------


def plan(
    cluster: ClusterDescription,
    topics: Iterable[str],
    brokers: Sequence[BrokerId],
    below: Callable[[int], int],
    *,
    racks: bool = True,
) -> Moves:
    """Plan the distribution of topics over these brokers. All partitions of a topic get as many replicas as its
    first partition has."""
    unknown = sorted(set(brokers) - set(cluster.brokers))
    if unknown:
        raise MoveError(f"brokers {unknown} are not registered; registered are {list(cluster.brokers)}")
    known = {ident: cluster.brokers[ident].broker.rack if racks else None for ident in brokers}
    moves: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for name in topics:
        if name not in cluster.topics:
            raise MoveError(f"there is no topic {name}")
        numbers = sorted(cluster.topics[name].partitions)
        factor = len(cluster.topics[name].partitions[numbers[0]].target)
        rows = assign(known, len(numbers), factor, Start(below(len(brokers)), below(len(brokers))))
        moves.update((TopicPartition(name, number), row) for number, row in zip(numbers, rows, strict=True))
    return moves


def now(cluster: ClusterDescription, partitions: Iterable[TopicPartition]) -> Moves:
    """Return the current assignment, or the target of a reassignment in progress, as a plan that undoes later moves."""
    return {where: cluster.assignment(where).target for where in partitions}


def check(cluster: ClusterDescription, moves: Moves) -> None:
    for where, replicas in moves.items():
        topic = cluster.topics.get(where.topic)
        if topic is None or where.partition not in topic.partitions:
            raise MoveError(f"there is no partition {where}")
        if where.topic in cluster.deleting:
            raise MoveError(f"{where}: its topic is being deleted")
        if not replicas:
            raise MoveError(f"{where}: the list of replicas is empty")
        unknown = sorted(set(replicas) - set(cluster.brokers) - set(topic.partitions[where.partition].origin))
        if unknown:
            raise MoveError(f"{where}: brokers {unknown} are not registered; registered are {list(cluster.brokers)}")


# -- requests -----------------------------------------------------------------------------------------


async def ask_for(session: zab.Session, moves: Moves) -> None:
    """Add a plan to the requested reassignments. It replaces earlier requests for the same partitions."""
    await session.ensure_path(znodes.REASSIGN.rpartition("/")[0])
    for _ in range(TRIES_MAX):
        try:
            try:
                data, stat = await session.get(znodes.REASSIGN)
            except zab.NoNode:
                await session.create(znodes.REASSIGN, znodes.reassignment(moves))
                return
            wanted = {**znodes.read_reassignment(data), **moves}
            await session.set(znodes.REASSIGN, znodes.reassignment(wanted), version=stat.version)
            return
        except (zab.NodeExists, zab.BadVersion, zab.NoNode, zab.OutcomeUnknown):
            continue
    raise zab.OutcomeUnknown(
        f"{znodes.REASSIGN}: {TRIES_MAX} attempts failed, because other clients changed it or replies were lost"
    )


def origins(cluster: ClusterDescription, partitions: Iterable[TopicPartition]) -> Moves:
    """Return the plan that cancels the reassignments in progress of these partitions."""
    return {where: held.origin for where in partitions if (held := cluster.assignment(where)).moving}


class Progress(Enum):
    DONE = "done"
    MOVING = "moving"
    WAITING = "requested, not started"
    ELSEWHERE = "not at the target, and not moving there"
    GONE = "the partition does not exist"


@frozen
class Row:
    where: TopicPartition
    progress: Progress
    target: tuple[BrokerId, ...]
    behind: tuple[BrokerId, ...] = ()
    """During a reassignment: replicas of its target that are not live members of the ISR."""


def progress(cluster: ClusterDescription, moves: Moves, asked: Iterable[TopicPartition]) -> list[Row]:
    asked = set(asked)
    rows = []
    for where, target in moves.items():
        topic = cluster.topics.get(where.topic)
        held = None if topic is None else topic.partitions.get(where.partition)
        if held is None:
            rows.append(Row(where, Progress.GONE, target))
        elif held.moving:
            behind = tuple(broker for broker in held.target if broker not in cluster.isr(where))
            same = held.target == target
            rows.append(Row(where, Progress.MOVING if same else Progress.ELSEWHERE, target, behind))
        elif held.replicas == target:
            rows.append(Row(where, Progress.DONE, target))
        else:
            rows.append(Row(where, Progress.WAITING if where in asked else Progress.ELSEWHERE, target))
    return rows


async def asked_for(session: zab.Session) -> Moves:
    """Read the requested reassignments. Raise `DamagedNode` if they cannot be parsed."""
    try:
        return znodes.read_reassignment((await session.get(znodes.REASSIGN))[0])
    except zab.NoNode:
        return {}


def moving(cluster: ClusterDescription, partitions: Iterable[TopicPartition] | None = None) -> Moves:
    named = cluster.partitions() if partitions is None else partitions
    return {where: held.target for where in named if (held := cluster.assignment(where)).moving}


# -- throttles ---------------------------------------------------------------------------------------


async def throttle(session: zab.Session, cluster: ClusterDescription, moves: Moves, bytes_per_s: int) -> None:
    """Throttle a plan before it starts. For each broker, `bytes_per_s` limits both the bytes that its present replicas
    send to replicas outside the ISR, and the bytes that its adding replicas fetch."""
    sending: dict[str, set[tuple[int, int]]] = {}
    fetching: dict[str, set[tuple[int, int]]] = {}
    involved: set[BrokerId] = set()
    for where, target in moves.items():
        held = cluster.assignment(where)
        coming = [broker for broker in target if broker not in held.origin]
        if coming:
            sending.setdefault(where.topic, set()).update((where.partition, broker) for broker in held.origin)
            fetching.setdefault(where.topic, set()).update((where.partition, broker) for broker in coming)
            involved.update(held.origin, target)
    await run_bounded(
        [
            partial(
                alter_config,
                session,
                Entity.of("topics", name),
                {LEADER_REPLICAS: throttled(sending[name]), FOLLOWER_REPLICAS: throttled(fetching[name])},
            )
            for name in sending
        ]
    )
    await _set_rates(session, involved, bytes_per_s)


async def _set_rates(session: zab.Session, brokers: Iterable[BrokerId], bytes_per_s: int) -> None:
    rates = dict.fromkeys(RATES, str(bytes_per_s))
    entities = [Entity.of("brokers", str(broker)) for broker in sorted(brokers)]
    await run_bounded([partial(alter_config, session, entity, rates) for entity in entities])


async def unthrottle(
    session: zab.Session, cluster: ClusterDescription, topics: Iterable[str], ending: Iterable[TopicPartition] = ()
) -> list[str]:
    """Remove the throttles of topics. Also remove those of all brokers if no partition outside `ending` is being
    reassigned.

    Return the topics that were throttled.
    """
    freed = [name for name in topics if {LEADER_REPLICAS, FOLLOWER_REPLICAS} & set(cluster.configs.get(name, {}))]
    slowed = [Entity.of("topics", name) for name in freed if name in cluster.topics]
    if not set(moving(cluster)) - set(ending):
        slowed += [entity for entity in await entities(session, "brokers") if entity.name != DEFAULT]
    removed = (*RATES, LEADER_REPLICAS, FOLLOWER_REPLICAS)
    await run_bounded([partial(alter_config, session, entity, {}, removed) for entity in slowed])
    return freed
