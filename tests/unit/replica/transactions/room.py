"""A coordinator of transactions to talk with: its clock, the topic that it writes to, and partitions that it tells."""

from __future__ import annotations

import itertools

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import Load
from replica.core.errors import ErrorCode
from replica.core.transactions.transaction_coordinator import TransactionCoordinator
from replica.core.transactions.transaction_effects import Marker, Note, Saved, TransactionAppend, TxnRecord
from replica.core.transactions.transaction_messages import (
    AddPartitions,
    Ask,
    DescribedTransaction,
    DescribeTransaction,
    End,
    Init,
    Initialized,
    NeedsId,
    ProducerIdentity,
    Reply,
    Ticket,
    TransactionDone,
)
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.core.transactions.transaction_states import TxnState
from replica.wire import transaction_records

E = ErrorCode
S = TxnState
PARTITIONS = 4
ID = "payments"
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
TIMEOUT_MS = 60_000


class Room:
    """holding   nothing that is written becomes safe before `release` or `fail`
    deaf       partitions are not told of anything before `tell`
    """

    def __init__(self, *, lead: bool = True, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.now = 1_000_000
        self.topic: dict[int, list[tuple[bytes, bytes | None]]] = {partition: [] for partition in range(PARTITIONS)}
        self.answers: dict[Ticket, Reply] = {}
        self.notes: list[Note] = []
        self.held: list[TransactionAppend] = []
        self.loads: list[Load] = []
        self.markers: list[Marker] = []
        """Of which partitions were not told yet."""
        self.told: list[tuple[TopicPartition, int, int, bool]] = []
        """Where, to which producer id and epoch, and whether it was a commit."""
        self.holding = self.deaf = False
        self.epoch = 0
        self._tickets = itertools.count(1)
        self._fresh = itertools.count(100)
        self.coordinator = self._new()
        if lead:
            self.take_over()

    def _new(self) -> TransactionCoordinator:
        coordinator = TransactionCoordinator(self.settings, self.now)
        coordinator.topic.partitions = PARTITIONS
        return coordinator

    # -- who coordinates -----------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Another broker leads the whole topic from here on, and knows what stands in it."""
        self.coordinator = self._new()
        self.held.clear()
        self.markers.clear()
        self.epoch += 1
        for partition in range(PARTITIONS):
            self.coordinator.topic.elected(partition, self.epoch)
        self.turn()
        while self.loads:
            self.load(self.loads.pop())

    def load(self, load: Load) -> None:
        for offset, (key, value) in enumerate(self.topic[load.partition]):
            record = transaction_records.decode(key, value)
            assert record is not None
            self.coordinator.replay(load, offset, record)
        self.coordinator.loaded(load, self.now)
        self.turn()

    def resign(self) -> None:
        for partition in range(PARTITIONS):
            self.coordinator.topic.resigned(partition, self.epoch + 1, self.now)
        self.turn()

    # -- time, disks and partitions ------------------------------------------------------------------------

    def turn(self) -> None:
        while True:
            ready = self.coordinator.ready()
            for answer in ready.answers:
                assert answer.ticket not in self.answers, "every ticket is answered once"
                self.answers[answer.ticket] = answer.reply
            self.notes += ready.notes
            self.loads += ready.loads
            self.held += ready.appends
            self.markers += ready.markers
            if self.held and not self.holding:
                self.write(self.held.pop(0))
            elif self.markers and not self.deaf:
                self.mark(self.markers.pop(0))
            else:
                return

    def write(self, append: TransactionAppend) -> None:
        self.store(append.partition, append.record)
        self.coordinator.topic.appended(append.id, E.NONE, 0, self.now)

    def store(self, partition: int, record: TxnRecord) -> None:
        """As bytes, so that whoever loads it has read it."""
        written = transaction_records.encode_key(record), transaction_records.encode_value(record)
        self.topic[partition].append(written)

    def last(self, partition: int, ident: str) -> Saved:
        """As it stands in the topic."""
        records = [transaction_records.decode(*written) for written in self.topic[partition]]
        [*_, found] = [each.saved for each in records if each is not None and each.id == ident]
        assert found is not None
        return found

    def release(self) -> None:
        self.holding = False
        self.turn()

    def fail(self, error: ErrorCode, *, written: bool = False) -> None:
        """The oldest write comes to nothing; or nobody knows, and it is there."""
        append = self.held.pop(0)
        if written:
            self.store(append.partition, append.record)
        self.coordinator.topic.appended(append.id, error, -1, self.now)
        self.turn()

    def mark(self, marker: Marker) -> None:
        for where in marker.partitions if self.coordinator.completion.awaits(marker.number) else ():
            self.tell(marker, where)

    def tell(self, marker: Marker, where: TopicPartition) -> None:
        decided = S.PREPARE_COMMIT if marker.commit else S.PREPARE_ABORT
        assert self.last(marker.partition, marker.id).state is decided, "what a partition is told stands in the topic"
        self.told.append((where, marker.producer, marker.epoch, marker.commit))
        self.coordinator.completion.marked(marker.number, where, self.now)

    def hear(self) -> None:
        self.deaf = False
        self.turn()

    def wait(self, ms: int) -> None:
        end = self.now + ms
        while self.coordinator.deadline <= end:
            self.now = max(self.now, self.coordinator.deadline)
            self.coordinator.tick(self.now)
            self.turn()
        self.now = end

    # -- who asks ------------------------------------------------------------------------------------------

    def post(self, ask: Ask) -> Ticket:
        ticket = Ticket(next(self._tickets))
        self.coordinator.step(ticket, ask, self.now)
        self.turn()
        return ticket

    def heard(self, ticket: Ticket) -> Reply | None:
        return self.answers.get(ticket)

    def ask(self, ask: Ask) -> Reply:
        return self.answers[self.post(ask)]

    def init(
        self, ident: str = ID, timeout_ms: int = TIMEOUT_MS, expected: tuple[int, int] | None = None
    ) -> Initialized:
        """An id is fetched only when it is needed."""
        reply = self.ask(Init(ident, timeout_ms, expected))
        if isinstance(reply, NeedsId):
            reply = self.ask(Init(ident, timeout_ms, expected, fresh=next(self._fresh)))
        assert isinstance(reply, Initialized)
        return reply

    def producer(self, ident: str = ID, timeout_ms: int = TIMEOUT_MS) -> ProducerIdentity:
        """A new one, that has waited until what was open before it is aborted."""
        while (made := self.init(ident, timeout_ms)).error is E.CONCURRENT_TRANSACTIONS:
            self.turn()
        assert made.error is E.NONE
        return ProducerIdentity(ident, made.producer, made.epoch)

    def add(self, who: ProducerIdentity, *partitions: TopicPartition) -> ErrorCode:
        return self.done(AddPartitions(who, frozenset(partitions)))

    def commit(self, who: ProducerIdentity) -> ErrorCode:
        return self.done(End(who, True))

    def abort(self, who: ProducerIdentity) -> ErrorCode:
        return self.done(End(who, False))

    def done(self, ask: Ask) -> ErrorCode:
        reply = self.ask(ask)
        assert isinstance(reply, TransactionDone)
        return reply.error

    def described(self, ident: str = ID) -> DescribedTransaction:
        reply = self.ask(DescribeTransaction(ident))
        assert isinstance(reply, DescribedTransaction)
        return reply

    def state(self, ident: str = ID) -> TxnState:
        return self.described(ident).state
