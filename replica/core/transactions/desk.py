"""What all parts of the coordinator work with: settings, what is being written, and what goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Self, TypeAlias

from attrs import define, field, frozen

from replica.core.coordinating import TopicDesk
from replica.core.errors import ErrorCode
from replica.core.transactions.messages import Reply
from replica.core.transactions.ready import (
    Append,
    Marker,
    MarkerId,
    Moved,
    Note,
    NotWritten,
    Saved,
    TxnRecord,
)
from replica.core.transactions.states import TxnState, may
from replica.core.transactions.transaction import Next, Transaction

E: TypeAlias = ErrorCode


@frozen
class Settings:
    """max_timeout_ms       `transaction.max.timeout.ms`: no producer may keep a transaction open for longer
    id_expiration_ms     `transactional.id.expiration.ms`
    abort_check_ms       `transaction.abort.timed.out.transaction.cleanup.interval.ms`
    expiry_check_ms      `transaction.remove.expired.transaction.cleanup.interval.ms`
    forgotten_at_once    as many ids at most go at one such look
    write_ms             a record is waited for for so long at least, and for as long as its transaction may be open
    again_ms             before a record that nobody waits for is written once more
    """

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    abort_check_ms: int = 10_000
    expiry_check_ms: int = 3_600_000
    forgotten_at_once: int = 1_000
    write_ms: int = 5_000
    again_ms: int = 500


Done: TypeAlias = Callable[[ErrorCode, int], None]
"""What came of a write, as a client is told it; and the time."""


@define(eq=False)
class Desk(TopicDesk[Reply, Append, Note]):
    """marking   transactions of which partitions are being told, by the number of that
    again     when the end of a transaction, of which all partitions know, is to be written once more
    """

    settings: Settings
    marking: dict[MarkerId, Transaction] = field(factory=dict)
    again: dict[tuple[int, str], int] = field(factory=dict)
    markers: list[Marker] = field(factory=list)
    _last_marker: int = 0

    def count_on(self, former: Self) -> None:
        super().count_on(former)
        self._last_marker = former._last_marker

    def write(self, transaction: Transaction, after: Next, now: int, done: Done) -> None:
        """Nothing else is done with the transaction until it is known what came of this."""
        before = transaction.state

        def finished(error: E, later: int) -> None:
            if error is E.NONE:
                transaction.become(after)
                saved = after.saved
                self.note(Moved(transaction.id, saved.producer, saved.epoch, before, saved.state))
            done(error, later)

        self._write(transaction, after.saved.state, after.saved, now, finished)

    def bury(self, transaction: Transaction, now: int, done: Done) -> None:
        self._write(transaction, TxnState.DEAD, None, now, done)

    def _write(self, transaction: Transaction, state: TxnState, saved: Saved | None, now: int, done: Done) -> None:
        assert may(transaction.state, state), f"{transaction.id}: no way from {transaction.state} to {state}"
        assert transaction.pending in (None, state)
        transaction.pending = state

        def finished(error: E, _: int, later: int) -> None:
            transaction.pending = None
            if error is not E.NONE:
                self.note(NotWritten(transaction.id, state, error))
            done(told(error), later)

        partition = transaction.partition
        ident = self.writes(partition, finished)
        timeout_ms = max(transaction.now.timeout_ms, self.settings.write_ms)
        record = TxnRecord(transaction.id, saved)
        self.appends.append(Append(ident, partition, self.epochs[partition], record, now, timeout_ms))

    def next_marker(self) -> MarkerId:
        self._last_marker += 1
        return MarkerId(self._last_marker)


_TOLD: Final[Mapping[ErrorCode, ErrorCode]] = {
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


def told(error: ErrorCode) -> ErrorCode:
    """What a producer hears whose record could not be written."""
    return _TOLD.get(error, error)
