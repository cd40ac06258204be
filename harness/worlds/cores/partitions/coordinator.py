"""The driver of a real coordinator on virtual time: its requests, appends and timer, and the loads of its topic."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.store_requests import Get, Node, StoreRequests
from kraft_controller.wire import znodes
from replica.core.coordinator_loader import CoordinatorLoader, LoadPace
from replica.core.coordinator_topic import AppendId, Load, Ticket
from replica.core.errors import KafkaError
from replica.core.partitions.partition_log import AppendOrigin
from replica.core.replica_messages import Produced, RoleTaken
from replica.wire.coordinator_records import replay_batches
from replica.wire.record_fields import RecordError

PACE: Final = LoadPace(read_bytes=300, look_again_ms=20, load_again_ms=60)
"""The pace of loads. A read covers a few records, so that many events can occur while a partition is loaded."""
PIECE_US: Final = 2_000
"""The duration of a read."""


class CoordinatorHost:
    """Runs the coordinator of one life of the broker."""

    topic: ClassVar[str]
    coordinator: Any

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._tickets = 0
        self._requests: dict[Ticket, tuple[Any, Callable[[Any], None]]] = {}
        """The open requests and the receivers of their replies."""
        self._armed: int | None = None
        self._counting = 0
        """The session whose request for the number of partitions is in progress, or 0."""
        self._has_ready = True
        """True if the coordinator may have effects to carry out."""

    # -- requests ----------------------------------------------------------------------------------------

    def find(self, name: str) -> BrokerId | None:
        """Return the broker that coordinates a name, by the metadata of this broker."""
        topic = self.coordinator.topic
        if not topic.is_counted():
            self.turn()
            return None
        found: BrokerId | None = self._broker.metadata.leader(TopicPartition(self.topic, topic.partition_of(name)))
        return found

    def ask(self, ask: Any, answer: Callable[[Any], None]) -> None:
        self._tickets += 1
        ticket = Ticket(self._tickets)
        self._requests[ticket] = ask, answer
        self._begins(ticket, ask)
        self.coordinator.step(ticket, ask, self._broker.clock())
        self.turn()

    def turn(self) -> None:
        """Carry out the effects of the coordinator after an input."""
        self._has_ready = True
        self._broker.turn()

    def _begins(self, ticket: Ticket, ask: Any) -> None:
        """Note that a request has arrived."""

    def _ends(self, ticket: Ticket, ask: Any, reply: Any) -> None:
        """Note that a request is answered."""

    # -- the topic ---------------------------------------------------------------------------------------

    def role_taken(self, taken: RoleTaken) -> None:
        if taken.where.topic == self.topic:
            self._has_ready = True
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

        broker.do(_partitions(self.topic), counted)

    # -- the effects of the coordinator ------------------------------------------------------------------

    def act(self) -> bool:
        """Carry out the effects of the coordinator. Return whether it appended records, or has new effects."""
        if not self._has_ready:
            return False
        self._has_ready = False
        ready = self.coordinator.ready()
        world = self._broker.world
        for each in ready.answers:
            ask, answer = self._requests.pop(each.ticket)
            self._ends(each.ticket, ask, each.reply)
            answer(each.reply)
        for note in ready.notes:
            self._noted(note)
            if world.trace is not None:
                world.record(0, f"broker {self._broker.id}", 0, f"{note}")
        for load in ready.loads:
            self._load(load)
        for append in ready.appends:
            self._append(append)
        if ready.counts:
            self._count()
        self._more(ready)
        self._arm()
        return bool(ready.appends) or self._has_ready

    def _noted(self, note: Any) -> None:
        """Count the event of a note of the coordinator."""

    @abstractmethod
    def _append(self, append: Any) -> None: ...

    def _more(self, ready: Any) -> None:
        """Carry out the effects that only this kind of coordinator has."""

    def _write(self, ident: AppendId, partition: int, batch: bytes, timeout_ms: int) -> None:
        def done(results: list[Produced]) -> None:
            [result] = results
            self._has_ready = True
            self.coordinator.topic.appended(ident, result.error, result.base_offset, self._broker.clock())

        self._broker.append(TopicPartition(self.topic, partition), batch, timeout_ms, AppendOrigin.COORDINATOR, done)

    # -- time --------------------------------------------------------------------------------------------

    @property
    def _deadline(self) -> int | None:
        deadline: int = self.coordinator.deadline
        return deadline

    def _arm(self) -> None:
        deadline = self._deadline
        if deadline is not None and (self._armed is None or deadline < self._armed):
            self._armed = deadline
            self._broker.later(max(deadline - self._broker.clock(), 0) * 1_000, lambda: self._tick(deadline))

    def _tick(self, due: int) -> None:
        if self._armed == due:  # otherwise an earlier deadline was set meanwhile
            self._armed = None
            self._ticks(self._broker.clock())
            self.turn()

    def _ticks(self, now: int) -> None:
        self.coordinator.tick(now)

    # -- loading -----------------------------------------------------------------------------------------

    def _load(self, load: Load) -> None:
        broker, where = self._broker, TopicPartition(self.topic, load.partition)
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
                self.turn()

        broker.later(PIECE_US, advance)

    def _replay(self, load: Load, data: bytes, since: int) -> int:
        return replay_batches(self.coordinator, load, data, since, self._decode, self._unreadable)

    @staticmethod
    @abstractmethod
    def _decode(key: bytes, value: bytes | None) -> Any: ...

    def _unreadable(self, load: Load, offset: int, error: RecordError) -> None:
        raise AssertionError(
            f"partition {load.partition} of {self.topic} has an unreadable record at {offset}: {error}"
        )


def _partitions(topic: str) -> StoreRequests[int | None]:
    [node] = yield [Get(znodes.topic_path(topic))]
    if not isinstance(node, Node):
        return None
    return len(znodes.read_topic(topic, node.data, node.version).partitions)
