"""The coordinator of transactions on one broker, as Kafka's `TransactionCoordinator`.

    coordinator.topic.role_taken(taken, now)      this broker leads a partition of the topic, or gave it up
    coordinator.step(ticket, ask, now)            handle a request, which is answered once, under its ticket
    coordinator.topic.appended(append.id, NONE, offset, now)    the record is committed, at this offset
    coordinator.completion.marked(marker.number, where, now)    a partition of the transaction has the marker
    coordinator.tick(now)                         `coordinator.deadline` has passed
    ready = coordinator.ready()                   the effects; call it after every other call

A transactional id hashes to a partition of the transactions topic. The leader of that partition is the id's
coordinator. All state that the next coordinator needs is in that partition: a request that changes the state succeeds,
and markers are sent, only when the record of the change is committed.
"""

from __future__ import annotations

from typing import Self

from kraft_controller.core.names import TRANSACTIONS_TOPIC
from replica.core.coordinator_topic import CoordinatorOutbox, CoordinatorTopic, Load
from replica.core.transactions.transaction_completion import TransactionCompletion
from replica.core.transactions.transaction_effects import (
    Note,
    Saved,
    TransactionAppend,
    TransactionReady,
    TransactionsLoaded,
    TransactionsUnloaded,
    TxnRecord,
)
from replica.core.transactions.transaction_messages import (
    AddPartitions,
    Ask,
    DescribedTransaction,
    DescribeTransaction,
    End,
    Init,
    Initialized,
    ListedTransactions,
    ListTransactions,
    NeedsId,
    Reply,
    Ticket,
    TransactionDone,
    TransactionOverview,
)
from replica.core.transactions.transaction_metadata import TransactionMetadata
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.core.transactions.transaction_state_manager import E, TransactionStateManager
from replica.core.transactions.transaction_states import PREPARED, TxnState

S = TxnState


class TransactionCoordinator:
    """Coordinates the transactional ids that hash to the partitions of the transactions topic led by this broker."""

    def __init__(self, settings: TransactionSettings, now: int) -> None:
        self._settings = settings
        self._outbox = CoordinatorOutbox[Reply, TransactionAppend, Note]()
        self.topic = CoordinatorTopic[TransactionMetadata, dict[str, Saved]](
            TRANSACTIONS_TOPIC, self._outbox, dict, self._lost
        )
        self.transactions = TransactionStateManager(settings, self.topic, self._outbox)
        self.completion = TransactionCompletion(settings, self.topic, self.transactions, self._outbox)
        self._next_abort_check = now + settings.abort_check_ms
        self._next_expiry_check = now + settings.expiry_check_ms

    def succeed(self, former: Self) -> None:
        self.completion.succeed(former.completion)
        self.topic.succeed(former.topic)

    # -- partitions ----------------------------------------------------------------------------------------

    def replay(self, load: Load, offset: int, record: TxnRecord, producer: int | None = None) -> None:
        """Apply a record of the topic, in log order. `producer` is not used: records of this topic are never
        transactional."""
        found = self.topic.found(load)
        if found is None:
            return
        if record.saved is None:
            found.pop(record.id, None)
        else:
            found[record.id] = record.saved

    def replay_end(self, load: Load, offset: int, producer: int, committed: bool) -> None:
        """Do nothing: the topic contains no markers."""

    def loaded(self, load: Load, now: int) -> None:
        """Coordinate the transactions of a loaded partition from now on, and complete those that are decided."""
        found = self.topic.found(load)
        if found is None:
            return
        made = {name: TransactionMetadata(name, load.partition, saved) for name, saved in found.items()}
        epoch = self.topic.serve(load, made)
        decided = [transaction for transaction in made.values() if transaction.state in PREPARED]
        self._outbox.note(TransactionsLoaded(load.partition, epoch, len(made), len(decided)))
        for transaction in decided:
            self.completion.send_markers(transaction, now)

    def _lost(self, partition: int, transactions: dict[str, TransactionMetadata], now: int) -> None:
        self.completion.unload(partition)
        self._outbox.note(TransactionsUnloaded(partition, len(transactions)))

    # -- time ----------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> int:
        """The time of the next `tick`."""
        times = (self._next_abort_check, self._next_expiry_check, self.completion.deadline)
        return min(time for time in times if time is not None)

    def tick(self, now: int) -> None:
        self.completion.tick(now)
        if now >= self._next_abort_check:
            self._next_abort_check = now + self._settings.abort_check_ms
            for transaction in list(self.transactions):
                self.completion.abort_overdue(transaction, now)
        if now >= self._next_expiry_check:
            self._next_expiry_check = now + self._settings.expiry_check_ms
            self.transactions.remove_expired(now)

    def ready(self) -> TransactionReady:
        """Return the effects since the last call."""
        markers = tuple(self.completion.markers)
        self.completion.markers.clear()
        return TransactionReady(*self._outbox.take(), markers)

    # -- requests ----------------------------------------------------------------------------------------

    def step(self, ticket: Ticket, ask: Ask, now: int) -> None:
        """Handle a request.

        `Init` adds a transactional id if it is unknown. For an unknown id, `AddPartitions` and `End` fail with
        INVALID_PRODUCER_ID_MAPPING, and `DescribeTransaction` fails with TRANSACTIONAL_ID_NOT_FOUND.
        """
        match ask:
            case Init():
                self._on_init(ticket, ask, now)
            case AddPartitions(identity):
                found = self._sought(identity.id)
                if isinstance(found, TransactionMetadata):
                    self._on_add(found, ticket, ask, now)
                else:
                    self._outbox.answer(
                        ticket, TransactionDone(E.INVALID_PRODUCER_ID_MAPPING if found is None else found)
                    )
            case End(identity):
                found = self._sought(identity.id)
                if isinstance(found, TransactionMetadata):
                    self.completion.on_end(found, ticket, ask, now)
                else:
                    self._outbox.answer(
                        ticket, TransactionDone(E.INVALID_PRODUCER_ID_MAPPING if found is None else found)
                    )
            case DescribeTransaction(name):
                found = self._sought(name)
                if isinstance(found, TransactionMetadata):
                    self._outbox.answer(ticket, found.described())
                else:
                    self._outbox.answer(
                        ticket, DescribedTransaction(E.TRANSACTIONAL_ID_NOT_FOUND if found is None else found)
                    )
            case ListTransactions():
                self._outbox.answer(ticket, self._listed(ask, now))

    def _sought(self, name: str) -> TransactionMetadata | E | None:
        """Return the transaction; an error if the id is empty or this broker does not serve it now; None if the id is
        unknown."""
        error = self.topic.refusal(name) if name else E.INVALID_REQUEST
        return self.topic.find(name) if error is None else error

    def _on_init(self, ticket: Ticket, ask: Init, now: int) -> None:
        found = self._sought(ask.id)
        if ask.id and not 0 < ask.timeout_ms <= self._settings.max_timeout_ms:
            found = E.INVALID_TRANSACTION_TIMEOUT
        if isinstance(found, E):
            self._outbox.answer(ticket, Initialized(found))
            return
        if found is None:
            if ask.fresh is None:
                self._outbox.answer(ticket, NeedsId())
                return
            found = self.transactions.add(ask.id, ask.fresh, ask.timeout_ms, now)
        if found.pending is not None or found.state in PREPARED:
            self._outbox.answer(ticket, Initialized(E.CONCURRENT_TRANSACTIONS))
        elif not found.knows(ask.expected):
            self._outbox.answer(ticket, Initialized(E.PRODUCER_FENCED))
        elif found.state is S.ONGOING:
            # A transaction of the same or an earlier producer is open. The client repeats InitProducerId until this
            # transaction is completely aborted.
            self.completion.fence(
                found,
                now,
                lambda error: self._outbox.answer(ticket, Initialized(error or E.CONCURRENT_TRANSACTIONS)),
            )
        else:
            self._begin_anew(found, ticket, ask, now)

    def _begin_anew(self, transaction: TransactionMetadata, ticket: Ticket, ask: Init, now: int) -> None:
        if not transaction.needs_id(ask.expected):
            after = transaction.bumped(ask.expected, ask.timeout_ms, now)
        elif ask.fresh is None:
            self._outbox.answer(ticket, NeedsId())
            return
        else:
            after = transaction.rotated(ask.fresh, ask.expected, ask.timeout_ms, now)
        if after is None:
            self._outbox.answer(ticket, Initialized(E.PRODUCER_FENCED))
            return
        given = Initialized(E.NONE, after.saved.producer, after.saved.epoch)

        def done(error: E, _: int) -> None:
            self._outbox.answer(ticket, given if error is E.NONE else Initialized(error))

        self.transactions.write(transaction, after, now, done)

    def _on_add(self, transaction: TransactionMetadata, ticket: Ticket, ask: AddPartitions, now: int) -> None:
        error = transaction.refusal(ask.identity)
        if error is None and transaction.state in PREPARED:
            error = E.CONCURRENT_TRANSACTIONS
        if error is None and transaction.state is S.ONGOING and ask.partitions <= set(transaction.now.partitions):
            error = E.NONE  # a repeated request: its first answer may be lost
        if error is not None:
            self._outbox.answer(ticket, TransactionDone(error))
            return

        def done(error: E, _: int) -> None:
            self._outbox.answer(ticket, TransactionDone(error))

        self.transactions.write(transaction, transaction.with_partitions(ask.partitions, now), now, done)

    def _listed(self, ask: ListTransactions, now: int) -> ListedTransactions:
        if not self.topic.is_counted():
            return ListedTransactions(E.COORDINATOR_NOT_AVAILABLE)
        if self.topic.loading:
            return ListedTransactions(E.COORDINATOR_LOAD_IN_PROGRESS)
        found = (
            TransactionOverview(each.id, each.now.producer, each.state)
            for each in sorted(self.transactions, key=lambda each: each.id)
            if (not ask.states or each.state in ask.states)
            and (not ask.producers or each.now.producer in ask.producers)
            and (ask.longer_than_ms < 0 or now - each.now.started_ms > ask.longer_than_ms)
        )
        return ListedTransactions(E.NONE, tuple(found))
