"""The real `GroupCoordinator` of a broker on virtual time: its requests, its appends, and the reads of its topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from harness.checkers.partitions.group_replies import GroupReplies
from kraft_controller.core.names import OFFSETS_TOPIC, BrokerId, TopicPartition
from kraft_controller.core.store_requests import Get, Node, StoreRequests
from kraft_controller.wire import znodes
from replica.core.coordinator_loader import CoordinatorLoader, LoadPace
from replica.core.coordinator_topic import Load
from replica.core.errors import KafkaError
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.core.groups.group_effects import GroupAppend, GroupsLoaded, Rebalancing
from replica.core.groups.group_messages import Ask, Reply, Ticket
from replica.core.groups.group_settings import GroupSettings
from replica.core.partitions.partition_log import AppendOrigin
from replica.core.replica_messages import Produced, RoleTaken
from replica.wire import group_records
from replica.wire.coordinator_records import replay_batches
from replica.wire.record_fields import RecordError
from replica.wire.records import batch_of

SETTINGS: Final = GroupSettings(
    group_min_session_timeout_ms=1, group_initial_rebalance_delay_ms=30, new_member_join_timeout_ms=1_500
)
COMMIT_TIMEOUT_MS: Final = 250
PACE: Final = LoadPace(read_bytes=300, look_again_ms=20, load_again_ms=60)
"""A few records a read: much can happen while a partition is loaded."""
PIECE_US: Final = 2_000
"""The time that a read takes."""


class Groups:
    """The coordinator of one life of the broker."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._ids = 0
        self._tickets = 0
        self._asked: dict[Ticket, tuple[Ask, Callable[[Reply], None]]] = {}
        self._armed: int | None = None
        self._counting = 0
        """The session whose request for the number of partitions is under way."""
        self.replies = GroupReplies(broker.id, self._term_of)
        self.coordinator = GroupCoordinator(SETTINGS, broker.clock(), self._new_id, group_records.topics_of)

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._broker.id}.{self._broker.life}.{self._ids}"

    def _term_of(self, group: str) -> int | None:
        """Return the leader epoch in which this broker coordinates a group, or None if it does not."""
        topic = self.coordinator.topic
        return topic.epochs.get(topic.partition_of(group)) if topic.is_counted() else None

    # -- requests ----------------------------------------------------------------------------------------

    def find(self, group: str) -> BrokerId | None:
        """Return the coordinator of a group in this broker's metadata."""
        topic = self.coordinator.topic
        if not topic.is_counted():
            self._broker.turn()
            return None
        found: BrokerId | None = self._broker.metadata.leader(TopicPartition(OFFSETS_TOPIC, topic.partition_of(group)))
        return found

    def ask(self, ask: Ask, answer: Callable[[Reply], None]) -> None:
        self._tickets += 1
        ticket = Ticket(self._tickets)
        self._asked[ticket] = ask, answer
        self.replies.asked(ticket, ask, self._broker.clock())
        self.coordinator.step(ticket, ask, self._broker.clock())
        self._broker.turn()

    # -- the topic ---------------------------------------------------------------------------------------

    def role_taken(self, taken: RoleTaken) -> None:
        if taken.where.topic == OFFSETS_TOPIC:
            self.coordinator.topic.role_taken(taken, self._broker.clock())

    def _count(self) -> None:
        broker = self._broker
        if not broker.session or self._counting == broker.session:
            return
        session = self._counting = broker.session

        def counted(found: int | None) -> None:
            if self._counting == session:
                self._counting = 0
            self.coordinator.topic.partitions = found

        broker.do(_partitions(), counted)

    # -- what the coordinator wants ----------------------------------------------------------------------

    def act(self) -> bool:
        """Carry out the effects of the coordinator. Return whether records were appended."""
        ready = self.coordinator.ready()
        world = self._broker.world
        for each in ready.answers:
            ask, answer = self._asked.pop(each.ticket)
            self.replies.answered(each.ticket, each.reply, self._broker.clock())
            world.keeper.positions.answered(self._broker, ask, each.reply)
            answer(each.reply)
        for note in ready.notes:
            if isinstance(note, GroupsLoaded | Rebalancing):
                world.counted("groups loaded" if isinstance(note, GroupsLoaded) else "groups rebalancing")
            if world.trace is not None:
                world.record(0, f"broker {self._broker.id}", 0, f"{note}")
        for load in ready.loads:
            self._load(load)
        for append in ready.appends:
            self._append(append)
        if ready.counts:
            self._count()
        self._arm()
        return bool(ready.appends)

    def _append(self, append: GroupAppend) -> None:
        pairs = [(group_records.encode_key(each), group_records.encode_value(each)) for each in append.records]
        where = TopicPartition(OFFSETS_TOPIC, append.partition)

        def done(results: list[Produced]) -> None:
            [result] = results
            self.coordinator.topic.appended(append.id, result.error, result.base_offset, self._broker.clock())

        self._broker.append(where, batch_of(pairs, append.now_ms), COMMIT_TIMEOUT_MS, AppendOrigin.COORDINATOR, done)

    def _arm(self) -> None:
        deadline = self.coordinator.deadline
        if self._armed is None or deadline < self._armed:
            self._armed = deadline
            self._broker.later(max(deadline - self._broker.clock(), 0) * 1_000, lambda: self._tick(deadline))

    def _tick(self, due: int) -> None:
        if self._armed == due:  # else an earlier one has come meanwhile
            self._armed = None
            self.coordinator.tick(self._broker.clock())
            self.replies.ticked(self._broker.clock())
            self._broker.turn()

    # -- loading -----------------------------------------------------------------------------------------

    def _load(self, load: Load) -> None:
        broker, where = self._broker, TopicPartition(OFFSETS_TOPIC, load.partition)
        loader = CoordinatorLoader(load, self.coordinator.topic, self._replay, PACE)

        def advance() -> None:
            partition = broker.core.partitions.get(where)
            try:
                pause_ms = loader.advance(None if partition is None else (partition.log, partition.high_watermark))
            except KafkaError:
                pause_ms = loader.restart()
            if pause_ms is not None:
                broker.later(pause_ms * 1_000 or PIECE_US, advance)
            else:
                self.coordinator.loaded(load, broker.clock())
                broker.turn()

        broker.later(PIECE_US, advance)

    def _replay(self, load: Load, data: bytes, since: int) -> int:
        return replay_batches(self.coordinator, load, data, since, group_records.decode, _unreadable)


def _unreadable(load: Load, offset: int, error: RecordError) -> None:
    raise AssertionError(f"partition {load.partition} of {OFFSETS_TOPIC} has an unreadable record at {offset}: {error}")


def _partitions() -> StoreRequests[int | None]:
    [node] = yield [Get(znodes.topic_path(OFFSETS_TOPIC))]
    if not isinstance(node, Node):
        return None
    return len(znodes.read_topic(OFFSETS_TOPIC, node.data, node.version).partitions)
