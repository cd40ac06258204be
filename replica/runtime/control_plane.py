"""Execution of the controller's commands, and the reactions to new metadata."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from kraft_controller.core.commands import Command, UpdateMetadata
from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicId, TopicPartition
from replica.core.metadata_cache import MetadataCache
from replica.runtime.configuration.dynamic_config_manager import DynamicConfigManager
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from replica.runtime.coordination.internal_topics import InternalTopics
from replica.runtime.coordination.transaction_coordinator_runtime import TransactionCoordinatorRuntime
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime
from replica.runtime.store.topic_manager import TopicManager
from zab.host.watchdog import Watchdog


class ControlPlane:
    """Passes each command to the broker's parts in a fixed order: replicas first, then metadata."""

    def __init__(
        self,
        replica_manager: ReplicaManagerRuntime,
        cache: MetadataCache,
        topics: TopicManager,
        dynamic_configs: DynamicConfigManager,
        internal_topics: InternalTopics,
        group_coordinator: GroupCoordinatorRuntime,
        transaction_coordinator: TransactionCoordinatorRuntime,
        watchdog: Watchdog,
    ) -> None:
        self.updated = trio.Event()
        """Set by the first UpdateMetadata. The broker serves no clients before."""
        self._replica_manager = replica_manager
        self._cache = cache
        self._topics = topics
        self._dynamic_configs = dynamic_configs
        self._internal_topics = internal_topics
        self._group_coordinator = group_coordinator
        self._transaction_coordinator = transaction_coordinator
        self._watchdog = watchdog

    def apply(self, command: Command) -> Mapping[TopicPartition, int]:
        """Execute a command; return its errors by partition.

        An exception stops the broker, because the command may be half executed. After a restart the broker receives the
        full state again.
        """
        with self._watchdog.turn(lambda: type(command).__name__):
            # Replicas first: a broker must lead a partition before clients learn it from the metadata.
            errors: Mapping[TopicPartition, int] = self._replica_manager.apply(command)
            if isinstance(command, UpdateMetadata):
                self._update_metadata(command)
            return errors

    def _update_metadata(self, command: UpdateMetadata) -> None:
        topics = self._cache.topics
        named = topics.keys() if command.full else {role.where.topic for role in command.roles}
        named = named | {OFFSETS_TOPIC, TRANSACTIONS_TOPIC}
        before = {name: topics[name].id for name in named if name in topics}
        self._cache.update(command)
        self._topics.on_metadata_changed()
        deleted = {name for name, ident in before.items() if self._was_deleted(name, ident)}
        for topic in deleted:
            self._dynamic_configs.topic_deleted(topic, recreated=topic in self._cache.topics)
        if deleted:
            self._group_coordinator.topics_deleted(deleted)
        if before.get(OFFSETS_TOPIC) != self._cache.topic_id(OFFSETS_TOPIC):
            self._internal_topics.offsets.changed()
            self._group_coordinator.topic_changed()
        if before.get(TRANSACTIONS_TOPIC) != self._cache.topic_id(TRANSACTIONS_TOPIC):
            self._internal_topics.transactions.changed()
            self._transaction_coordinator.topic_changed()
        self.updated.set()

    def _was_deleted(self, topic: str, ident: TopicId | None) -> bool:
        """Return whether the topic was deleted. One command may delete a topic and create another of the same name."""
        now = self._cache.topics.get(topic)
        return now is None or (ident is not None and now.id != ident)
