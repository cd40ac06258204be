"""Topics and their configurations in the store: reading them into the context, and writing assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from attrs import evolve

from kraft_controller.core.controller_context import ControllerContext, TopicDefaults
from kraft_controller.core.controller_store import Changed, Config, ControllerStore, Damaged, Missing, Written
from kraft_controller.core.names import TopicId, TopicPartition, decimal, wrong_with_name
from kraft_controller.core.operator_log import OperatorLog
from kraft_controller.core.state import Assignment, Topic
from kraft_controller.core.store_requests import StoreRequests

UNCLEAN: Final = "unclean.leader.election.enable"
MIN_ISR: Final = "min.insync.replicas"


class TopicRegistry:
    """Reads and writes topic nodes, and updates the context accordingly."""

    def __init__(
        self, context: ControllerContext, store: ControllerStore, log: OperatorLog, new_id: Callable[[], TopicId]
    ) -> None:
        self._context = context
        self._store = store
        self._log = log
        self._new_id = new_id
        """Returns a new id, for a topic that has none."""

    # -- reading -----------------------------------------------------------------------------------------

    def read_topics(self, names: Iterable[str]) -> StoreRequests[list[str]]:
        """Read topics and their configurations into the context. Give an id to each topic without one.

        Return the names of the readable topics.
        """
        context = self._context
        legal = []
        for name in names:
            wrong = wrong_with_name(name)
            if wrong is None:
                legal.append(name)
            else:
                self._log.report_damage(Damaged(wrong))
        if not legal:
            return []
        results = yield from self._store.read_topics(legal)
        readable = []
        for name, result in zip(legal, results, strict=True):
            if isinstance(result, Topic):
                context.update_topic(result)
                readable.append(result.name)
            elif isinstance(result, Damaged):
                context.unreadable.add(name)
                self._log.report_damage(result)
        yield from self.read_configs(readable)
        for name in readable:
            if context.topics[name].id is None:
                yield from self.set_id(name, self._new_id())
        return readable

    def read_configs(self, names: Iterable[str]) -> StoreRequests[None]:
        """Read the topic settings that the controller uses. If a topic's configuration is unreadable, its former
        settings stay in force."""
        context = self._context
        names = list(names)
        if not names:
            return
        results = yield from self._store.read_topic_configs(names)
        for name, result in zip(names, results, strict=True):
            if isinstance(result, Damaged):
                self._log.report_damage(result)
                continue
            least = min_isr_in(result)
            if least is None:
                context.min_isr.pop(name, None)
            else:
                context.min_isr[name] = least
            unclean = unclean_election_in(result)
            if context.defaults.unclean_election if unclean is None else unclean:
                context.unclean.add(name)
            else:
                context.unclean.discard(name)

    def read_defaults(self) -> StoreRequests[bool]:
        """Read the defaults for topics. Return whether the default for unclean elections changed. If a configuration is
        unreadable, the former defaults stay in force.

        As in Apache Kafka, the configuration of the controller's own broker overrides that of all brokers.
        """
        context = self._context
        results = yield from self._store.read_broker_configs([context.me, None])
        damages = [result for result in results if isinstance(result, Damaged)]
        for damage in damages:
            self._log.report_damage(damage)
        if damages:
            return False
        least = next((found for result in results if (found := min_isr_in(result)) is not None), None)
        unclean = next((found for result in results if (found := unclean_election_in(result)) is not None), None)
        settings, before = context.settings, context.defaults
        context.defaults = TopicDefaults(
            settings.unclean_election if unclean is None else unclean,
            settings.min_isr if least is None else least,
        )
        return context.defaults.unclean_election is not before.unclean_election

    # -- writing -----------------------------------------------------------------------------------------

    def set_id(self, name: str, ident: TopicId) -> StoreRequests[bool]:
        """Give a topic an id, unless it has one by now. Return whether the node was written."""
        return (yield from self.write_topic(name, lambda topic: evolve(topic, id=topic.id or ident)))

    def write_assignments(
        self, assignments: Mapping[TopicPartition, Assignment]
    ) -> StoreRequests[dict[TopicPartition, Assignment]]:
        """Write assignments, with one write for each topic. Return those that were written."""
        written: dict[TopicPartition, Assignment] = {}
        for name, partitions in by_topic(assignments).items():

            def change(topic: Topic, partitions: Sequence[TopicPartition] = partitions) -> Topic:
                return with_assignments(topic, {tp: assignments[tp] for tp in partitions})

            if (yield from self.write_topic(name, change)):
                written.update({tp: assignments[tp] for tp in partitions})
        return written

    def write_topic(self, name: str, change: Callable[[Topic], Topic]) -> StoreRequests[bool]:
        """Apply a change to a topic's node. If others have changed the node meanwhile, read it and apply the change
        again. Return whether the node was written."""
        context = self._context
        while True:
            topic = context.topics.get(name)
            if topic is None:
                return False
            changed = change(topic)
            result = yield from self._store.write_topic(changed)
            if isinstance(result, Written):
                context.update_topic(evolve(changed, version=result.version))
                return True
            if not isinstance(result, Changed):
                return False
            [read] = yield from self._store.read_topics([name])
            if not isinstance(read, Topic):
                if isinstance(read, Damaged):
                    self._log.report_damage(read)
                return False
            context.update_topic(read)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        found.setdefault(tp.topic, []).append(tp)
    return found


def with_assignments(topic: Topic, assignments: Mapping[TopicPartition, Assignment]) -> Topic:
    """Return the topic with the assignments of some partitions replaced."""
    changed = {tp.partition: assignment for tp, assignment in assignments.items()}
    return evolve(topic, partitions={**topic.partitions, **changed})


def unclean_election_in(config: Config | Damaged | Missing) -> bool | None:
    """Return the configured value, or None if the key is not set."""
    text = None if isinstance(config, Damaged | Missing) else config.get(UNCLEAN)
    return None if text is None else text.strip().lower() == "true"


def min_isr_in(config: Config | Damaged | Missing) -> int | None:
    """Return the configured value, or None if the key is not set or not a number."""
    text = "" if isinstance(config, Damaged | Missing) else config.get(MIN_ISR, "")
    return decimal(text.strip())
