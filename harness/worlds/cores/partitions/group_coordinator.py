"""The real `GroupCoordinator` of a broker. Its replies are compared with those of a model."""

from __future__ import annotations

from typing import Any, Final

from harness.checkers.partitions.group_replies import GroupReplies
from harness.worlds.cores.partitions.coordinator import CoordinatorHost
from kraft_controller.core.names import OFFSETS_TOPIC
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.core.groups.group_effects import GroupAppend, GroupReady, GroupsLoaded, Rebalancing, StateChanged
from replica.core.groups.group_messages import Ask, Reply, Ticket
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import GroupState
from replica.wire import group_records
from replica.wire.records import batch_of

SETTINGS: Final = GroupSettings(
    group_min_session_timeout_ms=1, group_initial_rebalance_delay_ms=30, new_member_join_timeout_ms=1_500
)
COMMIT_TIMEOUT_MS: Final = 250


class Groups(CoordinatorHost):
    topic = OFFSETS_TOPIC
    _decode = staticmethod(group_records.decode)

    def __init__(self, broker: Any) -> None:
        super().__init__(broker)
        self._ids = 0
        self._ended: list[tuple[int, int, int]] = []
        """Markers that the checker does not have yet: the replies before them are still to be checked."""
        self.replies = GroupReplies(broker.id, self._term_of)
        self.retention_ms = SETTINGS.offsets_retention_ms
        self.coordinator = GroupCoordinator(SETTINGS, broker.clock(), self._new_id, group_records.topics_of)

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._broker.id}.{self._broker.life}.{self._ids}"

    def _term_of(self, group: str) -> int | None:
        """Return the leader epoch in which this broker coordinates a group, or None if it does not."""
        topic = self.coordinator.topic
        return topic.epochs.get(topic.partition_of(group)) if topic.is_counted() else None

    def _begins(self, ticket: Ticket, ask: Ask) -> None:
        self.replies.requested(ticket, ask, self._broker.clock())

    def _ends(self, ticket: Ticket, ask: Ask, reply: Reply) -> None:
        self.replies.answered(ticket, reply, self._broker.clock())
        self._broker.world.checkers.positions.answered(self._broker, ask, reply)

    def _noted(self, note: Any) -> None:
        if isinstance(note, GroupsLoaded | Rebalancing):
            loaded = isinstance(note, GroupsLoaded)
            self._broker.world.counted("groups loaded" if loaded else "groups rebalancing")
        elif isinstance(note, StateChanged) and note.after is GroupState.DEAD:
            self.replies.removed(note.group)

    def _append(self, append: GroupAppend) -> None:
        pairs = [(group_records.encode_key(each), group_records.encode_value(each)) for each in append.records]
        self._write(
            append.id, append.partition, batch_of(pairs, append.now_ms, transaction=append.producer), COMMIT_TIMEOUT_MS
        )

    def complete_transaction(self, partition: int, producer: int, committed: bool, offset: int) -> None:
        self.coordinator.groups.complete_transaction(partition, producer, committed, offset)
        self._ended.append((partition, producer, offset))
        self._has_ready = True

    def _more(self, ready: GroupReady) -> None:
        for ended in self._ended:
            self._broker.world.checkers.positions.ended(self._broker, *ended)
        self._ended.clear()

    def _ticks(self, now: int) -> None:
        super()._ticks(now)
        self.replies.ticked(now)
