"""How transactions end: by their producers, by time, and under the next coordinator."""

from __future__ import annotations

import pytest

from replica.core.errors import ErrorCode as E
from replica.core.transactions.transaction_effects import (
    TimedOut,
    TransactionExpired,
    TransactionNotWritten,
    TransactionStuck,
)
from replica.core.transactions.transaction_messages import End, Initialized, ProducerIdentity, TransactionDone
from replica.core.transactions.transaction_states import TxnState
from tests.unit.replica.transactions.room import ID, T0, T1, TIMEOUT_MS, U0, Room

S = TxnState


def begun(room: Room) -> ProducerIdentity:
    who = room.producer()
    assert room.add(who, T0, T1) is E.NONE
    return who


def test_partitions_are_in_a_transaction_when_that_is_safe() -> None:
    room = Room()
    who = room.producer()
    room.holding = True
    ticket = room.post(End(who, True))
    assert room.heard(ticket) == TransactionDone(E.INVALID_TXN_STATE)  # nothing was begun
    room.holding = False
    assert room.add(who, T1) is E.NONE
    assert room.add(who, T0, T1) is E.NONE
    assert room.add(who, U0) is E.NONE
    assert room.described().partitions == (T0, T1, U0)
    room.take_over()
    assert room.described().partitions == (T0, T1, U0)
    room.holding = True
    assert room.add(who, T0, U0) is E.NONE  # nothing is written for what is there
    assert not room.held


@pytest.mark.parametrize("commit", [True, False])
def test_end_is_decided_then_sent_as_markers_then_complete(commit: bool) -> None:
    room = Room()
    who = begun(room)
    prepared, complete = (S.PREPARE_COMMIT, S.COMPLETE_COMMIT) if commit else (S.PREPARE_ABORT, S.COMPLETE_ABORT)
    room.holding = room.deaf = True
    ticket = room.post(End(who, commit))
    assert not room.markers
    assert room.heard(ticket) is None
    room.write(room.held.pop())
    room.turn()
    assert room.heard(ticket) == TransactionDone(E.NONE)  # it is decided, whatever happens
    assert room.state() is prepared
    [marker] = room.markers
    assert (marker.producer, marker.epoch, marker.commit, marker.partitions) == (*_of(who), commit, (T0, T1))
    assert marker.coordinator_epoch == room.epoch
    assert room.done(End(who, commit)) is E.CONCURRENT_TRANSACTIONS
    assert room.add(who, U0) is E.CONCURRENT_TRANSACTIONS
    room.tell(marker, T0)
    room.tell(marker, T0)
    room.turn()
    assert room.described().partitions == (T1,)
    assert not room.held
    room.tell(marker, T1)
    room.release()
    assert room.state() is complete
    assert room.done(End(who, commit)) is E.NONE  # the answer was lost
    assert room.done(End(who, not commit)) is E.INVALID_TXN_STATE
    assert room.add(who, U0) is E.NONE
    assert room.described().partitions == (U0,)


def _of(who: ProducerIdentity) -> tuple[int, int]:
    return who.producer, who.epoch


def test_failed_write_sends_no_markers() -> None:
    room = Room()
    who = begun(room)
    room.holding = True
    ticket = room.post(End(who, True))
    room.fail(E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert room.heard(ticket) == TransactionDone(E.COORDINATOR_NOT_AVAILABLE)
    assert room.state() is S.ONGOING
    assert not room.markers
    room.release()
    assert room.abort(who) is E.NONE
    assert {commit for *_, commit in room.told} == {False}


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.INVALID_TIMESTAMP, E.INVALID_TIMESTAMP),
    ],
)
def test_failed_write_of_a_decision_answers_the_producer_with_its_error(error: E, heard: E) -> None:
    room = Room()
    who = begun(room)
    room.holding = True
    ticket = room.post(End(who, True))
    room.fail(error)
    assert room.heard(ticket) == TransactionDone(heard)
    assert room.notes[-1] == TransactionNotWritten(ID, S.PREPARE_COMMIT, error)


def test_that_all_know_is_written_until_it_is_safe() -> None:
    room = Room()
    who = begun(room)
    room.deaf = True
    assert room.commit(who) is E.NONE
    room.holding = True
    room.hear()
    for _ in range(3):
        room.fail(E.NOT_ENOUGH_REPLICAS)
        assert room.add(who, U0) is E.CONCURRENT_TRANSACTIONS
        assert not room.held
        room.wait(room.settings.again_ms)
    room.release()
    assert room.state() is S.COMPLETE_COMMIT
    assert len(room.told) == 2  # they were not told again


def test_a_transaction_of_nothing_is_complete_at_once() -> None:
    room = Room()
    who = room.producer()
    assert room.add(who) is E.NONE
    assert room.commit(who) is E.NONE
    assert room.state() is S.COMPLETE_COMMIT
    assert not room.told


def test_a_partition_that_will_not_listen_holds_up_its_transaction_and_says_so() -> None:
    room = Room()
    who = begun(room)
    room.deaf = True
    room.commit(who)
    [marker] = room.markers
    room.tell(marker, T0)
    room.coordinator.completion.refused(marker.number, T1, E.TRANSACTION_COORDINATOR_FENCED)
    room.turn()
    assert room.notes[-1] == TransactionStuck(ID, T1, E.TRANSACTION_COORDINATOR_FENCED)
    assert room.described().partitions == (T1,)


# -- time ------------------------------------------------------------------------------------------------------


def test_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    room = Room()
    who = begun(room)
    room.wait(TIMEOUT_MS)
    assert room.state() is S.ONGOING
    room.wait(room.settings.abort_check_ms)
    assert room.state() is S.COMPLETE_ABORT
    assert room.told == [(T0, who.producer, who.epoch + 1, False), (T1, who.producer, who.epoch + 1, False)]
    assert [note for note in room.notes if isinstance(note, TimedOut)]
    assert room.commit(who) is E.PRODUCER_FENCED
    assert room.init(expected=_of(who)) == Initialized(E.PRODUCER_FENCED)
    assert room.producer().epoch == who.epoch + 2


def test_time_counts_from_the_first_partition_on_also_for_the_next_coordinator() -> None:
    room = Room()
    who = begun(room)
    room.wait(TIMEOUT_MS - 1_000)
    room.add(who, U0)
    room.take_over()
    room.wait(1_000 + room.settings.abort_check_ms)
    assert room.state() is S.COMPLETE_ABORT


def test_nothing_is_too_late_before_it_has_begun_or_after_it_is_decided() -> None:
    room = Room()
    idle = room.producer("idle")
    who = begun(room)
    room.deaf = True
    room.commit(who)
    room.wait(TIMEOUT_MS * 3)
    room.hear()
    assert room.state() is S.COMPLETE_COMMIT
    assert room.add(idle, T0) is E.NONE


def test_an_abort_that_could_not_be_written_is_tried_again_under_the_same_epoch() -> None:
    room = Room()
    who = begun(room)
    room.holding = True
    room.wait(TIMEOUT_MS + room.settings.abort_check_ms)
    room.fail(E.REQUEST_TIMED_OUT, written=True)
    room.wait(room.settings.abort_check_ms)
    room.release()
    assert room.state() is S.COMPLETE_ABORT
    assert {epoch for _, _, epoch, _ in room.told} == {who.epoch + 1}


def test_unused_transactional_id_expires_unless_a_transaction_is_open() -> None:
    week = 7 * 24 * 3_600_000
    room = Room(max_timeout_ms=2 * week)
    room.producer("empty")
    done = room.producer("done")
    room.add(done, T0)
    room.commit(done)
    used = room.producer("used", 2 * week)
    room.wait(week - 3_600_000)
    room.add(used, T0)
    room.wait(2 * 3_600_000)
    assert {note.id for note in room.notes if isinstance(note, TransactionExpired)} == {"done", "empty"}
    assert room.add(done, T1) is E.INVALID_PRODUCER_ID_MAPPING
    assert room.described("empty").error is E.TRANSACTIONAL_ID_NOT_FOUND
    assert room.state("used") is S.ONGOING
    room.take_over()
    assert room.described("empty").error is E.TRANSACTIONAL_ID_NOT_FOUND


def test_an_id_whose_end_could_not_be_written_is_still_known() -> None:
    room = Room()
    who = room.producer()
    room.holding = True
    room.wait(room.settings.id_expiration_ms + room.settings.expiry_check_ms)
    room.fail(E.NOT_ENOUGH_REPLICAS)
    room.release()
    assert room.add(who, T0) is E.NONE
