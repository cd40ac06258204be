"""Members with a name of their own: they may go and come back, and nobody has to rebalance for it."""

from __future__ import annotations

import pytest

from replica.core.errors import ErrorCode as E
from replica.core.groups.group_effects import GroupRecord
from replica.core.groups.group_messages import (
    GroupIdentity,
    Joined,
    Leave,
    LeavingMember,
    MembersLeft,
    SupportedProtocol,
)
from replica.core.groups.group_states import GroupState
from replica.core.groups.group_timers import GroupTimer, GroupTimers
from tests.unit.replica.groups.room import T0, Client, Room, share, stable, subscription

S = GroupState


def test_a_static_member_needs_no_id_first() -> None:
    room = Room()
    first = Client(room, "a", instance="one")
    assert first.join() is None
    room.wait(3_000)
    joined = first.joined()
    assert joined is not None
    assert joined.member == "one-id1"
    assert joined.members[0].instance == "one"


def test_restarted_static_member_keeps_its_assignment_without_a_rebalance() -> None:
    room = Room()
    first, second = Client(room, "a", instance="one"), Client(room, "b", instance="two")
    stable(room, first, second)
    again = Client(room, "b", instance="two")
    joined = again.join()
    assert joined is not None
    assert (joined.error, joined.generation, joined.leader) == (E.NONE, 1, first.member)
    assert room.state() is S.STABLE
    answer = again.sync()
    assert answer is not None
    assert answer.assignment == b"b"
    assert second.heartbeat() is E.FENCED_INSTANCE_ID  # its old self
    assert second.commit({T0: 5}) is E.FENCED_INSTANCE_ID
    assert again.heartbeat() is E.NONE
    [*_, last] = room.records()
    assert isinstance(last, GroupRecord)
    assert last.saved is not None
    assert [member.member for member in last.saved.members] == [first.member, again.member]
    assert [member.assignment for member in last.saved.members] == [b"a", b"b"]


def test_a_leader_that_was_replaced_is_kept_from_assigning() -> None:
    room = Room()
    first, second = Client(room, "a", instance="one"), Client(room, "b", instance="two")
    leader = stable(room, first, second)
    old = Client(room, "x", instance=leader.instance)
    joined = old.join()
    assert joined is not None
    assert (joined.leader, joined.members) == (leader.member, ())  # as if another one led
    new = Client(room, "y", instance=leader.instance, can_skip=True)
    joined = new.join()
    assert joined is not None
    assert (joined.leader, joined.skip_assignment, len(joined.members)) == (new.member, True, 2)
    assert room.state() is S.STABLE


def test_a_replacement_that_cannot_be_written_did_not_happen() -> None:
    room = Room()
    first = Client(room, "a", instance="one")
    stable(room, first)
    room.holding = True
    again = Client(room, "a", instance="one")
    assert again.join() is None
    room.fail(E.NOT_ENOUGH_REPLICAS)
    joined = again.joined()
    assert joined is not None
    assert joined.error is E.COORDINATOR_NOT_AVAILABLE
    assert first.heartbeat() is E.NONE
    assert room.group().leader == first.member


def test_replaced_in_the_middle_of_a_rebalance_its_old_self_is_fenced() -> None:
    room = Room()
    first, second = Client(room, "a", instance="one"), Client(room, "b")
    stable(room, first, second)
    third = Client(room, "c")
    third.join()
    assert first.join() is None
    again = Client(room, "a", instance="one")
    assert again.join() is None
    reply = first.joined()
    assert reply is not None
    assert reply.error is E.FENCED_INSTANCE_ID
    second.join()
    share(room, (again, second, third))


def test_static_replacement_during_sync_triggers_a_rebalance() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b", instance="two")
    first.join()
    second.join()
    room.wait(6_000)
    first.joined(), second.joined()
    assert second.sync() is None
    again = Client(room, "b", instance="two")
    assert again.join() is None
    reply = second.synced()
    assert reply is not None
    assert reply.error is E.FENCED_INSTANCE_ID
    assert room.causes()[-1] == "static-member-replaced"
    first.join()
    share(room, (first, again))


def test_static_replacement_with_other_protocols_triggers_a_rebalance() -> None:
    room = Room()
    both = (SupportedProtocol("range", subscription("t")), SupportedProtocol("sticky", subscription("t")))
    first, second = Client(room, "a", instance="one", protocols=both), Client(room, "b", instance="two", protocols=both)
    stable(room, first, second)
    turned = (both[1], both[0])
    for name, instance in (("b", "two"), ("a", "one")):
        client = Client(room, name, instance=instance, protocols=turned)
        joined = client.join()
        if instance == "two":
            assert joined is not None  # one vote each: the first that got one stays
        else:
            assert joined is None
    assert room.causes()[-1] == "static-member-replaced"


def test_away_for_a_rebalance_it_keeps_its_place_until_its_session_ends() -> None:
    room = Room()
    first = Client(room, "a", session_ms=200_000)
    away = Client(room, "b", instance="two", session_ms=100_000)
    stable(room, first, away)
    third = Client(room, "c", session_ms=200_000)
    third.join()
    first.join()
    room.wait(60_000)  # not waited for any longer
    share(room, (first, third))
    assert away.member in room.group().members
    room.wait(40_000)
    assert away.member not in room.group().members
    assert room.causes()[-1] == "session-expired"


def test_when_only_absent_static_members_are_left_nothing_is_decided_without_them() -> None:
    room = Room()
    first = Client(room, "a")
    away = Client(room, "b", instance="two", session_ms=300_000)
    stable(room, first, away)
    first.leave()
    room.wait(61_000)  # the rebalance timeout passes, and nobody has joined
    assert room.state() is S.PREPARING_REBALANCE
    assert room.group().generation == 1
    again = Client(room, "b", instance="two")
    again.join()
    share(room, (again,))


def test_leave_by_instance_name_needs_no_member_id() -> None:
    room = Room()
    first, second = Client(room, "a", instance="one"), Client(room, "b", instance="two")
    stable(room, first, second)
    leavers = (
        LeavingMember("", "one"),
        LeavingMember("", "nobody"),
        LeavingMember("wrong", "two"),
        LeavingMember(second.member, "two"),
    )
    reply = room.answers[room.ask(Leave("readers", leavers))]
    assert isinstance(reply, MembersLeft)
    assert [error for _, error in reply.each] == [E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.NONE]
    assert room.state() is S.EMPTY


def test_taken_instance_name_fences_its_other_users() -> None:
    room = Room()
    first, second = Client(room, "a", instance="one"), Client(room, "b", instance="two")
    stable(room, first, second)
    imposter = Client(room, "i", instance="one", member=second.member)
    assert imposter.join() == Joined(E.FENCED_INSTANCE_ID, member=second.member)
    stranger = Client(room, "s", instance="three", member=second.member)
    assert stranger.join() == Joined(E.UNKNOWN_MEMBER_ID, member=second.member)


def test_a_new_coordinator_knows_static_members_by_name() -> None:
    room = Room()
    first, second = Client(room, "a", instance="one"), Client(room, "b", instance="two")
    stable(room, first, second)
    room.take_over()
    again = Client(room, "b", instance="two")
    joined = again.join()
    assert joined is not None
    assert (joined.error, joined.generation) == (E.NONE, 1)
    assert second.heartbeat() is E.FENCED_INSTANCE_ID
    assert first.heartbeat() is E.NONE
    assert room.state() is S.STABLE


def test_two_replacements_in_a_row_leave_the_last() -> None:
    room = Room()
    stable(room, Client(room, "a", instance="one"))
    room.holding = True
    second, third = Client(room, "a", instance="one"), Client(room, "a", instance="one")
    assert second.join() is None
    assert third.join() is None
    reply = second.joined()
    assert reply is not None
    assert reply.error is E.FENCED_INSTANCE_ID
    room.release()
    joined = third.joined()
    assert joined is not None
    assert joined.error is E.NONE
    assert list(room.group().members) == [third.member]
    assert GroupIdentity("readers", third.member).member in room.group().members.statics.values()


@pytest.mark.parametrize("rebalance_ms", [-(2**31), -1, 0, 1])
def test_rebalance_without_joins_is_checked_periodically(rebalance_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the members call their rebalance timeout: one look after the other would keep the broker from others."""
    room = Room()
    first = Client(room, "a", instance="one")
    second = Client(room, "b", instance="two", rebalance_ms=rebalance_ms)
    stable(room, first, second)
    usual, looks = GroupTimers.pop, 0

    def counted(self: GroupTimers, now: int) -> GroupTimer | None:
        nonlocal looks
        looks += 1
        assert looks < 100, "it looks again and again"
        return usual(self, now)

    monkeypatch.setattr(GroupTimers, "pop", counted)
    assert first.leave() is E.NONE
    room.wait(9_000)  # the other one stays for its session
    assert room.state() is S.PREPARING_REBALANCE
    assert looks < 30
    third = Client(room, "c")
    third.join()
    room.wait(3_000)
    joined = third.joined()
    assert joined is not None
    assert joined.error is E.NONE
