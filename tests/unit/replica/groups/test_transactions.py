"""Positions that are committed in transactions: they hang until the end of the transaction stands in the topic."""

from __future__ import annotations

import pytest

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode as E
from replica.core.groups.group_messages import (
    CommitInTransaction,
    Committed,
    DeleteGroup,
    DeleteOffsets,
    GroupDeleted,
    GroupIdentity,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsFetched,
    Ticket,
)
from tests.unit.replica.groups.room import GROUP, T0, T1, Client, Room, stable

ANN, BOB = 7, 8
"""Ids of producers."""
DAY = 24 * 3_600_000


def post(room: Room, positions: dict[TopicPartition, int], producer: int = ANN, **who: int | str) -> Ticket:
    identity = GroupIdentity(GROUP, **who)  # type: ignore[arg-type]
    entries = {where: OffsetAndMetadata(offset) for where, offset in positions.items()}
    return room.ask(CommitInTransaction(identity, producer, 0, entries))


def commit(room: Room, positions: dict[TopicPartition, int], producer: int = ANN, **who: int | str) -> E:
    reply = room.answers[post(room, positions, producer, **who)]
    assert isinstance(reply, Committed)
    [error] = set(reply.errors.values())
    return error


def hangs(room: Room, *wheres: TopicPartition) -> set[TopicPartition]:
    """Those of which a reader is told that he should come again."""
    reply = room.answers[room.ask(OffsetFetch(GROUP, wheres, stable=True))]
    assert isinstance(reply, OffsetsFetched)
    return {where for where, found in reply.positions.items() if found is E.UNSTABLE_OFFSET_COMMIT}


def test_a_position_counts_from_the_commit_of_its_transaction_on() -> None:
    room = Room()
    room.committed({T0: 1})
    assert commit(room, {T0: 5, T1: 6}) is E.NONE
    assert room.fetch(T0, T1) == {T0: 1, T1: None}
    assert hangs(room, T0, T1, TopicPartition("t", 2)) == {T0, T1}
    room.ended(BOB, True)
    assert hangs(room, T0, T1) == {T0, T1}
    room.ended(ANN, True)
    assert room.fetch(T0, T1) == {T0: 5, T1: 6}
    assert not hangs(room, T0, T1)


def test_a_position_of_an_aborted_transaction_never_was() -> None:
    room = Room()
    room.committed({T0: 1})
    commit(room, {T0: 5, T1: 6})
    room.ended(ANN, False)
    assert room.fetch(T0, T1) == {T0: 1, T1: None}
    assert not hangs(room, T0, T1)
    commit(room, {T1: 7})
    room.ended(ANN, True)
    room.ended(ANN, False)  # an end that is said once more ends nothing
    assert room.fetch(T0, T1) == {T0: 1, T1: 7}


def test_the_last_of_several_commits_of_a_transaction_holds() -> None:
    room = Room()
    commit(room, {T0: 5, T1: 5})
    commit(room, {T0: 6})
    commit(room, {T0: 9}, BOB)
    room.ended(ANN, True)
    assert room.fetch(T0, T1) == {T0: 6, T1: 5}
    assert hangs(room, T0, T1) == {T0}
    room.ended(BOB, False)
    assert room.fetch(T0) == {T0: 6}


def test_it_stands_where_it_was_written_so_a_later_one_beside_it_holds() -> None:
    room = Room()
    commit(room, {T0: 5, T1: 5})
    room.committed({T0: 3})
    room.ended(ANN, True)
    assert room.fetch(T0, T1) == {T0: 3, T1: 5}
    room.take_over()
    assert room.fetch(T0, T1) == {T0: 3, T1: 5}


def test_offsets_deleted_during_a_transaction_stay_deleted() -> None:
    room = Room()
    room.committed({T0: 1})
    commit(room, {T0: 5, T1: 5})
    room.ask(DeleteOffsets(GROUP, (T0,)))
    assert room.fetch(T0) == {T0: None}
    room.ended(ANN, True)
    assert room.fetch(T0, T1) == {T0: None, T1: 5}
    room.take_over()
    assert room.fetch(T0, T1) == {T0: None, T1: 5}


# -- safe, and in which order ----------------------------------------------------------------------------------


def test_it_hangs_from_the_first_and_is_confirmed_when_it_is_safe() -> None:
    room = Room()
    room.committed({T0: 1})
    room.holding = True
    ticket = post(room, {T0: 5})
    assert room.heard(ticket) is None
    assert hangs(room, T0) == {T0}
    room.fail(E.NOT_ENOUGH_REPLICAS)
    assert room.heard(ticket) == Committed({T0: E.COORDINATOR_NOT_AVAILABLE})
    assert not hangs(room, T0)
    room.ended(ANN, True)
    assert room.fetch(T0) == {T0: 1}


def test_a_producer_that_was_fenced_commits_nothing() -> None:
    room = Room()
    room.holding = True
    ticket = post(room, {T0: 5})
    room.fail(E.INVALID_PRODUCER_EPOCH)
    assert room.heard(ticket) == Committed({T0: E.INVALID_PRODUCER_EPOCH})


@pytest.mark.parametrize("committed", [True, False])
def test_end_of_a_transaction_may_be_reported_before_its_earlier_commit(committed: bool) -> None:
    room = Room()
    room.holding = True
    first = post(room, {T0: 5})
    [append] = room.held
    at = room.store(append)
    end = room.end(ANN, committed)
    room.coordinator.groups.complete_transaction(*end)
    room.coordinator.topic.appended(append.id, E.NONE, at, room.now)
    room.held.clear()
    room.release()
    assert room.heard(first) == Committed({T0: E.NONE})
    assert room.fetch(T0) == {T0: 5 if committed else None}
    assert not hangs(room, T0)


def test_an_end_ends_nothing_that_stands_behind_it() -> None:
    room = Room()
    commit(room, {T0: 5})
    end = room.end(ANN, True)
    room.holding = True
    ticket = post(room, {T1: 6})
    room.coordinator.groups.complete_transaction(*end)
    room.release()
    assert room.heard(ticket) == Committed({T1: E.NONE})
    assert room.fetch(T0, T1) == {T0: 5, T1: None}
    assert hangs(room, T0, T1) == {T1}
    room.ended(ANN, True)
    assert room.fetch(T0, T1) == {T0: 5, T1: 6}


# -- who may ---------------------------------------------------------------------------------------------------


def test_named_member_of_a_transactional_commit_must_exist() -> None:
    room = Room()
    assert commit(room, {T0: 1}, member="m", generation=1) is E.UNKNOWN_MEMBER_ID
    client = Client(room, "a")
    stable(room, client)
    assert commit(room, {T0: 1}, member="m", generation=1) is E.UNKNOWN_MEMBER_ID
    assert commit(room, {T0: 1}, member=client.member, generation=7) is E.ILLEGAL_GENERATION
    assert commit(room, {T0: 1}, member=client.member, generation=1) is E.NONE
    assert commit(room, {T0: 2}) is E.NONE  # one that says nothing, as old producers do
    room.ended(ANN, True)
    assert room.fetch(T0) == {T0: 2}


def test_a_group_needs_a_name_and_metadata_have_a_bound() -> None:
    room = Room()
    nameless = CommitInTransaction(GroupIdentity(""), ANN, 0, {T0: OffsetAndMetadata(1)})
    assert room.answers[room.ask(nameless)] == Committed({T0: E.INVALID_GROUP_ID})
    long = CommitInTransaction(
        GroupIdentity(GROUP), ANN, 0, {T0: OffsetAndMetadata(1, metadata="x" * 5_000), T1: OffsetAndMetadata(2)}
    )
    assert room.answers[room.ask(long)] == Committed({T0: E.OFFSET_METADATA_TOO_LARGE, T1: E.NONE})
    room.ended(ANN, True)
    assert room.fetch(T0, T1) == {T0: None, T1: 2}


# -- the next coordinator --------------------------------------------------------------------------------------


def test_next_coordinator_loads_pending_offsets() -> None:
    room = Room()
    commit(room, {T0: 5, T1: 5})
    commit(room, {T0: 6})
    room.take_over()
    assert hangs(room, T0, T1) == {T0, T1}
    assert room.fetch(T0, T1) == {T0: None, T1: None}
    room.ended(ANN, True)
    assert room.fetch(T0, T1) == {T0: 6, T1: 5}
    room.take_over()
    assert room.fetch(T0, T1) == {T0: 6, T1: 5}
    assert not hangs(room, T0, T1)


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_that_is_written_while_it_loads_is_an_end(committed: bool) -> None:
    room = Room()
    commit(room, {T0: 5})
    room.resign()
    room.epoch += 2
    partition = room.end(BOB, True)[0]
    room.coordinator.topic.elected(partition, room.epoch)
    room.turn()
    [load] = room.loads
    room.coordinator.groups.complete_transaction(partition, ANN, committed, len(room.topic[partition]))
    room.load(load)
    assert room.fetch(T0) == {T0: 5 if committed else None}
    assert not hangs(room, T0)


def test_offsets_lost_with_their_coordinator_stay_lost() -> None:
    room = Room()
    room.holding = True
    ticket = post(room, {T0: 5})
    room.resign()
    assert room.heard(ticket) == Committed({T0: E.NOT_COORDINATOR})
    room.coordinator.groups.complete_transaction(*room.end(ANN, True))  # it is not ours any more
    room.release()
    room.take_over()
    assert room.fetch(T0) == {T0: None}


# -- beside all else -------------------------------------------------------------------------------------------


def test_a_group_is_not_forgotten_while_something_hangs_in_it() -> None:
    room = Room()
    commit(room, {T0: 5})
    room.wait(30 * DAY)
    room.ended(ANN, True)
    assert room.fetch(T0) == {T0: 5}
    room.wait(30 * DAY)
    assert room.fetch(T0) == {T0: None}
    assert not list(room.coordinator.groups)


def test_a_group_of_which_an_aborted_transaction_left_nothing_is_forgotten() -> None:
    room = Room()
    commit(room, {T0: 5})
    room.ended(ANN, False)
    room.wait(DAY)
    assert not list(room.coordinator.groups)


def test_deleted_group_returns_with_later_commits() -> None:
    room = Room()
    room.committed({T0: 1})
    commit(room, {T1: 5})
    assert room.answers[room.ask(DeleteGroup(GROUP))] == GroupDeleted(E.NONE)
    assert room.fetch(T0, T1) == {T0: None, T1: None}
    room.ended(ANN, True)
    assert room.fetch(T0, T1) == {T0: None, T1: 5}
