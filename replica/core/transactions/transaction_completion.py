"""The end of a transaction: decided and recorded first; then every partition gets a marker; then completion is
recorded.

The next coordinator reads what was decided and sends all markers again: a partition that has the marker already ignores
it.
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
    """Commits and aborts transactions, and counts the partitions that have no marker yet."""

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
        """Markers that the runtime has not taken yet."""
        self._marking: dict[MarkerId, TransactionMetadata] = {}
        """Transactions of which some partition has no marker yet."""
        self._again: dict[tuple[int, str], int] = {}
        """The time at which the completion of a transaction is written again, by partition and id."""
        self._last_marker = 0

    def succeed(self, former: Self) -> None:
        """Use no marker id again that the former coordinator has issued."""
        self._last_marker = former._last_marker

    def unload(self, partition: int) -> None:
        """Forget the transactions of a partition that another broker leads."""
        for number in [number for number, each in self._marking.items() if each.partition == partition]:
            del self._marking[number]
        for place in [place for place in self._again if place[0] == partition]:
            del self._again[place]

    @property
    def deadline(self) -> int | None:
        return min(self._again.values(), default=None)

    def tick(self, now: int) -> None:
        """Write completions again that could not be written."""
        for (partition, name), when in list(self._again.items()):
            if when <= now:
                self.complete(self._topic.names_in(partition)[name], now)

    def awaits(self, number: MarkerId) -> bool:
        """Return whether the partitions of this marker still have to get it from this coordinator."""
        return number in self._marking

    def _next_marker(self) -> MarkerId:
        self._last_marker += 1
        return MarkerId(self._last_marker)

    def on_end(self, transaction: TransactionMetadata, ticket: Ticket, ask: End, now: int) -> None:
        if (error := transaction.refusal(ask.who)) is not None:
            self._outbox.answer(ticket, TransactionDone(error))
            return
        state = transaction.state
        if state is S.ONGOING:
            prepared = S.PREPARE_COMMIT if ask.commit else S.PREPARE_ABORT
            self._decide(transaction, prepared, now, lambda error: self._outbox.answer(ticket, TransactionDone(error)))
        elif state is (S.COMPLETE_COMMIT if ask.commit else S.COMPLETE_ABORT):
            self._outbox.answer(ticket, TransactionDone(E.NONE))  # the answer to its first request was lost
        else:
            self._outbox.answer(ticket, TransactionDone(E.INVALID_TXN_STATE))

    def _decide(self, transaction: TransactionMetadata, state: S, now: int, then: Callable[[E], None]) -> None:
        def done(error: E, later: int) -> None:
            if error is E.NONE:
                self.send_markers(transaction, later)
            then(error)

        self._transactions.write(transaction, transaction.decided(state, now), now, done)

    def fence(self, transaction: TransactionMetadata, now: int, then: Callable[[E], None]) -> None:
        """Abort the transaction under an epoch that its producer does not have: requests of the producer that are under
        way cannot reach a partition behind the marker."""
        transaction.fence()

        def done(error: E) -> None:
            transaction.fence_failed = error is not E.NONE
            then(error)

        self._decide(transaction, S.PREPARE_ABORT, now, done)

    def abort_overdue(self, transaction: TransactionMetadata, now: int) -> None:
        """Abort the transaction if it is open for longer than its timeout."""
        saved = transaction.now
        if (
            saved.state is not S.ONGOING
            or transaction.pending is not None
            or now - saved.started_ms <= saved.timeout_ms
        ):
            return
        self._outbox.note(TimedOut(transaction.id, saved.producer, saved.epoch, now - saved.started_ms))
        self.fence(transaction, now, lambda _: None)  # without success the next check tries again

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
        """Note that a partition has the marker, or does not exist any more."""
        transaction = self._marking.get(number)
        if transaction is None:
            return
        transaction.unmarked.pop(where, None)
        if not transaction.unmarked:
            del self._marking[number]
            transaction.marker = None
            self.complete(transaction, now)

    def refused(self, number: MarkerId, where: TopicPartition, error: E) -> None:
        """Note that a partition refuses the marker: it has recorded a newer coordinator or a newer producer epoch."""
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
