"""The coordinator of groups of one broker, and the offsets topic under it.

It stands for `replica.runtime.coordination.group_coordinator_runtime`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kraft_controller.core.names import OFFSETS_TOPIC, BrokerId, TopicPartition
from kraft_controller.core.store_requests import Get, Node, StoreRequests
from kraft_controller.wire import znodes
from replica.core.coordinator_topic import Load
from replica.core.errors import KafkaError
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.core.groups.group_effects import GroupAppend, GroupsLoaded, Rebalancing
from replica.core.groups.group_messages import Ask, Reply, Ticket
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.partitioning import partition_of
from replica.core.log_reading import Reading
from replica.core.partition_log import AppendOrigin, PartitionLog
from replica.core.replica_messages import Produced, RoleTaken
from replica.wire import group_records
from replica.wire.batch import walk
from replica.wire.records import batch_of, read_records

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.broker import PartitionBroker

SETTINGS: Final = GroupSettings(
    group_min_session_timeout_ms=1, group_initial_rebalance_delay_ms=30, new_member_join_timeout_ms=1_500
)
COMMIT_TIMEOUT_MS: Final = 250
READ_BYTES: Final = 300
"""A few records: much can happen while a partition is loaded."""
PIECE_US: Final = 2_000
LOOK_AGAIN_US: Final = 20_000
LOAD_AGAIN_US: Final = 60_000


class Groups:
    """Of one life of the broker."""

    def __init__(self, broker: PartitionBroker) -> None:
        self._broker = broker
        self._ids = 0
        self._tickets = 0
        self._asked: dict[Ticket, tuple[Ask, Callable[[Reply], None]]] = {}
        self._armed: int | None = None
        self._counting = 0
        """The session in which the store is asked how many partitions the topic has."""
        self.coordinator = GroupCoordinator(SETTINGS, broker.clock(), self._new_id, group_records.topics_of)

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._broker.id}.{self._broker.life}.{self._ids}"

    # -- requests ----------------------------------------------------------------------------------------

    def find(self, group: str) -> BrokerId | None:
        """Who coordinates it, as far as this broker has heard."""
        count = self.coordinator.topic.partitions
        if count is None:
            self._count()
            return None
        return self._broker.metadata.leader(TopicPartition(OFFSETS_TOPIC, partition_of(group, count)))

    def ask(self, ask: Ask, answer: Callable[[Reply], None]) -> None:
        if self.coordinator.topic.partitions is None:
            self._count()
        self._tickets += 1
        ticket = Ticket(self._tickets)
        self._asked[ticket] = ask, answer
        self.coordinator.step(ticket, ask, self._broker.clock())
        self._broker.turn()

    # -- the topic ---------------------------------------------------------------------------------------

    def role_taken(self, taken: RoleTaken) -> None:
        if taken.where.topic != OFFSETS_TOPIC:
            return
        self._count()
        partition, epoch = taken.where.partition, int(taken.epoch)
        if taken.leads:
            self.coordinator.topic.elected(partition, epoch)
        else:
            self.coordinator.topic.resigned(partition, None if taken.leads is None else epoch, self._broker.clock())

    def _count(self) -> None:
        """How many partitions it has never changes here: nobody deletes it."""
        broker = self._broker
        if self.coordinator.topic.partitions is not None or not broker.session or self._counting == broker.session:
            return
        session = self._counting = broker.session

        def counted(found: int | None) -> None:
            if self._counting == session:
                self._counting = 0
            self.coordinator.topic.partitions = found

        broker.do(_partitions(), counted)

    # -- what the coordinator wants ----------------------------------------------------------------------

    def act(self) -> bool:
        """Whether something was written for it, of which more may have come."""
        ready = self.coordinator.ready()
        world = self._broker.world
        for each in ready.answers:
            ask, answer = self._asked.pop(each.ticket)
            world.positions.answered(self._broker, ask, each.reply)
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
            self._broker.turn()

    # -- loading -----------------------------------------------------------------------------------------

    def _load(self, load: Load) -> None:
        partition = self._broker.core.partitions.get(TopicPartition(OFFSETS_TOPIC, load.partition))
        if partition is None:
            self._broker.later(LOAD_AGAIN_US, lambda: self._again(load))
            return
        log, reading = partition.log, Reading(partition.log.start_offset, partition.log.end_offset)
        self._broker.later(PIECE_US, lambda: self._go_on(load, log, reading))

    def _again(self, load: Load) -> None:
        if self.coordinator.topic.awaits(load):
            self._load(load)

    def _go_on(self, load: Load, log: PartitionLog, reading: Reading) -> None:
        broker = self._broker
        if not self.coordinator.topic.awaits(load):
            return
        try:
            if reading.unread:
                self._replay(load, log.read(reading.at, READ_BYTES, reading.end).records, reading)
        except KafkaError:
            broker.later(LOAD_AGAIN_US, lambda: self._again(load))
            return
        partition = broker.core.partitions.get(TopicPartition(OFFSETS_TOPIC, load.partition))
        if partition is not None and reading.safe(partition.high_watermark):
            self.coordinator.loaded(load, broker.clock())
            broker.turn()
        else:
            wait_us = PIECE_US if reading.unread else LOOK_AGAIN_US
            broker.later(wait_us, lambda: self._go_on(load, log, reading))

    def _replay(self, load: Load, data: bytes, reading: Reading) -> None:
        at, reading.at = reading.at, reading.end
        for position, header in walk(data):
            reading.at = header.next_offset
            for record in read_records(data, position):
                if record.offset >= at and record.key is not None:
                    entry = group_records.decode(record.key, record.value)
                    assert entry is not None
                    self.coordinator.replay(load, record.offset, entry)


def _partitions() -> StoreRequests[int | None]:
    [node] = yield [Get(znodes.topic_path(OFFSETS_TOPIC))]
    if not isinstance(node, Node):
        return None
    return len(znodes.read_topic(OFFSETS_TOPIC, node.data, node.version).partitions)
