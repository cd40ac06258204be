"""Topics that appear and grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from attrs import evolve

from kraft_controller.core import moves, partitions, replicas
from kraft_controller.core.asks import (
    Answer,
    Config,
    ConfigChanges,
    Damaged,
    ListTopics,
    Names,
    ReadBrokerConfig,
    ReadConfig,
    ReadTopic,
    Steps,
    TakeConfigChanges,
)
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import TopicId, TopicPartition, decimal, wrong_with_name
from kraft_controller.core.state import Topic
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase

UNCLEAN: Final = "unclean.leader.election.enable"
MIN_ISR: Final = "min.insync.replicas"
BROKER_DEFAULTS: Final = "brokers/<default>"


def topics_changed(desk: Desk, new_id: Callable[[], TopicId]) -> Steps[None]:
    """Some may be new, and some may have been removed by hand."""
    cluster = desk.cluster
    [found] = yield [ListTopics()]
    names = found.names if isinstance(found, Names) else ()
    for gone in [name for name in cluster.topics if name not in names]:
        desk.note("topic_gone", topic=gone)
        cluster.forget_topic(gone)
    cluster.unreadable.difference_update(
        [name for name in cluster.unreadable if name not in names and isinstance(name, str)]
    )
    made = yield from read_topics(desk, [name for name in sorted(names) if name not in cluster.topics], new_id)
    yield from begin(desk, [where for name in made for where in cluster.partitions_of(name)])


def read_topics(desk: Desk, names: Iterable[str], new_id: Callable[[], TopicId]) -> Steps[list[str]]:
    """Into the picture, with what their configuration says about elections. Who has no id yet is given one."""
    wanted = []
    for name in names:
        why = wrong_with_name(name)
        if why is None:
            wanted.append(name)
        else:
            desk.note_damaged(why)
    if not wanted:
        return []
    answers = yield [ReadTopic(name) for name in wanted]
    read = []
    for name, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, Topic):
            desk.cluster.learn_topic(answer)
            read.append(answer.name)
        elif isinstance(answer, Damaged):
            desk.cluster.unreadable.add(name)
            desk.note_damaged(answer.why, answer.written)
    yield from read_configs(desk, read)
    for name in read:
        if desk.cluster.topics[name].id is None:
            made = new_id()
            yield from moves.write_topic(desk, name, lambda topic, made=made: evolve(topic, id=topic.id or made))  # type: ignore[misc]
    return read


def read_configs(desk: Desk, names: Iterable[str]) -> Steps[None]:
    names = list(names)
    if not names:
        return
    answers = yield [ReadConfig(name) for name in names]
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, Damaged):
            desk.note_damaged(answer.why, answer.written)
            continue  # as it was
        least = min_isr_as_said(answer)
        if least is None:
            desk.cluster.min_isr.pop(name, None)
        else:
            desk.cluster.min_isr[name] = least
        said = unclean_as_said(answer)
        if desk.unclean_by_default if said is None else said:
            desk.cluster.unclean.add(name)
        else:
            desk.cluster.unclean.discard(name)


def unclean_as_said(answer: Answer) -> bool | None:
    """None: nothing is said of it."""
    said = answer.values.get(UNCLEAN) if isinstance(answer, Config) else None
    return None if said is None else said.strip().lower() == "true"


def min_isr_as_said(answer: Answer) -> int | None:
    said = answer.values.get(MIN_ISR, "").strip() if isinstance(answer, Config) else ""
    return decimal(said)


def begin(desk: Desk, new: Iterable[TopicPartition]) -> Steps[None]:
    """Partitions of which nobody has heard yet."""
    cluster = desk.cluster
    started = partitions.move(desk, new, PartitionPhase.NEW)
    held = [(where, broker) for where in started for broker in cluster.brokers_of(where)]
    replicas.move(desk, held, ReplicaPhase.NEW)
    yield from partitions.bring_online(desk, started)
    replicas.move(desk, held, ReplicaPhase.ONLINE)
    # Their states may have been there before: those of a topic that could not be read, and has been mended since.
    yield from _let_the_dead_go(desk, started)
    if started:
        desk.note("partitions_created", partitions=len(started))


def state_mended(desk: Desk, where: TopicPartition) -> Steps[None]:
    """What a partition's state node held was not to be read. Now it may be."""
    if desk.cluster.phase(where) is PartitionPhase.NEW and not desk.cluster.is_deleting(where.topic):
        yield from partitions.bring_online(desk, [where])
        yield from _let_the_dead_go(desk, [where])


def _let_the_dead_go(desk: Desk, some: Iterable[TopicPartition]) -> Steps[None]:
    """Who died while a state could not be read is in its ISR still."""
    cluster = desk.cluster
    dead = [
        (where, broker)
        for where in some
        if (state := cluster.states.get(where)) is not None
        for broker in cluster.brokers_of(where)
        if broker in state.isr and broker not in cluster.brokers
    ]
    if dead:
        yield from replicas.take_offline(desk, dead)


def topic_changed(desk: Desk, name: str, new_id: Callable[[], TopicId]) -> Steps[None]:
    """Its node has. It may have grown; what else it says is news only if somebody else wrote it."""
    cluster = desk.cluster
    before = cluster.topics.get(name)
    if before is None:
        yield from topics_changed(desk, new_id)  # it could not be read, and perhaps it has been mended
        return
    [read] = yield [ReadTopic(name)]
    if isinstance(read, Damaged):
        desk.note_damaged(read.why, read.written)
    if not isinstance(read, Topic):
        return
    if cluster.is_deleting(name):
        if set(read.partitions) - set(before.partitions):
            desk.note("growth_refused", topic=name, why="it is being deleted")
            cluster.learn_topic(evolve(before, version=read.version))
            yield from moves.write_topic(desk, name, lambda topic: topic)
        return
    lost = sorted(set(before.partitions) - set(read.partitions))
    if lost:
        desk.note_damaged(f"topic {name}: partitions {lost} were taken out of its node; they are kept", read.version)
        read = evolve(read, partitions={**before.partitions, **read.partitions})
    cluster.learn_topic(read)
    if read.id is None and before.id is not None:
        # An older tool wrote it, which knows nothing of ids. With another one its logs would be those of another topic.
        desk.note("topic_id_kept", topic=name, id=before.id)
        yield from moves.write_topic(desk, name, lambda topic: evolve(topic, id=topic.id or before.id))
    # Not only what is new in the node: it may have been read since for another reason.
    numbers = [TopicPartition(name, number) for number in read.partitions]
    yield from begin(desk, [where for where in numbers if cluster.phase(where) is PartitionPhase.NON_EXISTENT])


def read_broker_defaults(desk: Desk) -> Steps[bool]:
    """Whether they say something else of elections than before. What is configured for the broker that is the
    controller stands before what is configured for all, as it does at Kafka's controllers."""
    answers = yield [ReadBrokerConfig(desk.me), ReadBrokerConfig(None)]
    damaged = [answer for answer in answers if isinstance(answer, Damaged)]
    for answer in damaged:
        desk.note_damaged(answer.why, answer.written)
    if damaged:
        return False
    least = next((number for answer in answers if (number := min_isr_as_said(answer)) is not None), None)
    desk.min_isr_by_default = desk.settings.min_isr if least is None else least
    said = next((word for answer in answers if (word := unclean_as_said(answer)) is not None), None)
    before, desk.unclean_by_default = desk.unclean_by_default, desk.settings.unclean_election if said is None else said
    return desk.unclean_by_default is not before


def configs_changed(desk: Desk) -> Steps[None]:
    """Of some topics, or what is said for all of them."""
    [found] = yield [TakeConfigChanges(desk.config_changes_seen, desk.config_changes_of)]
    if not isinstance(found, ConfigChanges):
        return
    # Whoever removed the node above the notes has removed notes that nobody had seen.
    lost = found.of != desk.config_changes_of
    desk.config_changes_seen, desk.config_changes_of = found.seen, found.of
    names = [entity.removeprefix("topics/") for entity in found.entities if entity.startswith("topics/")]
    ours = {BROKER_DEFAULTS, f"brokers/{desk.me}"}
    defaults = (lost or ours.intersection(found.entities)) and (yield from read_broker_defaults(desk))
    if lost or defaults:
        names = list(desk.cluster.topics)
    yield from config_changed(desk, *names)


def config_changed(desk: Desk, *names: str) -> Steps[None]:
    """They may now be led by anybody: then somebody may lead what nobody could."""
    cluster = desk.cluster
    known = [name for name in names if name in cluster.topics]
    before = set(cluster.unclean)
    yield from read_configs(desk, known)
    freed = [name for name in known if name in cluster.unclean - before and not cluster.is_deleting(name)]
    waiting = [where for name in freed for where in cluster.partitions_of(name)]
    yield from partitions.bring_online(desk, [w for w in waiting if cluster.phase(w) is PartitionPhase.OFFLINE])
