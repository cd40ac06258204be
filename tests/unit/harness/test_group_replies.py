"""The model of a group coordinator's replies: each invariant is violated by a wrong reply, and by no right one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
    GroupReplies,
)
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import (
    Ask,
    Commit,
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
    Reply,
    SupportedProtocol,
    Sync,
    Synced,
    Ticket,
)

E = ErrorCode
SESSION_MS, REBALANCE_MS = 300, 400
WHERE = TopicPartition("data", 0)


class Coordinator:
    """Gives the replies that a test dictates, at times that it dictates."""

    def __init__(self) -> None:
        self.now = 0
        self.term: int | None = 1
        self.replies = GroupReplies(1, lambda group: self.term)
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
    stable.call(Leave("g", (LeavingMember("b"),)), MembersLeft(E.NONE, ((LeavingMember("b"), E.NONE),)))
    stable.heartbeat("b", E.UNKNOWN_MEMBER_ID, 2)
    stable.wait(SESSION_MS)
    stable.heartbeat("c", E.UNKNOWN_MEMBER_ID, 2)
    assert stable.replies.judged["granted"]
    assert stable.replies.judged["refused"]


def test_replies_of_other_terms_are_ignored() -> None:
    stable = of_stable_group()
    ticket = stable.ask(Heartbeat(who("a")))
    stable.term = 2
    stable.answer(ticket, HeartbeatAnswered(E.UNKNOWN_MEMBER_ID))
    stable.heartbeat("a", E.ILLEGAL_GENERATION)
    stable.term = None
    stable.heartbeat("a", E.NOT_COORDINATOR)


def refuses_member(stable: Coordinator) -> None:
    stable.heartbeat("b", E.UNKNOWN_MEMBER_ID)


def refuses_commit(stable: Coordinator) -> None:
    stable.commit("b", E.ILLEGAL_GENERATION)


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


def accepts_who_left(stable: Coordinator) -> None:
    left = LeavingMember("b")
    stable.call(Leave("g", (left,)), MembersLeft(E.NONE, ((left, E.NONE),)))
    stable.call(Sync(who("b")), Synced(E.NONE, b"b"))


def lets_leave_twice(stable: Coordinator) -> None:
    for _ in range(2):
        left = LeavingMember("b")
        stable.call(Leave("g", (left,)), MembersLeft(E.NONE, ((left, E.NONE),)))


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
    stable.call(join("a"), joined(2, "b", ("b",)))


def keeps_absent_member(stable: Coordinator) -> None:
    stable.call(join("a"), joined(2, "a", ("a", "b")))


def leaves_leader_out(stable: Coordinator) -> None:
    ticket = stable.ask(join("a"))
    stable.answer(ticket, Joined(E.NONE, "a", 2, "consumer", "range", "a", (MemberEntry("b", None, b""),)))


def tells_members_to_follower(stable: Coordinator) -> None:
    told = (MemberEntry("a", None, b""), MemberEntry("b", None, b""))
    stable.call(join("b"), Joined(E.NONE, "b", 2, "consumer", "range", "a", told))


def ignores_join_of_leader(stable: Coordinator) -> None:
    stable.call(join("a"), joined(1, "a", ("a", "b")))


def gives_another_assignment(stable: Coordinator) -> None:
    stable.call(Sync(who("b")), Synced(E.NONE, b"a"))


def never_answers(stable: Coordinator) -> None:
    stable.ask(join("a"))
    stable.wait(2 * REBALANCE_MS + 2_001)


@pytest.mark.parametrize(
    ("wrong", "invariant"),
    [
        (refuses_member, MEMBER),
        (refuses_commit, MEMBER),
        (expires_early, MEMBER),
        (forgets_heartbeat, MEMBER),
        (accepts_former_generation, FORMER),
        (accepts_commit_of_former_generation, FORMER),
        (accepts_commit_before_assignment, FORMER),
        (accepts_expired, FORMER),
        (accepts_who_left, FORMER),
        (lets_leave_twice, FORMER),
        (hides_rebalance, REBALANCE),
        (goes_back, GENERATION),
        (has_two_leaders, GENERATION),
        (has_two_protocols, GENERATION),
        (names_another_member, JOINED),
        (keeps_absent_member, JOINED),
        (leaves_leader_out, JOINED),
        (tells_members_to_follower, JOINED),
        (ignores_join_of_leader, LEADER),
        (gives_another_assignment, ASSIGNMENT),
        (never_answers, IN_TIME),
    ],
)
def test_wrong_reply_violates(wrong: Callable[[Coordinator], None], invariant: str) -> None:
    with pytest.raises(Violation) as raised:
        wrong(of_stable_group())
    assert raised.value.invariant == invariant
