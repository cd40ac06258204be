"""The model of a group coordinator's replies: each invariant is violated by a wrong reply, and by no right one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.group_replies import (
    ASSIGNMENT,
    FORMER,
    GENERATION,
    IN_TIME,
    JOINED,
    LEADER,
    MEMBER,
    REBALANCE,
    SLACK_MS,
    GroupReplies,
)
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import (
    Ask,
    Commit,
    CommitInTransaction,
    Committed,
    GroupIdentity,
    Heartbeat,
    HeartbeatAnswered,
    Join,
    Joined,
    Leave,
    LeavingMember,
    MemberEntry,
    MembersLeft,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsFetched,
    Reply,
    SupportedProtocol,
    Sync,
    Synced,
    Ticket,
)

E = ErrorCode
SESSION_MS, REBALANCE_MS = 300, 400
OVERDUE_MS = 2 * REBALANCE_MS + SLACK_MS + 1
"""The time after which a waiting join is reported."""
WHERE = TopicPartition("data", 0)


class Coordinator:
    """Gives the replies that a test dictates, at times that it dictates."""

    def __init__(self) -> None:
        self.now = 0
        self.term: int | None = 1
        self.replies = GroupReplies(1, lambda group: {"g": self.term}[group])
        self._tickets = 0

    def ask(self, ask: Ask) -> Ticket:
        self._tickets += 1
        self.replies.requested(Ticket(self._tickets), ask, self.now)
        return Ticket(self._tickets)

    def answer(self, ticket: Ticket, reply: Reply) -> None:
        self.replies.answered(ticket, reply, self.now)

    def call(self, ask: Ask, reply: Reply) -> None:
        self.answer(self.ask(ask), reply)

    def wait(self, ms: int) -> None:
        self.now += ms
        self.replies.ticked(self.now)

    def heartbeat(self, member: str, error: E, generation: int = 1) -> None:
        self.call(Heartbeat(who(member, generation)), HeartbeatAnswered(error))

    def leave(self, member: str, error: E = E.NONE) -> None:
        left = LeavingMember(member)
        self.call(Leave("g", (left,)), MembersLeft(E.NONE, ((left, error),)))

    def commit(self, member: str, error: E, generation: int = 1) -> None:
        self.call(Commit(who(member, generation), {WHERE: OffsetAndMetadata(1)}), Committed({WHERE: error}))

    def generation(self, number: int, *members: str) -> None:
        """The members join, and the first one leads. Each has its own name as its assignment."""
        tickets = [self.ask(join(member)) for member in members]
        for ticket, member in zip(tickets, members, strict=True):
            self.answer(ticket, joined(number, member, members))

    def assign(self, number: int, *members: str) -> None:
        shares = {member: member.encode() for member in members}
        tickets = [self.ask(Sync(who(each, number), shares if each == members[0] else {})) for each in members]
        for ticket, member in zip(tickets, members, strict=True):
            self.answer(ticket, Synced(E.NONE, member.encode()))


def who(member: str, generation: int = 1) -> GroupIdentity:
    return GroupIdentity("g", member, generation)


def join(member: str) -> Join:
    return Join(GroupIdentity("g", member), "consumer", (SupportedProtocol("range", b""),), SESSION_MS, REBALANCE_MS)


def joined(number: int, member: str, members: tuple[str, ...], leader: str = "", protocol: str = "range") -> Joined:
    leader = leader or members[0]
    told = tuple(MemberEntry(each, None, b"") for each in members) if leader == member else ()
    return Joined(E.NONE, member, number, "consumer", protocol, leader, told)


def of_stable_group() -> Coordinator:
    """Return the coordinator of a stable group with the members a and b in generation 1."""
    coordinator = Coordinator()
    coordinator.generation(1, "a", "b")
    coordinator.assign(1, "a", "b")
    return coordinator


def test_right_replies_violate_nothing() -> None:
    stable = of_stable_group()
    stable.heartbeat("a", E.NONE)
    stable.commit("b", E.NONE)
    third = stable.ask(join("c"))
    stable.heartbeat("a", E.REBALANCE_IN_PROGRESS)
    first, second = stable.ask(join("a")), stable.ask(join("b"))
    for ticket, member in ((first, "a"), (second, "b"), (third, "c")):
        stable.answer(ticket, joined(2, member, ("a", "b", "c")))
    stable.heartbeat("a", E.ILLEGAL_GENERATION, 1)
    stable.commit("c", E.REBALANCE_IN_PROGRESS, 2)
    stable.assign(2, "a", "b", "c")
    stable.leave("b")
    stable.heartbeat("b", E.UNKNOWN_MEMBER_ID, 2)
    stable.wait(SESSION_MS)
    stable.heartbeat("c", E.UNKNOWN_MEMBER_ID, 2)
    assert stable.replies.judged == {"granted": 2, "refused": 3}


def test_replies_of_other_terms_are_ignored() -> None:
    stable = of_stable_group()
    ticket = stable.ask(Heartbeat(who("a")))
    stable.term = 2
    stable.answer(ticket, HeartbeatAnswered(E.UNKNOWN_MEMBER_ID))
    stable.heartbeat("a", E.ILLEGAL_GENERATION)
    stable.term = None
    stable.heartbeat("a", E.NOT_COORDINATOR)


def test_replies_of_the_next_term_are_judged() -> None:
    stable = of_stable_group()
    stable.term = 2
    stable.generation(2, "a", "b")
    stable.assign(2, "a", "b")
    with pytest.raises(Violation, match="generation 2 is stable"):
        stable.heartbeat("a", E.UNKNOWN_MEMBER_ID, 2)


def test_an_interrupted_term_is_forgotten() -> None:
    stable = of_stable_group()
    pending = stable.ask(Heartbeat(who("b")))
    stable.term = None
    stable.heartbeat("a", E.NOT_COORDINATOR)
    stable.term = 1
    stable.answer(pending, HeartbeatAnswered(E.UNKNOWN_MEMBER_ID))
    stable.heartbeat("a", E.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("then", [None, 2])
def test_a_join_may_wait_longer_than_its_term(then: int | None) -> None:
    stable = of_stable_group()
    stable.ask(join("a"))
    stable.term = then
    stable.wait(OVERDUE_MS)


def test_a_broker_that_does_not_serve_a_group_may_keep_its_join() -> None:
    coordinator = Coordinator()
    coordinator.term = None
    coordinator.ask(join("a"))
    coordinator.wait(OVERDUE_MS)


def test_requests_about_offsets_are_not_judged() -> None:
    Coordinator().call(OffsetFetch("g"), OffsetsFetched(E.NONE))


# -- uncertain facts ---------------------------------------------------------------------------------------


def misses_a_member(coordinator: Coordinator) -> None:
    """Form a generation in which the join of x was before this term."""
    coordinator.call(join("a"), joined(1, "a", ("a", "x")))


def test_a_group_with_an_unknown_member_may_rebalance() -> None:
    coordinator = Coordinator()
    misses_a_member(coordinator)
    coordinator.assign(1, "a")
    coordinator.heartbeat("a", E.REBALANCE_IN_PROGRESS)


def test_a_commit_of_an_unknown_member_is_not_judged() -> None:
    coordinator = Coordinator()
    misses_a_member(coordinator)
    coordinator.commit("x", E.NONE)


def test_a_request_of_an_unknown_member_may_succeed() -> None:
    coordinator = Coordinator()
    coordinator.heartbeat("a", E.NONE)
    coordinator.generation(1, "a")
    coordinator.call(Sync(who("x")), Synced(E.NONE))


def test_a_group_whose_leader_received_no_list_may_accept_a_commit() -> None:
    coordinator = Coordinator()
    coordinator.call(join("b"), joined(1, "b", ("a", "b")))
    coordinator.commit("b", E.NONE)


def test_a_group_may_rebalance_until_all_members_have_their_assignment() -> None:
    coordinator = Coordinator()
    coordinator.generation(1, "a", "b")
    coordinator.assign(1, "a")
    coordinator.heartbeat("a", E.REBALANCE_IN_PROGRESS)


def test_a_group_may_accept_commits_after_the_first_assignment() -> None:
    coordinator = Coordinator()
    coordinator.generation(1, "a", "b")
    coordinator.assign(1, "a")
    coordinator.commit("b", E.NONE)


def test_a_session_may_expire_at_its_end() -> None:
    stable = of_stable_group()
    stable.now += SESSION_MS
    stable.heartbeat("a", E.UNKNOWN_MEMBER_ID)


def test_a_group_may_rebalance_after_a_request_to_leave() -> None:
    stable = of_stable_group()
    stable.ask(Leave("g", (LeavingMember("b"),)))
    stable.heartbeat("a", E.REBALANCE_IN_PROGRESS)


def test_a_group_may_rebalance_after_a_heartbeat_reported_it() -> None:
    stable = of_stable_group()
    stable.now += SESSION_MS
    stable.heartbeat("b", E.REBALANCE_IN_PROGRESS)
    stable.heartbeat("a", E.NONE)
    stable.heartbeat("b", E.NONE)
    stable.heartbeat("a", E.REBALANCE_IN_PROGRESS)


def test_a_group_may_accept_commits_during_a_rebalance() -> None:
    coordinator = Coordinator()
    coordinator.generation(1, "a", "b")
    coordinator.ask(Leave("g", (LeavingMember("b"),)))
    coordinator.commit("a", E.NONE)


def test_a_group_may_rebalance_while_a_join_waits() -> None:
    stable = of_stable_group()
    stable.ask(join("b"))
    stable.generation(2, "a")
    stable.commit("a", E.NONE, 2)
    stable.assign(2, "a")
    stable.heartbeat("a", E.REBALANCE_IN_PROGRESS, 2)


def test_a_commit_without_a_member_is_not_judged() -> None:
    of_stable_group().commit("", E.NONE, -1)


@pytest.mark.parametrize(("member", "generation"), [("x", 1), ("a", 2)])
def test_a_heartbeat_of_no_present_member_may_be_refused(member: str, generation: int) -> None:
    of_stable_group().heartbeat(member, E.ILLEGAL_GENERATION, generation)


def test_a_member_that_leaves_during_its_commit_may_be_refused() -> None:
    stable = of_stable_group()
    pending = stable.ask(Commit(who("b"), {WHERE: OffsetAndMetadata(1)}))
    stable.leave("b")
    stable.answer(pending, Committed({WHERE: E.UNKNOWN_MEMBER_ID}))


def removed_after(stable: Coordinator, *leavers: str) -> None:
    """Let the coordinator remove the group, and let a new member receive generation 1."""
    for member in leavers:
        stable.leave(member)
    stable.replies.removed("g")
    stable.call(join("c"), joined(1, "c", ("c",)))


def test_removed_group_begins_its_generations_anew() -> None:
    stable = of_stable_group()
    stable.generation(2, "a", "b")
    removed_after(stable, "a", "b")
    stable.assign(1, "c")
    with pytest.raises(Violation) as found:
        stable.heartbeat("a", E.NONE, 2)
    assert found.value.invariant == FORMER


@pytest.mark.parametrize("leavers", [(), ("a",)])
def test_group_with_a_member_is_not_removed(leavers: tuple[str, ...]) -> None:
    stable = of_stable_group()
    stable.generation(2, "a", "b")
    with pytest.raises(Violation) as found:
        removed_after(stable, *leavers)
    assert found.value.invariant == GENERATION


def test_removal_of_an_unknown_group_changes_nothing() -> None:
    stable = of_stable_group()
    stable.replies.removed("h")
    stable.heartbeat("a", E.NONE)


@pytest.mark.parametrize(("former", "broken"), [(True, FORMER), (False, MEMBER)])
def test_a_commit_in_a_transaction_is_judged_as_any_other(former: bool, broken: str) -> None:
    stable = of_stable_group()
    if former:
        stable.leave("b")
    ask = CommitInTransaction(who("b"), 7, 0, {WHERE: OffsetAndMetadata(1)})
    refused, accepted = Committed({WHERE: E.UNKNOWN_MEMBER_ID}), Committed({WHERE: E.NONE})
    stable.call(ask, refused if former else accepted)
    with pytest.raises(Violation) as found:
        stable.call(ask, accepted if former else refused)
    assert found.value.invariant == broken


def test_a_join_is_superseded_by_the_next_one() -> None:
    stable = of_stable_group()
    first = stable.ask(join("a"))
    stable.ask(join("a"))
    stable.answer(first, Joined(E.REBALANCE_IN_PROGRESS))


def test_a_refused_join_changes_nothing() -> None:
    stable = of_stable_group()
    stable.call(join(""), Joined(E.MEMBER_ID_REQUIRED, "c"))


def test_a_refused_sync_has_no_assignment() -> None:
    coordinator = Coordinator()
    coordinator.generation(1, "a", "b")
    coordinator.ask(syncs("a", 1, b"b"))
    coordinator.call(Sync(who("b")), Synced(E.REBALANCE_IN_PROGRESS))


def test_a_join_of_another_member_may_return_the_same_generation() -> None:
    of_stable_group().call(join("b"), joined(1, "b", ("a", "b")))


def test_a_join_of_the_leader_may_return_the_same_generation_before_the_assignment() -> None:
    coordinator = Coordinator()
    coordinator.generation(1, "a")
    coordinator.call(join("a"), joined(1, "a", ("a",)))


def test_a_member_that_joined_without_an_id_is_listed_with_a_new_one() -> None:
    stable = of_stable_group()
    new = stable.ask(evolve(join(""), id_first=False))
    stable.call(join("a"), joined(2, "a", ("a", "c")))
    stable.answer(new, joined(2, "c", ("a", "c")))


def test_a_refused_leave_changes_nothing() -> None:
    stable = of_stable_group()
    stable.leave("b", E.FENCED_INSTANCE_ID)
    stable.heartbeat("b", E.NONE)


def test_a_second_leave_may_be_refused() -> None:
    stable = of_stable_group()
    stable.leave("b")
    stable.leave("b", E.UNKNOWN_MEMBER_ID)


def test_several_static_members_may_leave() -> None:
    leavers = (LeavingMember("", "i"), LeavingMember("", "j"))
    of_stable_group().call(Leave("g", leavers), MembersLeft(E.NONE, tuple((each, E.NONE) for each in leavers)))


# -- sessions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joins", [1, 2])
def test_a_session_does_not_expire_during_a_join(joins: int) -> None:
    stable = of_stable_group()
    *superseded, last = [stable.ask(join("b")) for _ in range(joins)]
    for ticket in superseded:
        stable.answer(ticket, Joined(E.REBALANCE_IN_PROGRESS))
    stable.wait(SESSION_MS)
    stable.answer(last, joined(1, "b", ("a", "b")))
    stable.heartbeat("b", E.REBALANCE_IN_PROGRESS)
    stable.wait(SESSION_MS - 1)
    stable.heartbeat("b", E.NONE)


def test_a_session_does_not_expire_during_a_sync() -> None:
    stable = of_stable_group()
    pending = stable.ask(Sync(who("b")))
    stable.wait(SESSION_MS)
    stable.answer(pending, Synced(E.NONE, b"b"))
    stable.heartbeat("b", E.NONE)


def test_a_session_begins_again_with_an_assignment() -> None:
    stable = of_stable_group()
    stable.wait(SESSION_MS - 1)
    for member in ("a", "b"):
        stable.call(Sync(who(member)), Synced(E.NONE, member.encode()))
    stable.wait(SESSION_MS - 1)
    with pytest.raises(Violation, match="generation 1 is stable"):
        stable.heartbeat("b", E.UNKNOWN_MEMBER_ID)


def test_a_join_sets_the_session_timeout() -> None:
    stable = of_stable_group()
    stable.call(evolve(join("b"), session_timeout_ms=2 * SESSION_MS), joined(1, "b", ("a", "b")))
    stable.wait(SESSION_MS)
    stable.heartbeat("b", E.NONE)


# -- assignments -------------------------------------------------------------------------------------------


def syncs(member: str, generation: int, assignment: bytes) -> Sync:
    return Sync(who(member, generation), {"b": assignment})


@pytest.mark.parametrize("other", [syncs("a", 1, b"old"), syncs("b", 2, b"of a follower")])
def test_only_the_leader_of_the_generation_assigns(other: Sync) -> None:
    stable = of_stable_group()
    stable.generation(2, "a", "b")
    stable.ask(other)
    stable.assign(2, "a", "b")


def test_the_first_assignment_counts() -> None:
    stable = of_stable_group()
    stable.call(syncs("a", 1, b"other"), Synced(E.NONE, b"a"))
    stable.call(Sync(who("b")), Synced(E.NONE, b"b"))


def test_an_unknown_assignment_is_not_judged() -> None:
    coordinator = Coordinator()
    coordinator.generation(1, "a", "b")
    coordinator.call(Sync(who("b")), Synced(E.NONE, b"any"))


def test_an_assignment_of_the_former_generation_is_not_judged() -> None:
    stable = of_stable_group()
    pending = stable.ask(Sync(who("b")))
    stable.generation(2, "a", "b")
    stable.ask(syncs("a", 2, b"new"))
    stable.answer(pending, Synced(E.NONE, b"b"))


# -- the time of a join ------------------------------------------------------------------------------------


def test_a_join_may_wait_for_twice_the_rebalance_timeout() -> None:
    coordinator = Coordinator()
    coordinator.wait(10 * OVERDUE_MS)
    coordinator.ask(join("a"))
    coordinator.wait(OVERDUE_MS - 1)


def test_the_longest_rebalance_timeout_counts() -> None:
    coordinator = Coordinator()
    coordinator.ask(evolve(join("a"), rebalance_timeout_ms=2 * REBALANCE_MS))
    coordinator.ask(join("b"))
    coordinator.wait(OVERDUE_MS)


# -- wrong replies -----------------------------------------------------------------------------------------


def refuses_member(stable: Coordinator) -> None:
    stable.heartbeat("b", E.UNKNOWN_MEMBER_ID)


def refuses_commit(stable: Coordinator) -> None:
    stable.commit("b", E.ILLEGAL_GENERATION)


def refuses_join(stable: Coordinator) -> None:
    stable.call(join("b"), Joined(E.UNKNOWN_MEMBER_ID))


def expires_early(stable: Coordinator) -> None:
    stable.wait(SESSION_MS - 1)
    stable.heartbeat("b", E.UNKNOWN_MEMBER_ID)


def forgets_heartbeat(stable: Coordinator) -> None:
    stable.wait(SESSION_MS - 1)
    stable.heartbeat("a", E.NONE)
    stable.heartbeat("b", E.NONE)
    stable.wait(SESSION_MS - 1)
    stable.heartbeat("b", E.REBALANCE_IN_PROGRESS)


def accepts_former_generation(stable: Coordinator) -> None:
    stable.generation(2, "a", "b")
    stable.heartbeat("b", E.NONE, 1)


def accepts_commit_of_former_generation(stable: Coordinator) -> None:
    stable.generation(2, "a", "b")
    stable.commit("b", E.NONE, 1)


def accepts_commit_before_assignment(stable: Coordinator) -> None:
    stable.generation(2, "a", "b")
    stable.commit("b", E.NONE, 2)


def accepts_expired(stable: Coordinator) -> None:
    stable.wait(SESSION_MS)
    stable.heartbeat("a", E.NONE)


def accepts_expired_after_its_join(stable: Coordinator) -> None:
    stable.call(join("b"), joined(1, "b", ("a", "b")))
    stable.wait(SESSION_MS)
    stable.heartbeat("b", E.NONE)


def accepts_who_left(stable: Coordinator) -> None:
    stable.leave("b")
    stable.call(Sync(who("b")), Synced(E.NONE, b"b"))


def accepts_join_of_expired(stable: Coordinator) -> None:
    stable.wait(SESSION_MS)
    stable.call(join("b"), joined(2, "b", ("a", "b")))


def accepts_one_position(stable: Coordinator) -> None:
    stable.generation(2, "a", "b")
    errors = {WHERE: E.NONE, TopicPartition("data", 1): E.OFFSET_METADATA_TOO_LARGE}
    stable.call(Commit(who("b"), dict.fromkeys(errors, OffsetAndMetadata(1))), Committed(errors))


def lets_leave_twice(stable: Coordinator) -> None:
    for _ in range(2):
        stable.leave("b")


def hides_rebalance(stable: Coordinator) -> None:
    stable.ask(join("c"))
    stable.heartbeat("a", E.NONE)


def goes_back(stable: Coordinator) -> None:
    stable.generation(0, "a", "b")


def has_two_leaders(stable: Coordinator) -> None:
    first, second = stable.ask(join("a")), stable.ask(join("b"))
    stable.answer(first, joined(2, "a", ("a", "b")))
    stable.answer(second, joined(2, "b", ("a", "b"), leader="b"))


def has_two_protocols(stable: Coordinator) -> None:
    first, second = stable.ask(join("a")), stable.ask(join("b"))
    stable.answer(first, joined(2, "a", ("a", "b")))
    stable.answer(second, joined(2, "b", ("a", "b"), protocol="roundrobin"))


def names_another_member(stable: Coordinator) -> None:
    stable.call(join("b"), joined(2, "c", ("a", "c")))


def keeps_absent_member(stable: Coordinator) -> None:
    stable.call(join("a"), joined(2, "a", ("a", "b")))


def keeps_member_that_left(stable: Coordinator) -> None:
    stable.generation(2, "a", "b")
    stable.assign(2, "a", "b")
    stable.leave("b")
    stable.call(join("a"), joined(2, "a", ("a", "b")))


def leaves_leader_out(stable: Coordinator) -> None:
    stable.call(join("a"), Joined(E.NONE, "a", 2, "consumer", "range", "a"))


def tells_members_to_follower(stable: Coordinator) -> None:
    told = (MemberEntry("a", None, b""), MemberEntry("b", None, b""))
    stable.call(join("b"), Joined(E.NONE, "b", 2, "consumer", "range", "a", told))


def ignores_join_of_leader(stable: Coordinator) -> None:
    stable.call(join("a"), joined(1, "a", ("a", "b")))


def gives_another_assignment(stable: Coordinator) -> None:
    stable.call(Sync(who("b")), Synced(E.NONE, b"a"))


def never_answers(stable: Coordinator) -> None:
    stable.ask(join("a"))
    stable.wait(OVERDUE_MS)


def never_answers_a_busy_group(stable: Coordinator) -> None:
    stable.ask(join("a"))
    stable.now += OVERDUE_MS
    stable.ask(Heartbeat(who("b")))


WRONG = [
    (refuses_member, MEMBER),
    (refuses_commit, MEMBER),
    (refuses_join, MEMBER),
    (expires_early, MEMBER),
    (forgets_heartbeat, MEMBER),
    (accepts_former_generation, FORMER),
    (accepts_commit_of_former_generation, FORMER),
    (accepts_commit_before_assignment, FORMER),
    (accepts_expired, FORMER),
    (accepts_expired_after_its_join, FORMER),
    (accepts_who_left, FORMER),
    (accepts_join_of_expired, FORMER),
    (accepts_one_position, FORMER),
    (lets_leave_twice, FORMER),
    (hides_rebalance, REBALANCE),
    (goes_back, GENERATION),
    (has_two_leaders, GENERATION),
    (has_two_protocols, GENERATION),
    (names_another_member, JOINED),
    (keeps_absent_member, JOINED),
    (keeps_member_that_left, JOINED),
    (leaves_leader_out, JOINED),
    (tells_members_to_follower, JOINED),
    (ignores_join_of_leader, LEADER),
    (gives_another_assignment, ASSIGNMENT),
    (never_answers, IN_TIME),
    (never_answers_a_busy_group, IN_TIME),
]


@pytest.mark.parametrize(("wrong", "invariant"), WRONG)
def test_wrong_reply_violates(wrong: Callable[[Coordinator], None], invariant: str) -> None:
    with pytest.raises(Violation) as raised:
        wrong(of_stable_group())
    assert raised.value.invariant == invariant


def has_a_static_member(stable: Coordinator) -> None:
    stable.call(Heartbeat(GroupIdentity("g", "c", 1, "instance")), HeartbeatAnswered(E.NONE))


@pytest.mark.parametrize("wrong", [wrong for wrong, _ in WRONG if wrong is not lets_leave_twice])
def test_groups_with_a_static_member_are_not_judged(wrong: Callable[[Coordinator], None]) -> None:
    stable = of_stable_group()
    has_a_static_member(stable)
    wrong(stable)


def test_the_sessions_of_a_group_with_a_static_member_are_not_judged() -> None:
    stable = of_stable_group()
    has_a_static_member(stable)
    stable.wait(SESSION_MS)
    stable.leave("b")
