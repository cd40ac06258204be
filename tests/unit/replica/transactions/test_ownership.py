"""Coordinators come and go. Who may answer for a transactional id, and what the next one does with what was decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.core.errors import ErrorCode as E
from replica.core.transactions.transaction_effects import TransactionsLoaded, TransactionsUnloaded
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
    ProducerIdentity,
    Reply,
    TransactionDone,
    TransactionOverview,
)
from replica.core.transactions.transaction_states import TXN_FROM, TxnState, drawn, may
from tests.unit.replica.transactions.room import ID, PARTITIONS, T0, T1, TIMEOUT_MS, Room

S = TxnState
WHO = ProducerIdentity(ID, 1, 1)


def asks(error: E) -> list[tuple[Ask, Reply]]:
    return [
        (Init(ID, TIMEOUT_MS), Initialized(error)),
        (AddPartitions(WHO, frozenset({T0})), TransactionDone(error)),
        (End(WHO, True), TransactionDone(error)),
        (DescribeTransaction(ID), DescribedTransaction(error)),
    ]


def test_requests_are_refused_before_the_transactions_topic_exists() -> None:
    room = Room(lead=False)
    room.coordinator.topic.partitions = None
    for ask, reply in [
        *asks(E.COORDINATOR_NOT_AVAILABLE),
        (ListTransactions(), ListedTransactions(E.COORDINATOR_NOT_AVAILABLE)),
    ]:
        assert room.ask(ask) == reply


def test_requests_to_a_broker_that_does_not_lead_get_not_coordinator() -> None:
    room = Room(lead=False)
    for ask, reply in [*asks(E.NOT_COORDINATOR), (ListTransactions(), ListedTransactions(E.NONE))]:
        assert room.ask(ask) == reply


def test_requests_during_loading_get_a_retriable_error() -> None:
    room = Room(lead=False)
    for partition in range(PARTITIONS):
        room.coordinator.topic.elected(partition, 1)
    for ask, reply in [
        *asks(E.COORDINATOR_LOAD_IN_PROGRESS),
        (ListTransactions(), ListedTransactions(E.COORDINATOR_LOAD_IN_PROGRESS)),
    ]:
        assert room.ask(ask) == reply


def test_waiting_producers_get_not_coordinator_at_deposition() -> None:
    room = Room()
    who = room.producer()
    room.holding = True
    ticket = room.post(AddPartitions(who, frozenset({T0})))
    append = room.held[0]
    room.resign()
    assert room.heard(ticket) == TransactionDone(E.NOT_COORDINATOR)
    assert any(isinstance(note, TransactionsUnloaded) for note in room.notes)
    room.coordinator.topic.appended(append.id, E.NONE, 0, room.now)  # the test ignores the outcome
    room.turn()
    assert room.done(End(who, True)) is E.NOT_COORDINATOR


@pytest.mark.parametrize("commit", [True, False])
def test_next_coordinator_sends_all_markers_of_a_decision(commit: bool) -> None:
    room = Room()
    who = room.producer()
    room.add(who, T0, T1)
    room.deaf = True
    room.done(End(who, commit))
    [marker] = room.markers
    room.tell(marker, T0)
    room.take_over()
    assert not room.told[1:]
    [again] = room.markers
    assert (again.partitions, again.commit, again.coordinator_epoch) == ((T0, T1), commit, 2)
    assert room.init() == Initialized(E.CONCURRENT_TRANSACTIONS)
    room.hear()
    assert room.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert room.done(End(who, commit)) is E.NONE
    assert {told[3] for told in room.told} == {commit}


def test_undecided_transaction_stays_open_at_the_next_coordinator() -> None:
    room = Room()
    who = room.producer()
    room.add(who, T0)
    room.holding = True
    room.post(End(who, True))
    room.take_over()  # the decision was not written
    room.holding = False
    assert room.state() is S.ONGOING
    assert not room.told
    assert room.abort(who) is E.NONE
    assert [told[3] for told in room.told] == [False]


def test_unreported_decision_in_the_topic_holds() -> None:
    room = Room()
    who = room.producer()
    room.add(who, T0)
    room.holding = True
    ticket = room.post(End(who, True))
    room.fail(E.REQUEST_TIMED_OUT, written=True)
    assert room.heard(ticket) == TransactionDone(E.COORDINATOR_NOT_AVAILABLE)
    room.take_over()
    room.release()
    assert room.state() is S.COMPLETE_COMMIT
    assert room.commit(who) is E.NONE  # he has asked again


def test_marks_that_come_when_it_is_over_are_of_no_use() -> None:
    room = Room()
    who = room.producer()
    room.add(who, T0)
    room.deaf = True
    room.commit(who)
    [marker] = room.markers
    assert room.coordinator.completion.awaits(marker.number)
    room.resign()
    assert not room.coordinator.completion.awaits(marker.number)
    room.coordinator.completion.marked(marker.number, T0, room.now)
    room.coordinator.completion.refused(marker.number, T0, E.INVALID_PRODUCER_EPOCH)
    room.turn()
    assert not room.held


def test_a_coordinator_that_is_elected_anew_reads_anew_and_old_news_changes_nothing() -> None:
    room = Room()
    room.producer()
    coordinator = room.coordinator
    for partition in range(PARTITIONS):
        coordinator.topic.elected(partition, 1)  # heard before
        coordinator.topic.elected(partition, 5)  # it led already
        assert coordinator.topic.epochs.get(partition) == 5
        coordinator.topic.resigned(partition, 3, room.now)
        assert coordinator.topic.epochs.get(partition) == 5
        coordinator.topic.resigned(partition, 6, room.now)
        coordinator.topic.elected(partition, 4)
        assert coordinator.topic.epochs.get(partition) is None
        coordinator.topic.elected(partition, 7)
    room.turn()
    [old, *loads] = room.loads
    coordinator.topic.elected(old.partition, 8)
    coordinator.topic.resigned(old.partition, None, room.now)
    coordinator.topic.elected(old.partition, 0)  # another topic of that name
    room.turn()
    room.load(old)
    assert coordinator.topic.loading == {each.partition for each in room.loads}
    for load in [*loads, room.loads[-1]]:
        room.load(load)
    assert not coordinator.topic.loading
    assert [note.transactions for note in room.notes if isinstance(note, TransactionsLoaded)][-PARTITIONS:].count(
        1
    ) == 1


def test_transactions_are_listed_by_state_producer_and_duration() -> None:
    room = Room()
    done = room.producer("a")
    room.add(done, T0)
    room.commit(done)
    room.wait(10)
    opened = room.producer("b")
    room.add(opened, T1)
    a = TransactionOverview("a", done.producer, S.COMPLETE_COMMIT)
    b = TransactionOverview("b", opened.producer, S.ONGOING)
    assert room.ask(ListTransactions()) == ListedTransactions(E.NONE, (a, b))
    assert room.ask(ListTransactions(frozenset({S.ONGOING}))) == ListedTransactions(E.NONE, (b,))
    assert room.ask(ListTransactions(producers=frozenset({done.producer}))) == ListedTransactions(E.NONE, (a,))
    assert room.ask(ListTransactions(longer_than_ms=5)) == ListedTransactions(E.NONE, (a,))
    assert room.described("b").partitions == (T1,)
    assert room.described("c").error is E.TRANSACTIONAL_ID_NOT_FOUND
    assert room.described("").error is E.INVALID_REQUEST


def test_no_state_is_reached_but_from_where_the_table_says() -> None:
    assert TXN_FROM.keys() == set(S)
    assert not may(S.PREPARE_COMMIT, S.COMPLETE_ABORT)
    assert not may(S.PREPARE_ABORT, S.COMPLETE_COMMIT)
    assert "PrepareCommit --> CompleteCommit" in drawn()


def test_the_picture_in_the_documentation_is_drawn_from_the_table() -> None:
    page = Path(__file__).parents[4] / "docs" / "protocol" / "transactions.md"
    assert f"```mermaid\n{drawn()}\n```" in page.read_text()
