"""Transactional producers. Two of them may share a transactional id, so that one fences the other.

A producer repeats a request until it has a definite reply or its patience ends. After that it initializes its id anew,
which increments the producer epoch, so that its requests in flight are too late. An earlier identity that fell silent
in the middle of a transaction comes back after the initialization of its successor. None of its requests may succeed.

If the script creates the topic of offsets, each transaction also commits offsets of a group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

from harness.checkers.transactions import Transaction, TransactionOutcome
from harness.worlds.cores.partitions.clients import LATE_US, RETRY_US, Party
from harness.worlds.cores.partitions.simulator import PartitionsSimulator
from harness.worlds.cores.partitions.transactional_offsets import OnReply, Step, Steps, TransactionalOffsets
from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import Committed
from replica.core.replica_messages import Produced
from replica.core.transactions import transaction_messages as messages
from replica.wire.batch import TRANSACTIONAL
from replica.wire.records import Record, build

TIMEOUT_MS: Final = 350
"""The timeout of a transaction. The patience of a producer is longer, so some transactions time out."""
PATIENCE_US: Final = 1_500_000
IDS: Final = 3
"""The number of transactional ids."""
REPEATED: Final = 0.15
"""The probability that a batch arrives a second time, late."""
REPEATED_US: Final = 600_000


class Failed(Exception):
    """A request was refused for good, or the producer's patience ended."""


@define(eq=False)
class Identity:
    """One initialization of a transactional id."""

    producer: int
    epoch: int
    number: int
    sequences: dict[TopicPartition, int] = field(factory=dict)


class Transactor(Party):
    def __init__(self, world: PartitionsSimulator, number: int) -> None:
        super().__init__(world, number, TopicPartition(TRANSACTIONS_TOPIC, 0), "transactor")
        self.id = f"id-{number % IDS}"
        self._journal = world.journal
        self._waiting: deque[tuple[tuple[TopicPartition, ...], int, str]] = deque()
        self._identity: Identity | None = None
        self._silent: list[tuple[Identity, TopicPartition]] = []
        """The identities that fell silent, each with a partition that it has written to."""
        self._values = 0
        self._coordinator: Any = None
        self._offsets = TransactionalOffsets(self, self.id, IDS) if OFFSETS_TOPIC in world.transacted else None
        self._work: Steps | None = None
        self._sent = 0

    @property
    def settled(self) -> bool:
        return not self._waiting

    def give(self, partitions: tuple[TopicPartition, ...], count: int, fate: str) -> None:
        self._waiting.append((partitions, count, fate))
        if self._work is None:
            self._work = self._transactions()
            self._go_on(None)

    def forget(self, exists: Callable[[TopicPartition], bool]) -> None:
        """Give up the transactions for which the topic of transactions or one of their partitions does not exist."""
        coordinated = exists(TopicPartition(TRANSACTIONS_TOPIC, 0))
        self._waiting = deque(each for each in self._waiting if coordinated and all(map(exists, each[0])))

    def _go_on(self, reply: Any) -> None:
        """Continue after the reply to the last request."""
        assert self._work is not None
        self._sent += 1
        number = self._sent

        def on_reply(reply: Any) -> None:
            if number == self._sent and not self.world.over:
                self._go_on(reply)

        try:
            step = self._work.send(reply)
        except StopIteration:
            self._work = None
        else:
            step(on_reply)

    # -- transactions ------------------------------------------------------------------------------------

    def _transactions(self) -> Steps:
        while self._waiting:
            transaction = self._waiting[0]
            try:
                yield from self._transaction(*transaction)
            except Failed:
                self._identity = None
            if self._waiting and self._waiting[0] is transaction:
                self._waiting.popleft()

    def _transaction(self, partitions: tuple[TopicPartition, ...], count: int, fate: str) -> Steps:
        identity = self._identity or (yield from self._initialized())
        sender = messages.ProducerIdentity(self.id, identity.producer, identity.epoch)
        if self._offsets is not None:
            yield from self._offsets.enter()
        yield from self._insist(lambda: self._coordinate(messages.AddPartitions(sender, frozenset(partitions))))
        made = self._journal.begin(identity.number)
        for where in [each for each in partitions for _ in range(count)]:
            yield from self._write(made, identity, where)
        if self._offsets is not None:
            group = self._offsets.group
            yield from self._insist(lambda: self._add_offsets(sender, group))
            yield from self._offsets.commit(made, identity.producer, identity.epoch, self._insist)
        self.world.counted(f"transaction {fate}")
        if fate == "vanishes":
            self._silent.append((identity, partitions[0]))
            self._identity = None
            return
        commits = fate == "commits"
        if commits:
            self._journal.request_commit(made)
        yield from self._insist(lambda: self._coordinate(messages.End(sender, commits)))
        self._journal.end(made, TransactionOutcome.COMMITTED if commits else TransactionOutcome.ABORTED)
        self.world.counted("transactions ended")
        if self._offsets is not None:
            yield from self._offsets.fetch()

    def _initialized(self) -> Steps:
        def init() -> Step:
            return self._coordinate(messages.Init(self.id, TIMEOUT_MS, fresh=self.world.new_producer()))

        reply = yield from self._insist(init)
        self.world.incarnations += 1
        identity = self._identity = Identity(reply.producer, reply.epoch, self.world.incarnations)
        granted, pair = self.world.granted, (reply.producer, reply.epoch)
        granted[pair] = pair in granted and self.world.checkers.stability.doubtful()
        silent, self._silent = self._silent, []
        for former, where in silent:
            yield from self._comes_back(former, where)
        return identity

    def _comes_back(self, former: Identity, where: TopicPartition) -> Steps:
        value = self._value()
        made = self._journal.begin(former.number)
        made.values[value] = str(where)
        sender = messages.ProducerIdentity(self.id, former.producer, former.epoch)
        acts = {f"writes to {where}": self._send(former, where, value)}
        if self._offsets is not None:
            acts["commits offsets"] = self._offsets.late_commit(made, former.producer, former.epoch)
        acts["ends its transaction"] = self._coordinate(messages.End(sender, True))
        for what, act in acts.items():
            self.world.counted("fenced producers come back")
            if _error_of((yield act)) is ErrorCode.NONE:
                self._journal.fenced.append(f"incarnation {former.number} of {self.id} {what} after it was fenced")

    def _value(self) -> str:
        self._values += 1
        return f"transaction.{self.number}.{self._values}"

    def _write(self, made: Transaction, identity: Identity, where: TopicPartition) -> Steps:
        value = self._value()
        made.values[value] = str(where)
        yield from self._insist(lambda: self._send(identity, where, value))
        identity.sequences[where] = identity.sequences.get(where, 0) + 1

    # -- requests ----------------------------------------------------------------------------------------

    def _insist(self, act: Callable[[], Step]) -> Steps:
        until = self.world.now + PATIENCE_US
        while True:
            reply = yield act()
            error = _error_of(reply)
            if error is ErrorCode.NONE:
                return reply
            self.world.counted(f"transactor {error.name}")
            if not error.retriable or self.world.now > until:
                raise Failed
            self._coordinator = None
            if self._offsets is not None:
                self._offsets.forget_coordinator()
            yield lambda on_reply: self.later(RETRY_US, lambda: on_reply(None))

    def _coordinate(self, ask: messages.Ask) -> Step:
        """Send a request to the coordinator."""
        return self._at_coordinator(lambda broker, answer: broker.transactions.ask(ask, answer))

    def _add_offsets(self, sender: messages.ProducerIdentity, group: str) -> Step:
        """Send AddOffsetsToTxn to the coordinator."""
        return self._at_coordinator(lambda broker, answer: broker.transactions.add_offsets(sender, group, answer))

    def _at_coordinator(self, act: Callable[[Any, OnReply], None]) -> Step:
        def step(on_reply: OnReply) -> None:
            broker = self._coordinator = self._coordinator or self.found(lambda each: each.transactions.find(self.id))
            self.request(broker, lambda reply: act(broker, reply), on_reply)

        return step

    def _send(self, identity: Identity, where: TopicPartition, value: str) -> Step:
        """Write a batch with one record to the leader of a partition."""

        def step(on_reply: OnReply) -> None:
            self.where = where
            broker = self.leader()
            if broker is None:
                self.later(RETRY_US, lambda: on_reply(None))
                return
            data = build(
                [Record(0, broker.clock(), None, value.encode())],
                producer_id=identity.producer,
                producer_epoch=identity.epoch,
                base_sequence=identity.sequences.get(where, 0),
                flags=TRANSACTIONAL,
            )

            def produce(to: Any, receive: OnReply) -> None:
                def answer(results: list[Produced]) -> None:
                    [result] = results
                    if result.error is ErrorCode.NONE and not self.world.granted[identity.producer, identity.epoch]:
                        self.world.checkers.commitment.acknowledged(to, where, result.base_offset, [value.encode()])
                    self.reply(to, lambda: receive(result))

                self.ask(to, lambda: to.produce(-1, self.timeout_ms, where, data, answer), lambda: receive(None))

            def repeat() -> None:
                self.where = where
                self.world.counted("transactional batches repeated")
                produce(self.leader() or broker, lambda _: None)

            produce(broker, on_reply)
            if self.random.random() < REPEATED:
                self.later(int(self.random.random() ** 2 * REPEATED_US), repeat)
            self.later(self.timeout_ms * 1_000 + LATE_US, lambda: on_reply(None))

        return step


def _error_of(reply: Any) -> ErrorCode:
    """Return the error of a reply. Without a reply the same request may succeed later."""
    if reply is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if isinstance(reply, Committed):
        return next((error for error in reply.errors.values() if error is not ErrorCode.NONE), ErrorCode.NONE)
    error: ErrorCode = reply.error
    return error
