"""The end of a transaction: record the decision, then write a marker to each partition, then record the completion.

If the coordinator changes in between, the next one reads the decision and sends all markers again. A repeated marker is
appended to the log, too, but ends no transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import CoordinatorOutbox, CoordinatorTopic
from replica.core.transactions.transaction_effects import (
    Marker,
    MarkerId,
    Note,
    Saved,
    TimedOut,
    TransactionAppend,
    TransactionStuck,
)
from replica.core.transactions.transaction_messages import End, Reply, Ticket, TransactionDone
from replica.core.transactions.transaction_metadata import TransactionMetadata
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.core.transactions.transaction_state_manager import E, TransactionStateManager
from replica.core.transactions.transaction_states import PREPARED, TxnState

S = TxnState


class TransactionCompletion:
    """Commits and aborts transactions, and tracks the partitions that still need a marker."""

    def __init__(
        self,
        settings: TransactionSettings,
        topic: CoordinatorTopic[TransactionMetadata, dict[str, Saved]],
        transactions: TransactionStateManager,
        outbox: CoordinatorOutbox[Reply, TransactionAppend, Note],
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._transactions = transactions
        self._outbox = outbox
        self.markers: list[Marker] = []
        """Markers for the runtime to take."""
        self._marking: dict[MarkerId, TransactionMetadata] = {}
        """Transactions with partitions that still need a marker, by the id of the marker."""
        self._again: dict[tuple[int, str], int] = {}
        """The time at which to retry writing the completion of a transaction, by partition of the topic and
        transactional id."""
        self._last_marker = 0

    def succeed(self, former: Self) -> None:
        """Continue the former coordinator's marker ids, so that none is reused."""
        self._last_marker = former._last_marker

    def unload(self, partition: int) -> None:
        """Forget the transactions in a partition of the transactions topic, which this broker gave up."""
        for number in [number for number, each in self._marking.items() if each.partition == partition]:
            del self._marking[number]
        for place in [place for place in self._again if place[0] == partition]:
            del self._again[place]

    @property
    def deadline(self) -> int | None:
        return min(self._again.values(), default=None)

    def tick(self, now: int) -> None:
        """Retry writing completions that failed."""
        for (partition, name), when in list(self._again.items()):
            if when <= now:
                self.complete(self._topic.names_in(partition)[name], now)

    def awaits(self, number: MarkerId) -> bool:
        """Return whether some partition still needs this marker from this coordinator."""
        return number in self._marking

    def _next_marker(self) -> MarkerId:
        self._last_marker += 1
        return MarkerId(self._last_marker)

    def on_end(self, transaction: TransactionMetadata, ticket: Ticket, ask: End, now: int) -> None:
        if (error := transaction.refusal(ask.identity)) is not None:
            self._outbox.answer(ticket, TransactionDone(error))
            return
        state = transaction.state
        if state is S.ONGOING:
            prepared = S.PREPARE_COMMIT if ask.commit else S.PREPARE_ABORT
            self._decide(transaction, prepared, now, lambda error: self._outbox.answer(ticket, TransactionDone(error)))
        elif state is (S.COMPLETE_COMMIT if ask.commit else S.COMPLETE_ABORT):
            self._outbox.answer(ticket, TransactionDone(E.NONE))  # a repeated request: its first answer may be lost
        else:
            self._outbox.answer(ticket, TransactionDone(E.INVALID_TXN_STATE))

    def _decide(self, transaction: TransactionMetadata, state: S, now: int, then: Callable[[E], None]) -> None:
        def done(error: E, later: int) -> None:
            if error is E.NONE:
                self.send_markers(transaction, later)
            then(error)

        self._transactions.write(transaction, transaction.decided(state, now), now, done)

    def fence(self, transaction: TransactionMetadata, now: int, then: Callable[[E], None]) -> None:
        """Abort the transaction under an incremented producer epoch, so that in-flight requests of the producer cannot
        append after the marker."""
        transaction.fence()

        def done(error: E) -> None:
            transaction.fence_failed = error is not E.NONE
            then(error)

        self._decide(transaction, S.PREPARE_ABORT, now, done)

    def abort_overdue(self, transaction: TransactionMetadata, now: int) -> None:
        """Abort the transaction if it is open and has exceeded its timeout, unless a change is being written."""
        saved = transaction.now
        if (
            saved.state is not S.ONGOING
            or transaction.pending is not None
            or now - saved.started_ms <= saved.timeout_ms
        ):
            return
        self._outbox.note(TimedOut(transaction.id, saved.producer, saved.epoch, now - saved.started_ms))
        self.fence(transaction, now, lambda _: None)  # if this fails, the next check tries again

    def send_markers(self, transaction: TransactionMetadata, now: int) -> None:
        saved = transaction.now
        assert saved.state in PREPARED
        if not saved.partitions:
            self.complete(transaction, now)
            return
        commit = saved.state is S.PREPARE_COMMIT
        transaction.pending = S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT
        transaction.unmarked = dict.fromkeys(saved.partitions)
        number = transaction.marker = self._next_marker()
        self._marking[number] = transaction
        self.markers.append(
            Marker(
                number,
                transaction.id,
                transaction.partition,
                saved.producer,
                saved.epoch,
                self._topic.epochs[transaction.partition],
                commit,
                saved.partitions,
            )
        )

    def marked(self, number: MarkerId, where: TopicPartition, now: int) -> None:
        """Record that a partition has the marker or needs none. After the last partition, write the completion."""
        transaction = self._marking.get(number)
        if transaction is None:
            return
        transaction.unmarked.pop(where, None)
        if not transaction.unmarked:
            del self._marking[number]
            transaction.marker = None
            self.complete(transaction, now)

    def refused(self, number: MarkerId, where: TopicPartition, error: E) -> None:
        """Report that a partition refuses the marker, because it has seen a newer coordinator epoch or producer
        epoch."""
        transaction = self._marking.get(number)
        if transaction is not None:
            self._outbox.note(TransactionStuck(transaction.id, where, error))

    def complete(self, transaction: TransactionMetadata, now: int) -> None:
        after = transaction.completed(now)
        place = transaction.partition, transaction.id

        def done(error: E, later: int) -> None:
            if error is not E.NONE and transaction.partition in self._topic.epochs:
                transaction.pending = after.saved.state
                self._again[place] = later + self._settings.again_ms

        self._again.pop(place, None)
        self._transactions.write(transaction, after, now, done)
