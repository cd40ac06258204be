"""Groups form, change and dissolve: who says what, and who hears what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replica.core.errors import ErrorCode as E
from replica.core.groups.group_effects import GroupRecord, MemberDropped, MemberRefused
from replica.core.groups.group_messages import GroupIdentity, Join, Joined, SupportedProtocol, Sync, Synced
from replica.core.groups.group_states import GROUP_FROM, GroupState, drawn, may
from tests.unit.replica.groups.room import T0, Client, Room, share, stable, subscription

S = GroupState


@pytest.mark.mechanism(41)
def test_a_member_is_given_its_id_first_and_its_group_waits_a_little_for_others() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    assert first.join() is None  # it was given an id, and its second join waits
    assert first.member == "a-id1"
    assert room.state() is S.PREPARING_REBALANCE
    room.wait(2_000)
    assert second.join() is None
    room.wait(1_500)
    assert first.joined() is None  # somebody came: another three seconds
    room.wait(2_500)
    joined = first.joined()
    assert joined is not None
    assert (joined.error, joined.generation, joined.protocol, joined.leader) == (E.NONE, 1, "range", "a-id1")
    assert [entry.member for entry in joined.members] == ["a-id1", "b-id2"]
    answer = second.joined()
    assert answer is not None
    assert (answer.leader, answer.members) == ("a-id1", ())  # only who leads needs to know the others
    assert second.sync() is None
    assert room.state() is S.COMPLETING_REBALANCE
    leaders = first.sync({"a-id1": b"A", "b-id2": b"B"})
    others = second.synced()
    assert leaders is not None
    assert others is not None
    assert (leaders.assignment, others.assignment) == (b"A", b"B")
    assert room.state() is S.STABLE


def test_the_initial_delay_ends_when_the_rebalance_timeout_is_spent() -> None:
    room = Room()
    clients = [Client(room, f"c{index}", rebalance_ms=7_000) for index in range(6)]
    for client in clients[:5]:
        client.join()
        room.wait(1_900)  # each comes within the delay that the one before it prolonged
    assert clients[0].joined() is not None


def test_clients_of_old_are_members_at_once() -> None:
    room = Room()
    client = Client(room, "old", id_first=False)
    assert client.join() is None
    room.wait(3_000)
    joined = client.joined()
    assert joined is not None
    assert joined.error is E.NONE


def test_pending_member_that_never_joins_delays_no_rebalance() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    ghost = Client(room, "ghost")
    room.answers.clear()
    ghost_join = room.ask(_join(ghost))
    reply = room.answers[ghost_join]
    assert isinstance(reply, Joined)
    assert reply.error is E.MEMBER_ID_REQUIRED
    assert first.join() is None  # the leader joins again; now everybody is there but the ghost
    room.wait(5_000)
    assert first.joined() is None
    room.wait(5_000)  # the session timeout that the ghost named
    joined = first.joined()
    assert joined is not None
    assert joined.generation == 2


def _join(client: Client, connection: str = "") -> Join:
    return Join(
        GroupIdentity("readers", client.member),
        "consumer",
        client.protocols,
        10_000,
        60_000,
        client_id=client.name,
        connection=connection,
    )


def _issue(room: Room, client: Client, connection: str) -> str:
    reply = room.answers[room.ask(_join(client, connection))]
    assert isinstance(reply, Joined)
    assert reply.error is E.MEMBER_ID_REQUIRED
    return reply.member


def test_rebalance_completes_without_pending_member_whose_connection_closed() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    _issue(room, Client(room, "b"), "b1")
    _issue(room, Client(room, "c"), "c1")
    assert first.join() is None
    room.close("b1")
    assert first.joined() is None  # the group still waits for the other id
    room.close("c1")
    joined = first.joined()
    assert joined is not None
    assert (joined.error, joined.generation) == (E.NONE, 2)


def test_connection_that_closed_earlier_delays_no_later_rebalance() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    _issue(room, Client(room, "b"), "b1")
    room.close("b1")
    joined = first.join()
    assert joined is not None
    assert joined.generation == 2


def test_issued_id_stays_valid_after_its_connection_closed() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    stable(room, first)
    second.member = _issue(room, second, "b1")
    room.close("b1")
    assert second.join() is None
    assert second.member in room.group().members
    assert first.join() is not None
    share(room, (first, second))


def test_closed_connection_removes_no_member_that_joined_with_its_id() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    stable(room, first)
    second.member = _issue(room, second, "b1")
    assert second.join() is None
    assert not room.coordinator.has_issued_on("b1")
    room.close("b1")
    assert first.join() is not None
    share(room, (first, second))


def _expire(room: Room, clients: tuple[Client, ...]) -> None:
    room.wait(10_000)


def _leave(room: Room, clients: tuple[Client, ...]) -> None:
    for client in clients:
        assert room.coordinator.has_issued_on("b1")
        assert client.leave() is E.NONE


def _move(room: Room, clients: tuple[Client, ...]) -> None:
    room.resign()


@pytest.mark.parametrize("end", [_expire, _leave, _move])
def test_no_connection_is_kept_for_ids_that_are_no_longer_pending(
    end: Callable[[Room, tuple[Client, ...]], None],
) -> None:
    room = Room()
    first, second, third = Client(room, "a"), Client(room, "b"), Client(room, "c")
    stable(room, first)
    for client in (second, third):
        client.member = _issue(room, client, "b1")
    assert room.coordinator.has_issued_on("b1")
    end(room, (second, third))
    assert not room.coordinator.has_issued_on("b1")


def test_new_member_triggers_a_rebalance() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    stable(room, first)
    assert first.heartbeat() is E.NONE
    assert second.join() is None
    assert first.heartbeat() is E.REBALANCE_IN_PROGRESS
    first.join()
    share(room, (first, second))  # no delay: all that were known have joined
    assert room.group().generation == 2
    assert room.causes() == ["member-joined", "member-joined"]


@pytest.mark.mechanism(41)
def test_member_that_misses_the_rebalance_timeout_is_removed() -> None:
    room = Room()
    first, second, third = Client(room, "a"), Client(room, "b"), Client(room, "c")
    stable(room, first, second)
    third.join()
    for _ in range(11):
        first.heartbeat()  # it lives, but its application does not let it join
        second.heartbeat()
        room.wait(5_000)
    second.join()
    room.wait(5_000)
    assert second.joined() is not None
    assert first.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert [note.member for note in room.notes if isinstance(note, MemberDropped)] == [first.member]
    share(room, (second, third))
    assert room.group().leader == second.member  # the first that joined, now that the leader is gone


def test_a_silent_member_is_dead_and_the_others_take_over() -> None:
    room = Room()
    first, second = Client(room, "a", session_ms=30_000), Client(room, "b", session_ms=6_000)
    stable(room, first, second)
    room.wait(5_999)
    assert room.state() is S.STABLE
    room.wait(1)
    assert room.state() is S.PREPARING_REBALANCE
    assert first.heartbeat() is E.REBALANCE_IN_PROGRESS
    first.join()
    share(room, (first,))
    assert room.causes()[-1] == "session-expired"


def test_heartbeats_keep_a_session_alive_and_so_do_commits() -> None:
    room = Room()
    first = Client(room, "a", session_ms=6_000)
    stable(room, first)
    for _ in range(5):
        room.wait(4_000)
        assert first.heartbeat() is E.NONE
        room.wait(4_000)
        assert first.commit({T0: 1}) is E.NONE
    assert room.state() is S.STABLE


def test_a_member_leaves_and_says_why() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    stable(room, first, second)
    assert second.leave("done") is E.NONE
    assert second.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert first.heartbeat() is E.REBALANCE_IN_PROGRESS
    assert room.causes()[-1] == "member-left"
    assert second.leave() is E.UNKNOWN_MEMBER_ID


def test_the_last_one_leaves_an_empty_group_that_remembers_its_generation() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    first.leave()
    assert room.state() is S.EMPTY
    [*_, last] = room.records()
    assert isinstance(last, GroupRecord)
    assert last.saved is not None
    assert (last.saved.generation, last.saved.members, last.saved.protocol_type) == (2, (), "consumer")
    again = Client(room, "b")
    again.join()
    room.wait(3_000)
    joined = again.joined()
    assert joined is not None
    assert joined.generation == 3


def test_member_that_leaves_while_waiting_gets_unknown_member_id() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    first.join()
    second.join()
    assert second.leave() is E.NONE
    reply = second.joined()
    assert reply is not None
    assert reply.error is E.UNKNOWN_MEMBER_ID
    room.wait(6_000)
    joined = first.joined()
    assert joined is not None
    assert len(joined.members) == 1


def test_an_id_that_was_given_out_can_be_given_back() -> None:
    room = Room()
    first = Client(room, "a")
    reply = room.answers[room.ask(_join(first))]
    assert isinstance(reply, Joined)
    first.member = reply.member
    assert first.leave() is E.NONE
    assert first.join() == Joined(E.UNKNOWN_MEMBER_ID, member=reply.member)


# -- sync ------------------------------------------------------------------------------------------------


def test_assignment_is_sent_only_after_its_record_is_committed() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    first.join()
    second.join()
    room.wait(6_000)
    first.joined(), second.joined()
    room.holding = True
    assert second.sync() is None
    assert first.sync({first.member: b"A", second.member: b"B"}) is None
    assert room.state() is S.COMPLETING_REBALANCE
    assert second.commit({T0: 1}) is E.REBALANCE_IN_PROGRESS
    room.release()
    answer = second.synced()
    assert answer is not None
    assert answer.assignment == b"B"


def test_assignment_whose_write_failed_is_not_sent() -> None:
    for error, heard in (
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.REBALANCE_IN_PROGRESS),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ):
        room = Room()
        first = Client(room, "a")
        first.join()
        room.wait(3_000)
        first.joined()
        room.holding = True
        first.sync({first.member: b"A"})
        room.fail(error)
        reply = first.synced()
        assert reply is not None
        assert (reply.error, reply.assignment) == (heard, b"")
        assert room.state() is S.PREPARING_REBALANCE
        assert room.causes()[-1] == "not-written"
        room.release()
        first.join()
        share(room, (first,))


def test_assignment_of_a_past_generation_is_not_sent() -> None:
    room = Room()
    first, second, third = Client(room, "a"), Client(room, "b"), Client(room, "c")
    first.join()
    second.join()
    room.wait(6_000)
    first.joined(), second.joined()
    room.holding = True
    first.sync({first.member: b"A", second.member: b"B"})
    third.join()  # while the record is on its way
    reply = first.synced()
    assert reply is not None
    assert reply.error is E.REBALANCE_IN_PROGRESS
    room.release()
    assert room.state() is S.PREPARING_REBALANCE
    assert second.sync() is not None
    first.join()
    second.join()
    share(room, (first, second, third))
    assert room.group().generation == 2


def test_member_that_does_not_sync_is_removed() -> None:
    room = Room()
    first, second = Client(room, "a", session_ms=100_000), Client(room, "b", session_ms=100_000)
    first.join()
    second.join()
    room.wait(6_000)
    first.joined(), second.joined()
    assert first.sync({first.member: b"A", second.member: b"B"}) is not None
    room.wait(60_000)
    assert room.causes()[-1] == "sync-expired"
    assert second.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert first.heartbeat() is E.REBALANCE_IN_PROGRESS


def test_a_sync_of_another_generation_or_protocol_is_refused() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    for ask, error in (
        (Sync(GroupIdentity("readers", first.member, 7)), E.ILLEGAL_GENERATION),
        (Sync(GroupIdentity("readers", "nobody", 1)), E.UNKNOWN_MEMBER_ID),
        (Sync(GroupIdentity("readers", first.member, 1), {}, "connect"), E.INCONSISTENT_GROUP_PROTOCOL),
        (Sync(GroupIdentity("readers", first.member, 1), {}, "consumer", "sticky"), E.INCONSISTENT_GROUP_PROTOCOL),
        (Sync(GroupIdentity("others", first.member, 1)), E.UNKNOWN_MEMBER_ID),
        (Sync(GroupIdentity("", first.member, 1)), E.INVALID_GROUP_ID),
    ):
        reply = room.answers[room.ask(ask)]
        assert isinstance(reply, Synced)
        assert reply.error is error, ask
    again = room.answers[room.ask(Sync(GroupIdentity("readers", first.member, 1), {}, "consumer", "range"))]
    assert again == Synced(E.NONE, b"a", "consumer", "range")


# -- joining again ---------------------------------------------------------------------------------------


def test_unchanged_rejoin_of_a_follower_triggers_no_rebalance() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    leader = stable(room, first, second)
    follower = second if leader is first else first
    joined = follower.join()
    assert joined is not None
    assert (joined.error, joined.generation) == (E.NONE, 1)
    assert room.state() is S.STABLE
    assert leader.join() is None  # it joins again to assign anew
    assert room.causes()[-1] == "leader-rejoined"


def test_changed_subscription_triggers_a_rebalance() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    stable(room, first, second)
    second.protocols = (SupportedProtocol("range", subscription("t", "u")),)
    assert second.join() is None
    assert room.causes()[-1] == "member-changed"
    first.join()
    share(room, (first, second))
    assert room.group().subscribed == frozenset({"t", "u"})


def test_an_answer_that_was_lost_is_given_again() -> None:
    room = Room()
    first, second = Client(room, "a"), Client(room, "b")
    first.join()
    second.join()
    room.wait(6_000)
    once = first.joined()
    assert room.state() is S.COMPLETING_REBALANCE
    assert first.join() == once
    assert room.state() is S.COMPLETING_REBALANCE


def test_a_join_over_a_second_connection_takes_the_place_of_the_first() -> None:
    room = Room()
    first = Client(room, "a")
    first.join()
    before = first.joining
    assert first.join() is None
    assert before is not None
    reply = room.heard(before)
    assert isinstance(reply, Joined)
    assert reply.error is E.REBALANCE_IN_PROGRESS
    room.wait(3_000)
    joined = first.joined()
    assert joined is not None
    assert joined.error is E.NONE


# -- what they agree on ------------------------------------------------------------------------------------


def test_the_protocol_that_most_want_of_those_that_all_know() -> None:
    room = Room()
    kinds = [("range", "sticky"), ("sticky", "range", "own"), ("sticky", "range")]
    clients = [
        Client(room, f"c{index}", protocols=tuple(SupportedProtocol(name, b"") for name in names))
        for index, names in enumerate(kinds)
    ]
    stable(room, *clients)
    assert room.group().protocol == "sticky"


def test_member_without_common_protocol_is_refused_and_conflicts_are_logged() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    odd = Client(room, "odd", protocols=(SupportedProtocol("RoundRobinAssigner", b""),))
    reply = odd.join()
    assert reply is not None
    assert reply.error is E.INCONSISTENT_GROUP_PROTOCOL
    [refused] = [note for note in room.notes if isinstance(note, MemberRefused)]
    assert first.member in refused.why
    assert "RoundRobinAssigner" in refused.why
    connect = Client(room, "w", protocol_type="connect")
    reply = connect.join()
    assert reply is not None
    assert reply.error is E.INCONSISTENT_GROUP_PROTOCOL
    empty = Client(room, "e", protocols=())
    reply = empty.join()
    assert reply is not None
    assert reply.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert room.state() is S.STABLE


def test_a_group_that_is_empty_may_become_one_of_another_kind() -> None:
    room = Room()
    first = Client(room, "a")
    stable(room, first)
    first.leave()
    other = Client(room, "w", protocol_type="connect", protocols=(SupportedProtocol("sessioned", b""),))
    stable(room, other)
    assert room.group().protocol_type == "connect"


# -- bounds ------------------------------------------------------------------------------------------------


def test_session_timeouts_have_bounds() -> None:
    room = Room()
    for session in (5_999, 1_800_001):
        reply = Client(room, "a", session_ms=session).join()
        assert reply is not None
        assert reply.error is E.INVALID_SESSION_TIMEOUT


def test_a_group_has_a_size() -> None:
    room = Room(group_max_size=2)
    first, second, third = Client(room, "a"), Client(room, "b"), Client(room, "c")
    stable(room, first, second)
    reply = third.join()
    assert reply is not None
    assert reply.error is E.GROUP_MAX_SIZE_REACHED
    assert room.state() is S.STABLE
    assert first.join() is None or second.join() is None  # who is in it may always join again


def test_unknown_member_gets_unknown_member_id() -> None:
    room = Room()
    nobody = Client(room, "x", member="made-up")
    assert nobody.join() == Joined(E.UNKNOWN_MEMBER_ID, member="made-up")
    assert nobody.heartbeat() is E.UNKNOWN_MEMBER_ID
    assert nobody.leave() is E.UNKNOWN_MEMBER_ID
    first = Client(room, "a")
    stable(room, first)
    assert nobody.join() == Joined(E.UNKNOWN_MEMBER_ID, member="made-up")
    first.generation = 9
    assert first.heartbeat() is E.ILLEGAL_GENERATION


def test_a_client_that_vanished_in_its_first_join_is_waited_for_five_minutes() -> None:
    room = Room()
    first = Client(room, "a", rebalance_ms=1_000_000)
    stable(room, first)
    vanished = Client(room, "v", rebalance_ms=1_000_000)
    assert vanished.join() is None
    for _ in range(59):
        first.heartbeat()
        room.wait(5_000)
    assert len(room.group().members) == 2
    first.heartbeat()
    room.wait(5_000)
    assert len(room.group().members) == 1


# -- the table -----------------------------------------------------------------------------------------------


def test_no_way_leads_out_of_death_and_every_state_can_be_reached() -> None:
    assert not any(may(S.DEAD, after) for after in S)
    assert all(GROUP_FROM[state] for state in S)
    assert "    CompletingRebalance --> Stable" in drawn().splitlines()
    assert "    Stable --> CompletingRebalance" not in drawn()


def test_the_page_shows_the_table() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "protocol" / "groups.md"
    assert f"```mermaid\n{drawn()}\n```" in page.read_text()
