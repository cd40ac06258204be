"""Who bears a transactional id now: epochs, fencing, and producers that go on after an error."""

from __future__ import annotations

import pytest
from attrs import evolve

from replica.core.errors import ErrorCode as E
from replica.core.transactions.transaction_effects import Saved, TxnRecord
from replica.core.transactions.transaction_messages import GREATEST_EPOCH, Init, Initialized, NeedsId, ProducerIdentity
from replica.core.transactions.transaction_states import TxnState
from tests.unit.replica.transactions.room import ID, T0, T1, TIMEOUT_MS, Room

S = TxnState
MINE = 100
"""The id that the first producer is given."""


def worn_out(epoch: int) -> Room:
    """A room in which the id has been through so many epochs."""
    room = Room(lead=False)
    saved = Saved(7, epoch, TIMEOUT_MS, S.COMPLETE_COMMIT, updated_ms=room.now)
    for partition in room.topic:
        room.store(partition, TxnRecord(ID, saved))
    room.take_over()
    return room


def test_new_transactional_id_gets_a_producer_id_and_each_producer_an_epoch() -> None:
    room = Room()
    assert room.init() == Initialized(E.NONE, MINE, 0)
    assert room.init() == Initialized(E.NONE, MINE, 1)
    assert room.init("another") == Initialized(E.NONE, MINE + 1, 0)
    room.take_over()
    assert room.init() == Initialized(E.NONE, MINE, 2)


def test_an_id_is_asked_for_only_when_it_is_needed() -> None:
    room = Room()
    assert room.ask(Init(ID, TIMEOUT_MS)) == NeedsId()
    assert room.ask(Init(ID, TIMEOUT_MS, fresh=5)) == Initialized(E.NONE, 5, 0)
    assert room.ask(Init(ID, TIMEOUT_MS, fresh=6)) == Initialized(E.NONE, 5, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_transaction_may_not_be_open_for_ever(timeout_ms: int) -> None:
    room = Room()
    assert room.init(timeout_ms=timeout_ms) == Initialized(E.INVALID_TRANSACTION_TIMEOUT)
    assert room.init(timeout_ms=900_000).error is E.NONE


def test_a_name_is_not_empty() -> None:
    assert Room().init("") == Initialized(E.INVALID_REQUEST)


def test_producer_epoch_is_sent_only_after_its_record_is_committed() -> None:
    room = Room()
    room.holding = True
    ticket = room.post(Init(ID, TIMEOUT_MS, fresh=5))
    assert room.heard(ticket) is None
    assert room.init() == Initialized(E.CONCURRENT_TRANSACTIONS)
    room.release()
    assert room.heard(ticket) == Initialized(E.NONE, 5, 0)


def test_epoch_whose_write_failed_is_not_used() -> None:
    room = Room()
    room.holding = True
    ticket = room.post(Init(ID, TIMEOUT_MS, fresh=5))
    room.fail(E.NOT_ENOUGH_REPLICAS)
    assert room.heard(ticket) == Initialized(E.COORDINATOR_NOT_AVAILABLE)
    room.release()
    assert room.init() == Initialized(E.NONE, 5, 0)


def test_earlier_producer_is_fenced_and_its_transaction_aborted_first() -> None:
    room = Room()
    zombie = room.producer()
    assert room.add(zombie, T0, T1) is E.NONE
    room.deaf = True
    assert room.init() == Initialized(E.CONCURRENT_TRANSACTIONS)
    assert room.state() is S.PREPARE_ABORT
    assert room.init() == Initialized(E.CONCURRENT_TRANSACTIONS)  # until every partition knows
    assert room.commit(zombie) is E.PRODUCER_FENCED
    room.hear()
    # The end bears an epoch that nobody has: what the zombie has sent, and that is still on its way, comes too late.
    assert room.told == [(T0, MINE, 1, False), (T1, MINE, 1, False)]
    assert room.init() == Initialized(E.NONE, MINE, 2)
    for error in (room.add(zombie, T0), room.commit(zombie), room.abort(zombie)):
        assert error is E.PRODUCER_FENCED


def test_fencing_that_could_not_be_written_counts_one_epoch_and_not_two() -> None:
    room = Room()
    zombie = room.producer()
    room.add(zombie, T0)
    room.holding = True
    ticket = room.post(Init(ID, TIMEOUT_MS))
    room.fail(E.REQUEST_TIMED_OUT)
    assert room.heard(ticket) == Initialized(E.COORDINATOR_NOT_AVAILABLE)
    assert room.commit(zombie) is E.PRODUCER_FENCED  # nobody shall think that it goes on
    room.release()
    assert room.producer() == ProducerIdentity(ID, MINE, 2)
    assert room.told == [(T0, MINE, 1, False)]


def test_unknown_producer_id_is_refused() -> None:
    room = Room()
    who = room.producer()
    assert room.add(evolve(who, producer=9), T0) is E.INVALID_PRODUCER_ID_MAPPING
    assert room.commit(evolve(who, producer=9)) is E.INVALID_PRODUCER_ID_MAPPING
    assert room.add(evolve(who, id="never heard of"), T0) is E.INVALID_PRODUCER_ID_MAPPING
    assert room.commit(evolve(who, id="never heard of")) is E.INVALID_PRODUCER_ID_MAPPING


# -- going on after an error -----------------------------------------------------------------------------------


def test_a_producer_that_goes_on_is_given_its_next_epoch_once() -> None:
    room = Room()
    room.producer()
    assert room.init(expected=(MINE, 0)) == Initialized(E.NONE, MINE, 1)
    assert room.init(expected=(MINE, 0)) == Initialized(E.NONE, MINE, 1)  # the answer was lost
    assert room.init(expected=(MINE, 1)) == Initialized(E.NONE, MINE, 2)


def test_a_producer_that_was_replaced_cannot_go_on() -> None:
    room = Room()
    room.producer()
    room.init(expected=(MINE, 0))
    room.producer()
    for epoch in (0, 1):
        assert room.init(expected=(MINE, epoch)) == Initialized(E.PRODUCER_FENCED)
    assert room.init(expected=(MINE + 5, 2)) == Initialized(E.PRODUCER_FENCED)


def test_forgotten_transactional_id_begins_anew() -> None:
    room = Room()
    assert room.init(expected=(55, 3)) == Initialized(E.NONE, MINE, 0)


# -- no epoch is left ------------------------------------------------------------------------------------------


def test_the_last_epoch_but_one_is_the_last_that_is_given_out() -> None:
    room = worn_out(GREATEST_EPOCH - 2)
    assert room.init() == Initialized(E.NONE, 7, GREATEST_EPOCH - 1)
    assert room.init() == Initialized(E.NONE, MINE, 0)


def test_a_zombie_of_the_last_epoch_is_still_fenced() -> None:
    room = worn_out(GREATEST_EPOCH - 2)
    zombie = room.producer()
    room.add(zombie, T0)
    assert room.producer() == ProducerIdentity(ID, MINE, 0)
    assert room.told == [(T0, 7, GREATEST_EPOCH, False)]
    assert room.commit(zombie) is E.INVALID_PRODUCER_ID_MAPPING


def test_exhausted_epochs_give_one_new_producer_id() -> None:
    room = worn_out(GREATEST_EPOCH - 1)
    expected = (7, GREATEST_EPOCH - 1)
    for _ in range(3):
        assert room.init(expected=expected) == Initialized(E.NONE, MINE, 0)
    assert room.init(expected=(7, 3)) == Initialized(E.PRODUCER_FENCED)


def test_timed_out_producer_does_not_continue_in_its_last_epoch() -> None:
    room = worn_out(GREATEST_EPOCH - 2)
    slow = room.producer()
    room.add(slow, T0)
    room.wait(TIMEOUT_MS * 2)
    assert room.described().epoch == GREATEST_EPOCH
    assert room.init(expected=(7, GREATEST_EPOCH - 1)) == Initialized(E.PRODUCER_FENCED)
