"""The transactions that this broker coordinates, and their records, as Kafka's `TransactionStateManager`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from replica.core.coordinator_topic import CoordinatorOutbox, CoordinatorTopic
from replica.core.errors import ErrorCode
from replica.core.transactions.transaction_effects import (
    Moved,
    Note,
    Saved,
    TransactionAppend,
    TransactionExpired,
    TransactionNotWritten,
    TxnRecord,
)
from replica.core.transactions.transaction_messages import NO_EPOCH, Reply
from replica.core.transactions.transaction_metadata import Next, TransactionMetadata
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.core.transactions.transaction_states import AT_REST, TxnState, may

E: TypeAlias = ErrorCode
Done: TypeAlias = Callable[[ErrorCode, int], None]
"""Receives the outcome of a write, as the error for clients (NONE on success), and the time."""


class TransactionStateManager:
    """Keeps transactions by transactional id, and writes their records, one at a time for each id."""

    def __init__(
        self,
        settings: TransactionSettings,
        topic: CoordinatorTopic[TransactionMetadata, dict[str, Saved]],
        outbox: CoordinatorOutbox[Reply, TransactionAppend, Note],
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._outbox = outbox

    def __iter__(self) -> Iterator[TransactionMetadata]:
        return iter(self._topic)

    def add(self, name: str, producer: int, timeout_ms: int, now: int) -> TransactionMetadata:
        partition = self._topic.partition_of(name)
        saved = Saved(producer, NO_EPOCH, timeout_ms, TxnState.EMPTY, updated_ms=now)
        made = TransactionMetadata(name, partition, saved)
        self._topic.add(partition, name, made)
        return made

    def write(self, transaction: TransactionMetadata, after: Next, now: int, done: Done) -> None:
        """Write the next state to the topic. If this succeeds, apply the state. Until the outcome, no other may be
        written."""
        before = transaction.state

        def finished(error: E, later: int) -> None:
            if error is E.NONE:
                transaction.become(after)
                saved = after.saved
                self._outbox.note(Moved(transaction.id, saved.producer, saved.epoch, before, saved.state))
            done(error, later)

        self._write(transaction, after.saved.state, after.saved, now, finished)

    def remove_expired(self, now: int) -> None:
        """Remove ids that were not used for `transactional.id.expiration.ms`, a limited number in each call."""
        settings = self._settings
        old = [
            each
            for each in self
            if each.state in AT_REST and each.pending is None and now - each.now.updated_ms >= settings.id_expiration_ms
        ]
        for each in old[: settings.forgotten_at_once]:
            self._remove(each, now)

    def _remove(self, transaction: TransactionMetadata, now: int) -> None:
        def done(error: E, _: int) -> None:
            if error is E.NONE:
                self._topic.remove(transaction.partition, transaction.id)
                self._outbox.note(TransactionExpired(transaction.id))

        self._write(transaction, TxnState.DEAD, None, now, done)

    def _write(
        self, transaction: TransactionMetadata, state: TxnState, saved: Saved | None, now: int, done: Done
    ) -> None:
        assert may(transaction.state, state), (
            f"transactional id {transaction.id} cannot go from {transaction.state} to {state}"
        )
        assert transaction.pending in (None, state)
        transaction.pending = state

        def finished(error: E, _: int, later: int) -> None:
            transaction.pending = None
            if error is not E.NONE:
                self._outbox.note(TransactionNotWritten(transaction.id, state, error))
            done(_CLIENT_ERRORS.get(error, error), later)

        partition = transaction.partition
        ident = self._topic.write(partition, finished)
        timeout_ms = max(transaction.now.timeout_ms, self._settings.write_ms)
        record = TxnRecord(transaction.id, saved)
        self._outbox.appends.append(TransactionAppend(ident, partition, record, now, timeout_ms))


_CLIENT_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: E.COORDINATOR_NOT_AVAILABLE,
    E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.FENCED_LEADER_EPOCH: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
}
"""The error that a producer receives if the write of its record fails, by the error of the write. Errors that are not
listed reach the producer unchanged."""
