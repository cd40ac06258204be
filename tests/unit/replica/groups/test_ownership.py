"""Coordinators come and go. Who may answer for a group, and what the next one knows."""

from __future__ import annotations

import pytest
from attrs import evolve

from replica.core.errors import ErrorCode as E
from replica.core.groups.group_effects import GroupsLoaded, GroupsUnloaded
from replica.core.groups.group_messages import (
    Ask,
    Commit,
    Committed,
    DeleteGroup,
    DeleteOffsets,
    DescribedGroup,
    DescribeGroup,
    GroupDeleted,
    GroupIdentity,
    Heartbeat,
    HeartbeatAnswered,
    Join,
    Joined,
    Leave,
    LeavingMember,
    ListedGroups,
    ListGroups,
    MembersLeft,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsDeleted,
    OffsetsFetched,
    Reply,
    SupportedProtocol,
    Sync,
    Synced,
)
from replica.core.groups.group_states import GroupState
from replica.core.groups.partitioning import java_hash, partition_of
from tests.unit.replica.groups.room import GROUP, PARTITIONS, T0, Client, Room, share, stable

WHO = GroupIdentity(GROUP, "m", 1)
JOIN = Join(WHO, "consumer", (SupportedProtocol("range", b""),), 10_000, 60_000)


@pytest.mark.parametrize(
    ("name", "value", "partition"),
    [
        ("test", 3556498, 48),
        ("g1", 3242, 42),
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -(2**31), 0),
        ("", 0, 0),
        ("\U0001f600", 1772899, 49),
    ],
)
def test_groups_fall_into_partitions_as_java_hashes_them(name: str, value: int, partition: int) -> None:
    assert java_hash(name) == value
    assert partition_of(name, 50) == partition


def errors(code: E) -> list[tuple[Ask, Reply]]:
    return [
        (JOIN, Joined(code, member="m")),
        (Leave(GROUP, (LeavingMember("m"),)), MembersLeft(code)),
        (Commit(WHO, {T0: OffsetAndMetadata(1)}), Committed({T0: code})),
        (OffsetFetch(GROUP, (T0,)), OffsetsFetched(code)),
        (DescribeGroup(GROUP), DescribedGroup(code)),
        (DeleteGroup(GROUP), GroupDeleted(code)),
        (DeleteOffsets(GROUP, (T0,)), OffsetsDeleted(code)),
    ]


def test_requests_are_refused_before_the_offsets_topic_exists() -> None:
    room = Room(lead=False)
    room.coordinator.topic.partitions = None
    for ask, reply in [
        *errors(E.COORDINATOR_NOT_AVAILABLE),
        (Sync(WHO), Synced(E.COORDINATOR_NOT_AVAILABLE)),
        (Heartbeat(WHO), HeartbeatAnswered(E.COORDINATOR_NOT_AVAILABLE)),
        (ListGroups(), ListedGroups(E.COORDINATOR_NOT_AVAILABLE)),
    ]:
        assert room.answers[room.ask(ask)] == reply


def test_requests_to_a_broker_that_does_not_lead_get_not_coordinator() -> None:
    room = Room(lead=False)
    for ask, reply in [
        *errors(E.NOT_COORDINATOR),
        (Sync(WHO), Synced(E.NOT_COORDINATOR)),
        (Heartbeat(WHO), HeartbeatAnswered(E.NOT_COORDINATOR)),
        (ListGroups(), ListedGroups(E.NONE)),
    ]:
        assert room.answers[room.ask(ask)] == reply


def test_errors_during_loading_are_retriable() -> None:
    room = Room(lead=False)
    for partition in range(PARTITIONS):
        room.coordinator.topic.elected(partition, 1)
    for ask, reply in [
        *errors(E.COORDINATOR_LOAD_IN_PROGRESS),
        (Sync(WHO), Synced(E.REBALANCE_IN_PROGRESS)),
        (Heartbeat(WHO), HeartbeatAnswered(E.NONE)),
        (ListGroups(), ListedGroups(E.COORDINATOR_LOAD_IN_PROGRESS)),
    ]:
        assert room.answers[room.ask(ask)] == reply


def test_a_group_needs_a_name() -> None:
    room = Room()
    who = GroupIdentity("")
    for ask in (Join(who, "consumer", (), 10_000, 10_000), Sync(who), Heartbeat(who), Leave("", ())):
        reply = room.answers[room.ask(ask)]
        assert not isinstance(reply, Committed | ListedGroups)
        assert reply.error is E.INVALID_GROUP_ID


def test_waiting_requests_get_not_coordinator_at_deposition() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    stable(room, first)
    second.join()
    room.holding = True
    commit = room.commit({T0: 3}, member=first.member, generation=1)
    room.resign()
    joined = second.joined()
    assert joined is not None
    assert joined.error is E.NOT_COORDINATOR
    assert room.heard(commit) == Committed({T0: E.NOT_COORDINATOR})
    assert first.heartbeat() is E.NOT_COORDINATOR
    assert [note.groups for note in room.notes if isinstance(note, GroupsUnloaded)] != []
    room.release()  # what was written before is reported now, and is nobody's business any more
    assert room.coordinator.deadline >= room.now


def test_members_parked_in_sync_hear_it_too() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    first.join()
    second.join()
    room.wait(6_000)
    first.joined(), second.joined()
    second.sync()
    room.holding = True
    first.sync({})
    room.resign()
    for client in (first, second):
        reply = client.synced()
        assert reply is not None
        assert reply.error is E.NOT_COORDINATOR


@pytest.mark.mechanism(42)
def test_the_next_coordinator_knows_members_generation_assignments_and_positions() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    stable(room, first, second)
    first.commit({T0: 5})
    room.take_over()
    assert first.heartbeat() is E.NONE
    assert second.heartbeat() is E.NONE
    answer = second.sync()
    assert answer is not None
    assert answer.assignment == b"b"
    assert room.fetch() == {T0: 5}
    assert second.commit({T0: 6}) is E.NONE
    assert room.group().subscribed == frozenset({"t"})


def test_sessions_begin_anew_with_a_new_coordinator() -> None:
    room = Room()
    first = Client(room, "a", session_ms=10_000)
    stable(room, first)
    room.wait(9_000)
    room.take_over()
    room.wait(9_000)
    assert first.heartbeat() is E.NONE
    room.wait(10_000)
    assert room.state() is GroupState.EMPTY


def test_a_rebalance_that_was_not_finished_begins_again() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    stable(room, first)
    second.join()
    first.join()
    first.joined(), second.joined()
    assert room.group().generation == 2
    room.take_over()  # nobody wrote generation 2 down
    assert first.heartbeat() is E.ILLEGAL_GENERATION
    assert second.heartbeat() is E.UNKNOWN_MEMBER_ID
    second.member = ""
    second.join()
    first.join()
    share(room, (first, second))


def test_a_leader_that_stays_leader_goes_on_under_its_new_epoch() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    for partition in range(PARTITIONS):
        room.coordinator.topic.elected(partition, 5)
    room.turn()
    assert room.coordinator.topic.epochs.get(0) == 5
    assert first.heartbeat() is E.NONE
    room.holding = True
    room.commit({T0: 1}, group="other")
    assert len(room.held) == 1


def test_news_of_an_older_epoch_comes_too_late() -> None:
    room = Room()
    for partition in range(PARTITIONS):
        room.coordinator.topic.elected(partition, 7)
        room.coordinator.topic.resigned(partition, 6, room.now)
    room.turn()
    assert room.committed({T0: 1}) is E.NONE
    for partition in range(PARTITIONS):
        room.coordinator.topic.resigned(partition, 8, room.now)
        room.coordinator.topic.elected(partition, 8)
        room.coordinator.topic.elected(partition, 7)
    room.turn()
    assert list(room.coordinator.topic.loading) == []
    room.answers.clear()
    assert room.committed({T0: 1}) is E.NOT_COORDINATOR


def test_a_load_that_ends_after_the_partition_was_lost_changes_nothing() -> None:
    room = Room(lead=False)
    room.coordinator.topic.elected(0, 1)
    room.coordinator.topic.resigned(0, 2, room.now)
    room.coordinator.topic.elected(1, 1)
    room.coordinator.topic.resigned(1, None, room.now)  # its replica was taken away
    room.coordinator.topic.elected(0, 3)
    room.turn()
    first, second, third = room.loads
    room.coordinator.loaded(first, room.now)
    room.coordinator.loaded(second, room.now)
    assert (room.coordinator.topic.epochs.get(0), room.coordinator.topic.epochs.get(1)) == (None, None)
    room.coordinator.loaded(third, room.now)
    assert room.coordinator.topic.epochs.get(0) == 3


def test_a_topic_that_is_made_anew_counts_its_epochs_anew() -> None:
    room = Room()
    for _ in range(4):
        room.epoch += 1
        for partition in range(PARTITIONS):
            room.coordinator.topic.elected(partition, room.epoch)
    for partition in range(PARTITIONS):
        room.coordinator.topic.resigned(partition, None, room.now)
        room.coordinator.topic.elected(partition, 0)
    room.turn()
    assert len(room.coordinator.topic.loading) == PARTITIONS


def test_session_expiry_during_topic_deletion_is_ignored() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    room.coordinator.topic.partitions = None
    room.wait(3_600_000)
    assert first.heartbeat() is E.COORDINATOR_NOT_AVAILABLE
    for partition in range(PARTITIONS):
        room.coordinator.topic.resigned(partition, None, room.now)
    room.turn()
    assert list(room.coordinator.groups) == []


def test_a_group_that_has_become_too_large_is_made_smaller() -> None:
    room = Room()
    first, second, third = Client(room, "a"), Client(room, "b"), Client(room, "c")
    stable(room, first, second, third)
    room.settings = evolve(room.settings, group_max_size=2)
    room.take_over()
    assert room.causes()[-1] == "too-large"
    assert first.join() is None
    assert second.join() is None
    reply = third.join()
    assert reply is not None
    assert reply.error is E.GROUP_MAX_SIZE_REACHED
    share(room, (first, second))
    [*_, loaded] = [note for note in room.notes if isinstance(note, GroupsLoaded) and note.groups]
    assert loaded.groups == 1
