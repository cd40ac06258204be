"""Creation, growth and deletion of topics: requests are checked, and written for the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import trio

import zab
from kraft_controller.core.configuration import config_alteration
from kraft_controller.core.names import (
    BrokerId,
    TopicId,
    Version,
    may_collide,
    metric_name,
    wrong_beside,
    wrong_with_name,
)
from kraft_controller.core.state import Assignment, Topic
from kraft_controller.core.topics.assignment import (
    AssignmentError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    Policy,
    Start,
    assign,
    check_manual,
    growth,
)
from kraft_controller.runtime.admin.cluster_description import names_below, read_brokers
from kraft_controller.runtime.admin.entity_configs import CHANGE, Entity, note
from kraft_controller.wire import znodes
from zab.core.plurals import counted

TRIES_MAX = 20


class TopicError(ValueError):
    """The request is impossible. The message gives the reason."""


class InvalidName(TopicError):
    pass


class TopicExists(TopicError):
    pass


class NoSuchTopic(TopicError):
    pass


class Moving(TopicError):
    """The topic has partitions with a reassignment in progress."""


async def plan_topic(
    session: zab.Session,
    name: str,
    partitions: int,
    factor: int | None,
    below: Callable[[int], int],
    policy: Policy = Policy.SPREAD,
) -> dict[int, tuple[BrokerId, ...]]:
    """Return an assignment of a new topic to the registered brokers. The default replication factor is three, or the
    number of brokers if there are fewer."""
    brokers = await read_brokers(session)
    count = max(1, len(brokers))
    if factor is None:
        factor = min(3, count)
    start = Start(below(count), below(count))
    racks = {ident: each.broker.rack for ident, each in brokers.items()}
    return dict(enumerate(assign(racks, partitions, factor, start, policy)))


class TopicListing:
    """Finds topics whose names collide in metrics. All checks that wait at the same time share one listing.

    A listing costs time in proportion to the number of topics, so each of many new topics must not have its own.
    """

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._begun = 0
        """The number of listings that have begun."""
        self._number = 0
        """The number of the listing in `_names`; 0 if no check waits for it any more."""
        self._names: dict[str, list[str]] = {}
        """The topics of each metric name."""

    async def colliding(self, session: zab.Session, name: str) -> str | None:
        """Return the first other topic with the same metric name, by a listing that begins after this call; None if
        there is none."""
        earlier = self._begun
        async with self._lock:
            if self._number <= earlier:
                self._begun += 1
                begun = self._begun
                names: dict[str, list[str]] = {}
                for each in await names_below(session, znodes.TOPICS):
                    names.setdefault(metric_name(each), []).append(each)
                self._names, self._number = names, begun
            alike = self._names.get(metric_name(name), ())
            if not self._lock.statistics().tasks_waiting:
                self._names, self._number = {}, 0
        return min((other for other in alike if other != name), default=None)


async def check_name(session: zab.Session, name: str, listing: TopicListing | None = None) -> None:
    """Check the name of a new topic. Raise `InvalidName` or `TopicExists` if it cannot be used.

    As in Apache Kafka, other topics are listed only if the name contains `.` or `_`.
    """
    why = wrong_with_name(name)
    if why is not None:
        raise InvalidName(why)
    # Refuse the name even if the old topic's node is gone: its configuration and the deletion request may remain, and
    # would apply to the new topic.
    if await is_being_deleted(session, name):
        raise TopicExists(f"topic {name} is being deleted; wait until that is complete")
    if await session.exists(znodes.topic_path(name)) is not None:
        raise TopicExists(f"topic {name} already exists")
    if may_collide(name):
        other = await (listing or TopicListing()).colliding(session, name)
        if other is not None:
            raise InvalidName(wrong_beside(name, other))


async def check_topic(
    session: zab.Session, assignment: Mapping[int, Sequence[BrokerId]], configs: Mapping[str, str]
) -> None:
    """Check the assignment and the configuration of a new topic. Raise `AssignmentError` or `ConfigError`."""
    config_alteration.replaced("topics", configs)({})
    check_manual(assignment, list(await read_brokers(session)))


async def create_topic(
    session: zab.Session,
    name: str,
    assignment: Mapping[int, Sequence[BrokerId]],
    configs: Mapping[str, str],
    random_bytes: Callable[[int], bytes],
) -> TopicId:
    """Check and create a topic, and return its id. The controller then creates the partitions."""
    await check_name(session, name)
    await check_topic(session, assignment, configs)
    return await write_topic(session, name, assignment, configs, random_bytes)


async def write_topic(
    session: zab.Session,
    name: str,
    assignment: Mapping[int, Sequence[BrokerId]],
    configs: Mapping[str, str],
    random_bytes: Callable[[int], bytes],
) -> TopicId:
    """Write a topic that was checked, and its configuration, in one multi. Raise `TopicExists` if another client
    created it meanwhile."""
    ident = znodes.new_topic_id(random_bytes)
    held = {number: Assignment(tuple(assignment[number])) for number in sorted(assignment)}
    entity = Entity.of("topics", name)
    while True:
        stale = await session.exists(entity.node)
        multi = zab.Multi()
        if stale is None:
            multi.create(entity.node, znodes.config(configs))
        else:  # left over from a topic that was removed by hand
            multi.set(entity.node, znodes.config(configs), version=stale.version)
        multi.create(znodes.topic_path(name), znodes.topic(ident, held))
        if configs or stale is not None:
            multi.create(CHANGE, note(entity), sequential=True)
        try:
            await session.multi(multi)
            return ident
        except zab.NodeExists as error:
            if error.index:
                raise TopicExists(f"topic {name} already exists") from None
        except zab.BadVersion:
            pass
        except zab.NoNode:  # no broker has started yet, or the leftover node is gone
            for path in (znodes.TOPICS, "/config/topics", znodes.CONFIG_CHANGES):
                await session.ensure_path(path)
        except zab.OutcomeUnknown:
            topic = await read_topic(session, name, missing_is_fine=True)
            if topic is not None and topic.id == ident:
                return ident
            if topic is not None:
                raise TopicExists(f"topic {name} already exists") from None


async def read_topic(session: zab.Session, name: str, *, missing_is_fine: bool = False) -> Topic | None:
    await session.sync(znodes.TOPICS)
    try:
        data, stat = await session.get(znodes.topic_path(name))
    except zab.NoNode:
        if missing_is_fine:
            return None
        raise NoSuchTopic(f"there is no topic {name}") from None
    return znodes.read_topic(name, data, Version(stat.version))


async def add_partitions(
    session: zab.Session,
    name: str,
    total: int,
    assignment: Sequence[Sequence[BrokerId]] | None = None,
    *,
    check_only: bool = False,
) -> dict[int, tuple[BrokerId, ...]]:
    """Add partitions until there are `total`, and return the new ones.

    `assignment` names the brokers of the new partitions. Without it, the new partitions continue the pattern of the
    existing ones. With `check_only`, nothing is written.
    """
    for _ in range(TRIES_MAX):
        topic = await read_topic(session, name)
        assert topic is not None
        if await is_being_deleted(session, name):
            raise NoSuchTopic(f"topic {name} is being deleted")
        moving = [number for number, held in topic.partitions.items() if held.moving]
        if moving:
            raise Moving(f"topic {name}: partitions {moving} are being reassigned; wait for that, or cancel it")
        made = await _growth(session, topic, total, assignment)
        if check_only:
            return made
        grown = {**topic.partitions, **{number: Assignment(held) for number, held in made.items()}}
        try:
            await session.set(znodes.topic_path(name), znodes.topic(topic.id, grown), version=topic.version)
            return made
        except (zab.BadVersion, zab.NoNode, zab.OutcomeUnknown):
            continue  # read and check the topic again
    raise zab.OutcomeUnknown(
        f"topic {name}: {TRIES_MAX} attempts failed, because other clients changed it or replies were lost"
    )


async def _growth(
    session: zab.Session, topic: Topic, total: int, assignment: Sequence[Sequence[BrokerId]] | None
) -> dict[int, tuple[BrokerId, ...]]:
    existing = len(topic.partitions)
    if total <= existing:
        has = counted(existing, "partition")
        raise InvalidPartitions(f"topic {topic.name} has {has}; the new total must be greater, not {total}")
    brokers = await read_brokers(session)
    first = topic.partitions[min(topic.partitions)].replicas
    if assignment is None:
        racks = {ident: each.broker.rack for ident, each in brokers.items()}
        rows = assign(racks, total - existing, len(first), growth(list(brokers), first[0], existing))
        return dict(enumerate(rows, start=existing))
    if len(assignment) != total - existing:
        given, new = counted(len(assignment), "assignment"), counted(total - existing, "new partition")
        raise InvalidReplicaAssignment(f"{given} for {new}: each new partition needs one")
    made = {number: tuple(map(BrokerId, held)) for number, held in enumerate(assignment, start=existing)}
    check_manual(made, list(brokers), existing)
    if len(made[existing]) != len(first):
        raise InvalidReplicaAssignment(
            f"the first partition has {counted(len(first), 'replica')}: new ones need the same number"
        )
    return made


async def delete_topic(session: zab.Session, name: str) -> None:
    """Request the deletion of a topic. Raise `NoSuchTopic` if it does not exist."""
    if await session.exists(znodes.topic_path(name)) is None:
        raise NoSuchTopic(f"there is no topic {name}")
    await session.ensure_path(znodes.DELETE_TOPICS)
    try:
        await session.create(f"{znodes.DELETE_TOPICS}/{name}")
    except zab.NodeExists:
        pass


async def is_being_deleted(session: zab.Session, name: str) -> bool:
    """Return whether the deletion of a topic was requested and is not complete. The request's node is deleted last."""
    return await session.exists(f"{znodes.DELETE_TOPICS}/{name}") is not None


__all__ = [
    "AssignmentError", "InvalidName", "Moving", "NoSuchTopic", "TopicError", "TopicExists", "add_partitions",
    "TopicListing", "check_name", "check_topic", "create_topic", "delete_topic", "is_being_deleted", "plan_topic",
    "read_topic", "write_topic",
]  # fmt: skip
