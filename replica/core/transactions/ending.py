"""How a transaction ends: decided first, and safe; then every partition is told; then it is written that all know.

A coordinator that comes after this one reads what was decided, and tells all of them again: the end of a transaction
that a partition knows already does no harm there.
"""

from __future__ import annotations

from collections.abc import Callable

from kraft_controller.core.names import TopicPartition
from replica.core.transactions.desk import Desk, E
from replica.core.transactions.messages import Done, End, Ticket
from replica.core.transactions.ready import Marker, MarkerId, Stuck, TimedOut
from replica.core.transactions.states import PREPARED, TxnState
from replica.core.transactions.transaction import Transaction

S = TxnState


def on_end(desk: Desk, transaction: Transaction, ticket: Ticket, ask: End, now: int) -> None:
    if (error := transaction.refusal(ask.who)) is not None:
        desk.answer(ticket, Done(error))
        return
    state = transaction.state
    if state is S.ONGOING:
        prepared = S.PREPARE_COMMIT if ask.commit else S.PREPARE_ABORT
        _decide(desk, transaction, prepared, now, lambda error: desk.answer(ticket, Done(error)))
    elif state is (S.COMPLETE_COMMIT if ask.commit else S.COMPLETE_ABORT):
        desk.answer(ticket, Done(E.NONE))  # his answer was lost
    else:
        desk.answer(ticket, Done(E.INVALID_TXN_STATE))


def _decide(desk: Desk, transaction: Transaction, state: S, now: int, then: Callable[[E], None]) -> None:
    def done(error: E, later: int) -> None:
        if error is E.NONE:
            spread(desk, transaction, later)
        then(error)

    desk.write(transaction, transaction.decided(state, now), now, done)


def fence(desk: Desk, transaction: Transaction, now: int, then: Callable[[E], None]) -> None:
    """It is taken from its producer and aborted, under an epoch that he does not have: nothing that he has sent, and
    that is still on its way, can come into a partition behind the end."""
    transaction.fence()

    def done(error: E) -> None:
        transaction.fence_failed = error is not E.NONE
        then(error)

    _decide(desk, transaction, S.PREPARE_ABORT, now, done)


def abort_overdue(desk: Desk, transaction: Transaction, now: int) -> None:
    """If it is open for longer than its producer has said that it would be."""
    saved = transaction.now
    if saved.state is not S.ONGOING or transaction.pending is not None or now - saved.started_ms <= saved.timeout_ms:
        return
    desk.note(TimedOut(transaction.id, saved.producer, saved.epoch, now - saved.started_ms))
    fence(desk, transaction, now, lambda _: None)  # if it cannot be written, the next look tries again


# -- everybody is told ---------------------------------------------------------------------------------------


def spread(desk: Desk, transaction: Transaction, now: int) -> None:
    saved = transaction.now
    assert saved.state in PREPARED
    if not saved.partitions:
        complete(desk, transaction, now)
        return
    commit = saved.state is S.PREPARE_COMMIT
    transaction.pending = S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT
    transaction.unmarked = dict.fromkeys(saved.partitions)
    number = transaction.marker = desk.next_marker()
    desk.marking[number] = transaction
    desk.markers.append(
        Marker(
            number,
            transaction.id,
            transaction.partition,
            saved.producer,
            saved.epoch,
            desk.epochs[transaction.partition],
            commit,
            saved.partitions,
        )
    )


def marked(desk: Desk, number: MarkerId, where: TopicPartition, now: int) -> None:
    """That partition knows how it ended; or there is none any more that could."""
    transaction = desk.marking.get(number)
    if transaction is None:
        return
    transaction.unmarked.pop(where, None)
    if not transaction.unmarked:
        del desk.marking[number]
        transaction.marker = None
        complete(desk, transaction, now)


def refused(desk: Desk, number: MarkerId, where: TopicPartition, error: E) -> None:
    """It knows of a newer coordinator, or of a newer producer: what we say will not be believed any more."""
    transaction = desk.marking.get(number)
    if transaction is not None:
        desk.note(Stuck(transaction.id, where, error))


def complete(desk: Desk, transaction: Transaction, now: int) -> None:
    after = transaction.completed(now)
    place = transaction.partition, transaction.id

    def done(error: E, later: int) -> None:
        if error is not E.NONE and transaction.partition in desk.epochs:
            transaction.pending = after.saved.state
            desk.again[place] = later + desk.settings.again_ms

    desk.again.pop(place, None)
    desk.write(transaction, after, now, done)
