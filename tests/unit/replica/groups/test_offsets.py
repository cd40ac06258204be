"""Positions are committed, asked for, forgotten; by members, and by those who are none."""

from __future__ import annotations

import pytest

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode as E
from replica.core.groups.group_effects import GroupRecord, OffsetRecord, OffsetsExpired
from replica.core.groups.group_messages import (
    Commit,
    Committed,
    DeleteGroup,
    DeleteOffsets,
    DescribedGroup,
    DescribeGroup,
    GroupDeleted,
    GroupIdentity,
    ListedGroups,
    ListGroups,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsDeleted,
    OffsetsFetched,
)
from replica.core.groups.group_states import GroupState
from tests.unit.replica.groups.room import GROUP, T0, T1, Client, Room, stable

S = GroupState
DAY = 24 * 3_600_000


def test_client_without_membership_commits_while_the_group_is_empty() -> None:
    room = Room()
    assert room.committed({T0: 5, T1: 6}) is E.NONE
    assert room.fetch(T0, T1, TopicPartition("t", 2)) == {T0: 5, T1: 6, TopicPartition("t", 2): None}
    assert room.fetch() == {T0: 5, T1: 6}
    stable(room, Client(room, "a"))
    assert room.committed({T0: 9}) is E.UNKNOWN_MEMBER_ID
    assert room.fetch(T0) == {T0: 5}


def test_a_member_commits_in_its_generation_only() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    assert first.commit({T0: 5}) is E.NONE
    Client(room, "b").join()
    assert first.commit({T0: 6}) is E.NONE  # it rebalances: what was read until now is still its own
    first.generation = 0
    assert first.commit({T0: 7}) is E.ILLEGAL_GENERATION
    first.generation, first.member = 1, "other"
    assert first.commit({T0: 7}) is E.UNKNOWN_MEMBER_ID
    assert room.fetch(T0) == {T0: 6}


def test_a_generation_of_a_group_that_is_not_there_is_over() -> None:
    room = Room()
    reply = room.answers[room.commit({T0: 1}, generation=3, member="m")]
    assert reply == Committed({T0: E.ILLEGAL_GENERATION})


def test_nothing_is_confirmed_or_shown_before_it_is_safe() -> None:
    room = Room()
    room.committed({T0: 1})
    room.holding = True
    ticket = room.commit({T0: 2})
    assert room.heard(ticket) is None
    assert room.fetch(T0) == {T0: 1}
    room.release()
    assert room.heard(ticket) == Committed({T0: E.NONE})
    assert room.fetch(T0) == {T0: 2}


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.COORDINATOR_NOT_AVAILABLE),
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.INVALID_COMMIT_OFFSET_SIZE),
        (E.REQUEST_TIMED_OUT, E.REQUEST_TIMED_OUT),
    ],
)
def test_failed_commit_keeps_the_previous_offset(error: E, heard: E) -> None:
    room = Room()
    room.committed({T0: 1})
    room.holding = True
    ticket = room.commit({T0: 2})
    room.fail(error)
    assert room.heard(ticket) == Committed({T0: heard})
    assert room.fetch(T0) == {T0: 1}
    assert not room.group().offsets.on_the_way


def test_of_two_commits_the_later_one_in_the_topic_holds_whichever_is_reported_first() -> None:
    room = Room()
    room.holding = True
    room.commit({T0: 1})
    room.commit({T0: 2})
    first, second = room.held
    room.held.clear()
    at = [room.store(append) for append in (first, second)]
    room.coordinator.topic.appended(second.id, E.NONE, at[1], room.now)
    room.coordinator.topic.appended(first.id, E.NONE, at[0], room.now)
    room.turn()
    assert room.fetch(T0) == {T0: 2}


def test_metadata_has_a_bound_for_each_partition() -> None:
    room = Room()
    long, short = OffsetAndMetadata(1, metadata="x" * 4097), OffsetAndMetadata(2, metadata="x" * 4096)
    reply = room.answers[room.ask(Commit(GroupIdentity(GROUP), {T0: long, T1: short}))]
    assert reply == Committed({T0: E.OFFSET_METADATA_TOO_LARGE, T1: E.NONE})
    assert room.fetch(T0, T1) == {T0: None, T1: 2}
    reply = room.answers[room.ask(Commit(GroupIdentity(GROUP), {T0: long}))]
    assert reply == Committed({T0: E.OFFSET_METADATA_TOO_LARGE})


def test_everything_about_a_position_comes_back() -> None:
    room = Room()
    room.ask(Commit(GroupIdentity(GROUP), {T0: OffsetAndMetadata(7, 3, "note")}))
    reply = room.answers[room.ask(OffsetFetch(GROUP, (T0,)))]
    assert reply == OffsetsFetched(E.NONE, {T0: OffsetAndMetadata(7, 3, "note", committed_ms=room.now)})


def test_a_group_without_a_name_keeps_positions_as_it_always_could() -> None:
    room = Room()
    assert room.committed({T0: 4}, group="") is E.NONE
    assert room.fetch(T0, group="") == {T0: 4}
    assert room.answers[room.ask(DescribeGroup(""))] == DescribedGroup(E.NONE, S.EMPTY)


# -- looking -------------------------------------------------------------------------------------------------


def test_members_are_described_when_the_group_is_settled() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    described = room.answers[room.ask(DescribeGroup(GROUP))]
    assert isinstance(described, DescribedGroup)
    assert (described.state, described.protocol_type, described.protocol) == (S.STABLE, "consumer", "range")
    [member] = described.members
    assert (member.client_id, member.client_host, member.assignment) == ("a", "/127.0.0.1", b"a")
    assert member.metadata == first.protocols[0].metadata
    Client(room, "b").join()
    described = room.answers[room.ask(DescribeGroup(GROUP))]
    assert isinstance(described, DescribedGroup)
    assert (described.state, described.protocol) == (S.PREPARING_REBALANCE, "")
    assert {(member.metadata, member.assignment) for member in described.members} == {(b"", b"")}
    assert room.answers[room.ask(DescribeGroup("nobody"))] == DescribedGroup(E.NONE, S.DEAD)


def test_groups_are_listed_by_state() -> None:
    room = Room()
    stable(room, Client(room, "a"))
    room.committed({T0: 1}, group="simple")

    def listed(*states: str) -> list[str]:
        reply = room.answers[room.ask(ListGroups(states))]
        assert isinstance(reply, ListedGroups)
        assert reply.error is E.NONE
        return [group.group for group in reply.groups]

    assert listed() == ["readers", "simple"]
    assert listed("stable") == ["readers"]
    assert listed("Empty", "Dead") == ["simple"]
    assert listed("PreparingRebalance") == []


# -- deleting ------------------------------------------------------------------------------------------------


def test_empty_group_is_deleted_when_its_tombstones_are_committed() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    first.commit({T0: 5, T1: 6})
    assert room.answers[room.ask(DeleteGroup(GROUP))] == GroupDeleted(E.NON_EMPTY_GROUP)
    first.leave()
    room.holding = True
    ticket = room.ask(DeleteGroup(GROUP))
    assert room.heard(ticket) is None
    room.release()
    assert room.heard(ticket) == GroupDeleted(E.NONE)
    assert room.answers[room.ask(DeleteGroup(GROUP))] == GroupDeleted(E.GROUP_ID_NOT_FOUND)
    room.take_over()
    assert room.fetch(T0, T1) == {T0: None, T1: None}
    assert list(room.coordinator.groups) == []


def test_a_deletion_that_is_not_written_fails_and_leaves_the_group() -> None:
    room = Room()
    room.committed({T0: 5})
    room.holding = True
    ticket = room.ask(DeleteGroup(GROUP))
    room.fail(E.NOT_ENOUGH_REPLICAS)
    assert room.heard(ticket) == GroupDeleted(E.COORDINATOR_NOT_AVAILABLE)
    assert room.fetch(T0) == {T0: 5}


def test_commits_and_joins_during_deletion_survive() -> None:
    room = Room()
    room.committed({T0: 5, T1: 6})
    room.holding = True
    room.ask(DeleteGroup(GROUP))
    room.commit({T0: 7})
    newcomer = Client(room, "a")
    newcomer.join()
    room.release()
    assert room.fetch() == {T0: 7}
    assert newcomer.member in room.group().members
    room.take_over()
    assert room.fetch() == {T0: 7}


def test_large_groups_are_deleted_in_several_batches() -> None:
    room = Room()
    room.committed({TopicPartition("wide", index): index for index in range(2_500)})
    room.holding = True
    ticket = room.ask(DeleteGroup(GROUP))
    assert [len(append.records) for append in room.held] == [1_000, 1_000, 500]
    room.release()
    assert room.heard(ticket) == GroupDeleted(E.NONE)


def test_positions_of_topics_that_are_read_are_not_deleted() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    other = TopicPartition("other", 0)
    first.commit({T0: 1, other: 2})
    reply = room.answers[room.ask(DeleteOffsets(GROUP, (T0, other)))]
    assert reply == OffsetsDeleted(E.NONE, {T0: E.GROUP_SUBSCRIBED_TO_TOPIC, other: E.NONE})
    assert room.fetch() == {T0: 1}
    first.leave()
    reply = room.answers[room.ask(DeleteOffsets(GROUP, (T0, T1)))]
    assert reply == OffsetsDeleted(E.NONE, {T0: E.NONE, T1: E.NONE})
    assert room.fetch() == {}
    reply = room.answers[room.ask(DeleteOffsets("nobody", (T0,)))]
    assert reply == OffsetsDeleted(E.GROUP_ID_NOT_FOUND)
    worker = Client(room, "w", protocol_type="connect")
    stable(room, worker)
    reply = room.answers[room.ask(DeleteOffsets(GROUP, (T0,)))]
    assert reply == OffsetsDeleted(E.NON_EMPTY_GROUP)


def test_positions_of_a_topic_that_is_deleted_are_forgotten() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    other = TopicPartition("other", 0)
    first.commit({T0: 1, other: 2})
    room.coordinator.forget_topics({"t"}, room.now)
    room.turn()
    assert room.fetch() == {other: 2}
    room.take_over()
    assert room.fetch() == {other: 2}


# -- expiring ------------------------------------------------------------------------------------------------


def test_positions_of_an_empty_group_live_seven_days_from_when_it_became_empty() -> None:
    room = Room()
    first = Client(room, "a", session_ms=1_800_000)
    stable(room, first)
    first.commit({T0: 1})
    for _ in range(8 * 24 * 3):
        room.wait(1_200_000)
        first.heartbeat()
    first.leave()
    room.wait(7 * DAY - 600_000)
    assert room.fetch() == {T0: 1}
    room.wait(1_200_000)
    assert list(room.coordinator.groups) == []
    assert room.records()[-1] == GroupRecord(GROUP, None)
    [expired] = [note for note in room.notes if isinstance(note, OffsetsExpired)]
    assert (expired.offsets, expired.group_too) == (1, True)
    room.take_over()
    assert list(room.coordinator.groups) == []


def test_offsets_without_membership_expire_seven_days_after_commit() -> None:
    room = Room()
    room.committed({T0: 1})
    room.wait(4 * DAY)
    room.committed({T1: 1})
    room.wait(3 * DAY + 600_000)
    assert room.fetch() == {T1: 1}
    room.wait(4 * DAY)
    assert list(room.coordinator.groups) == []


def test_active_group_keeps_offsets_of_subscribed_topics_only() -> None:
    room = Room()
    first = Client(room, "a", session_ms=1_800_000)
    stable(room, first)
    first.commit({T0: 1, TopicPartition("other", 0): 1})
    for _ in range(8 * 24 * 3):
        room.wait(1_200_000)
        first.heartbeat()
    assert room.fetch() == {T0: 1}


def test_a_time_that_was_asked_for_holds() -> None:
    room = Room()
    room.ask(Commit(GroupIdentity(GROUP), {T0: OffsetAndMetadata(1)}, retention_ms=DAY))
    room.ask(Commit(GroupIdentity(GROUP), {T1: OffsetAndMetadata(1)}, retention_ms=30 * DAY))
    room.wait(DAY + 600_000)
    assert room.fetch() == {T1: 1}
    room.take_over()
    room.wait(8 * DAY)
    assert room.fetch() == {T1: 1}


def test_a_position_that_is_being_committed_does_not_expire() -> None:
    room = Room()
    room.committed({T0: 1})
    room.wait(7 * DAY - 1)
    room.holding = True
    room.commit({T0: 2})
    room.wait(600_000)
    assert [record for append in room.held for record in append.records if isinstance(record, OffsetRecord)] == [
        OffsetRecord(GROUP, T0, OffsetAndMetadata(2, committed_ms=room.now - 600_000))
    ]
    room.release()
    assert room.fetch() == {T0: 2}


def test_removed_group_does_not_come_back_with_a_record_that_was_pending() -> None:
    """The group becomes empty before it has any record, and is removed while its first one is being written."""
    room = Room(offsets_retention_check_interval_ms=60_000)
    client = Client(room, "a")
    client.join()
    room.wait(5_000)
    room.holding = True
    client.leave()
    room.wait(60_000)
    room.release()
    room.take_over()
    described = room.ask(DescribeGroup(GROUP))
    assert room.answers[described] == DescribedGroup(E.NONE)
