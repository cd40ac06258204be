"""Stints: which way requests go, and when they may. A node and links that only remember."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from zab.core.ensemble import Ensemble, Server
from zab.core.errors import ChangeLost, OutcomeUnknown, Overloaded, Refused, Stopped, WrongVersion, ZabError
from zab.core.messages import State
from zab.core.node import Node
from zab.core.zxid import Epoch, Millis, ServerId, Zxid, make
from zab.host.logs import Log
from zab.runtime.link import Link
from zab.service.forwarding.pending_submissions import PendingSubmissions, tagged
from zab.service.forwarding.request_path import RequestPath
from zab.service.limits import Limits
from zab.service.replicated_machine import Passive, View
from zab.wire.frames import FrameReader
from zab.wire.peer import Channel, decode, encode
from zab.wire.relay_messages import (
    CatchUpPoint,
    CatchUpRequest,
    Forward,
    LeaderMessage,
    MemberMessage,
    ReconfigureReply,
    ReconfigureRequest,
    Refusals,
)

TAG = b"8 bytes."
ENSEMBLE = Ensemble(tuple(Server(ServerId(sid), "localhost", 2000 + sid, 3000 + sid) for sid in (1, 2, 3)), make(1, 0))


class FakeNode:
    def __init__(self) -> None:
        self.state = State.LOOKING
        self.leader: ServerId | None = None
        self.serving = False
        self.serving_role: object = None
        self.epoch = Epoch(1)
        self.last = self.applied = make(1, 5)
        self.ensemble = ENSEMBLE
        self.synced: tuple[ServerId, ...] = ()
        self.barriers: list[int] = []
        self.batches: list[list[bytes]] = []
        self.changes: list[Ensemble] = []
        self.refuse_change: ZabError | None = None
        self.full = False

    @property
    def committed(self) -> Zxid:
        return self.last

    def status(self) -> tuple[Zxid, State, Epoch, ServerId | None, bool]:
        return self.committed, self.state, self.epoch, self.leader, self.serving

    def lead(self, epoch: int) -> None:
        self.state, self.leader, self.serving, self.epoch = State.LEADING, ServerId(1), True, Epoch(epoch)
        self.serving_role = object()

    def follow(self, leader: int, epoch: int) -> None:
        self.state, self.leader, self.serving, self.epoch = State.FOLLOWING, ServerId(leader), True, Epoch(epoch)
        self.serving_role = object()

    def look(self) -> None:
        self.state, self.leader, self.serving = State.LOOKING, None, False
        self.serving_role = None

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        if self.full:
            raise Overloaded("full")
        self.batches.append(list(payloads))
        first = Zxid(self.last + 1) if self.last >> 32 == self.epoch else make(self.epoch, 1)
        self.last = Zxid(first + len(payloads) - 1)
        return first

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis) -> Zxid:
        if self.refuse_change is not None:
            raise self.refuse_change
        self.changes.append(ensemble)
        return make(self.epoch, 77)

    def barrier(self, token: int, now: Millis) -> None:
        self.barriers.append(token)


class FakeLink(Link):
    """A link that records its messages, decoded."""

    def __init__(self, peer: int, dialled: bool) -> None:
        super().__init__(ServerId(peer), dialled, Limits())
        self.said: list[Any] = []

    def send(self, frame: bytes) -> None:
        channel = Channel.TO_LEADER if self.dialled else Channel.TO_LEARNER
        self.said += [decode(channel, payload) for payload in FrameReader(1 << 20).feed(frame)]

    def take(self) -> list[Any]:
        said, self.said = self.said, []
        return said


LOG = Log(ServerId(1), lambda: Epoch(1))


class FakeLinks:
    def __init__(self) -> None:
        self.dialled: dict[ServerId, Link] = {}
        self.accepted: dict[ServerId, Link] = {}


class Machine(Passive):
    def prepare(self, request: bytes, view: View) -> bytes:
        if request.startswith(b"no"):
            raise Refused("no")
        return request

    def apply(self, zxid: Zxid, txn: bytes) -> object:
        raise AssertionError("applying is the driver's")

    def snapshot(self) -> list[bytes]:
        return []

    def restore(self, chunks: object) -> None:
        pass


def fail(body: bytes) -> None:
    raise AssertionError("no message is expected")


class World:
    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008
        self.node = FakeNode()
        self.links = FakeLinks()
        self.pending = PendingSubmissions(TAG, 100, 10_000)
        self.requests = RequestPath(
            cast(Node, self.node),
            Machine(),
            self.pending,
            self.links,
            limits,
            LOG,
            lambda: 0,
            on_leader_message=lambda body: self.on_leader_message(body),
            on_member_message=lambda body: self.on_member_message(body),
        )
        self.on_leader_message: Callable[[bytes], None] = fail
        self.on_member_message: Callable[[bytes], None] = fail
        self.ends: dict[bytes, object] = {}

    def receive(self, link: Link, message: Any) -> None:
        self.requests.handlers[type(message)](link, message, 0)

    def submit(self, request: bytes) -> None:
        def done(result: object, error: Exception | None) -> None:
            assert request not in self.ends
            self.ends[request] = type(error) if error is not None else result

        self.pending.submit(request, done)

    def dial(self, peer: int) -> FakeLink:
        link = FakeLink(peer, dialled=True)
        self.links.dialled[ServerId(peer)] = link
        return link

    def turn(self) -> None:
        self.requests.turn(0)

    def apply(self, zxid: Zxid, *mine: int) -> None:
        """The node hands out up to `zxid`, and the machine applies it; `mine` are the numbers of this member's own."""
        self.node.applied = zxid
        for number in mine:
            self.pending.applied(number, "done")
        self.requests.reached(zxid)


def forwarded(said: list[Any]) -> list[bytes]:
    return [request for message in said if isinstance(message, Forward) for request in message.requests]


# -- at a learner -------------------------------------------------------------------------------------------


def test_a_learner_asks_for_the_fence_first_and_forwards_when_it_is_applied() -> None:
    world = World()
    world.submit(b"a")
    world.turn()
    world.node.follow(3, epoch=1)
    link = world.dial(3)
    world.turn()
    world.turn()
    (question,) = link.take()
    assert isinstance(question, CatchUpRequest)
    world.receive(link, CatchUpPoint(question.number, make(1, 6)))
    world.turn()
    assert link.take() == []
    world.apply(make(1, 6))
    world.submit(b"b")
    world.turn()
    assert link.take() == [Forward(Epoch(1), TAG, 1, (b"a", b"b"))]


def test_requests_travel_in_frames_that_are_not_too_large() -> None:
    """The leader would cut the link for one, and be brought the same again on the next."""
    world = World(Limits(frame_bytes_max=64 + 100))
    world.node.follow(3, epoch=1)
    link = world.dial(3)
    world.turn()
    world.receive(link, CatchUpPoint(1, make(1, 5)))
    link.take()
    requests = [b"a" * 45, b"b" * 45, b"c", b"d" * 96, b"e" * 95, b"f"]
    for request in requests:
        world.submit(request)
    world.turn()
    said = link.take()
    assert said == [
        Forward(Epoch(1), TAG, 1, (requests[0], requests[1])),
        Forward(Epoch(1), TAG, 3, (requests[2],)),
        Forward(Epoch(1), TAG, 5, (requests[4],)),
        Forward(Epoch(1), TAG, 6, (requests[5],)),
    ]
    assert all(len(encode(message)) <= 4 + 64 + 100 for message in said)
    assert world.ends == {requests[3]: Refused}


def test_transactions_count_as_applied_only_after_the_machine() -> None:
    """The node releases a transaction of this member in the turn in which it begins to serve.

    The node counts it as applied, but its request is known only after the machine has applied it.
    """
    world = World()
    world.node.follow(3, epoch=1)
    link = world.dial(3)
    world.turn()
    world.receive(link, CatchUpPoint(link.take()[0].number, make(1, 5)))
    world.submit(b"a")
    world.turn()
    assert forwarded(link.take()) == [b"a"]
    # The link bounces. `a` was proposed, and comes back by the new link; the node is through with it at once.
    world.node.look()
    world.turn()
    world.node.follow(3, epoch=1)
    again = world.dial(3)
    world.node.applied = make(1, 6)
    world.turn()
    for message in again.take():
        world.receive(again, CatchUpPoint(message.number, make(1, 6)))
    world.turn()
    assert forwarded(again.take()) == []
    world.apply(make(1, 6), 1)
    world.turn()
    for message in again.take():
        world.receive(again, CatchUpPoint(message.number, make(1, 6)))
    world.turn()
    assert forwarded(again.take()) == [], "it was carried out already"
    assert world.ends == {b"a": "done"}


def test_a_new_link_to_the_same_leader_is_a_new_stint() -> None:
    world = World()
    world.node.follow(3, epoch=1)
    first = world.dial(3)
    world.turn()
    second = world.dial(3)
    world.turn()
    assert [type(message) for message in second.take()] == [CatchUpRequest]
    world.submit(b"a")
    world.receive(first, CatchUpPoint(1, make(1, 5)))
    world.turn()
    assert forwarded(second.take()) == [], "the old link's answer says nothing about the new one"


def test_a_refusal_from_the_leader_answers_and_one_from_a_lost_leader_does_not() -> None:
    world = World()
    world.node.follow(3, epoch=1)
    link = world.dial(3)
    world.turn()
    world.receive(link, CatchUpPoint(1, make(1, 5)))
    world.submit(b"no")
    world.turn()
    world.receive(FakeLink(3, True), Refusals(Epoch(1), make(1, 5), ((1, "from elsewhere"),)))
    world.receive(link, Refusals(Epoch(0), make(1, 5), ((1, "from another time"),)))
    assert world.ends == {}
    world.receive(link, Refusals(Epoch(1), make(1, 5), ((1, "no"),)))
    assert world.ends == {b"no": Refused}


# -- at the leader ------------------------------------------------------------------------------------------


def led(epoch: int = 2) -> World:
    world = World()
    world.node.lead(epoch)
    world.turn()
    return world


def test_a_leader_proposes_its_own_requests_and_those_of_others() -> None:
    world = led()
    link = FakeLink(2, dialled=False)
    world.receive(link, Forward(Epoch(2), b"another.", 7, (b"theirs",)))
    world.submit(b"mine")
    world.turn()
    assert world.node.batches == [[tagged(b"another.", 7, b"theirs"), tagged(TAG, 1, b"mine")]]


def test_leader_drops_requests_for_another_epoch() -> None:
    world = led(epoch=2)
    world.receive(FakeLink(2, False), Forward(Epoch(1), b"another.", 7, (b"theirs",)))
    world.turn()
    assert world.node.batches == []


def test_deposed_leader_drops_requests() -> None:
    world = led()
    world.node.look()
    world.turn()
    world.receive(FakeLink(2, False), Forward(Epoch(2), b"another.", 7, (b"theirs",)))
    world.node.lead(2)
    world.turn()
    assert world.node.batches == []


def test_a_leaders_own_requests_survive_its_fall_and_are_asked_once() -> None:
    world = led()
    world.submit(b"a")
    world.submit(b"b")
    world.turn()
    world.node.look()
    world.turn()
    world.node.follow(3, epoch=3)
    link = world.dial(3)
    world.turn()
    world.receive(link, CatchUpPoint(link.take()[0].number, make(2, 1)))
    world.apply(make(2, 1), 1)  # the first of them is in the new leader's history
    world.turn()
    assert forwarded(link.take()) == [b"b"]


def test_catch_up_point_covers_prepared_requests_without_zxid() -> None:
    world = led()
    link = FakeLink(2, dialled=False)
    world.node.full = True
    world.receive(link, Forward(Epoch(2), b"another.", 1, (b"a",)))
    world.turn()
    world.requests.on_link_down(link)  # too late for `a`: it is prepared
    again = FakeLink(2, dialled=False)
    world.receive(again, CatchUpRequest(5))
    world.turn()
    assert again.take() == []
    world.node.full = False
    world.turn()
    assert again.take() == [CatchUpPoint(5, make(2, 1))]
    assert world.node.batches == [[tagged(b"another.", 1, b"a")]]


def test_queued_requests_of_a_lost_link_are_dropped_and_covered_by_no_catch_up_point() -> None:
    world = World()
    world.node.lead(2)
    world.node.serving = False  # broadcasting, but its own disk is slow
    link = FakeLink(2, dialled=False)
    world.receive(link, Forward(Epoch(2), b"another.", 1, (b"a",)))
    world.turn()
    world.requests.on_link_down(link)
    again = FakeLink(2, dialled=False)
    world.receive(again, CatchUpRequest(5))
    world.node.serving = True
    world.turn()
    assert world.node.batches == []
    assert again.take() == [CatchUpPoint(5, world.node.last)]


def test_refusals_travel_in_frames_that_are_not_too_large() -> None:
    world = World(Limits(frame_bytes_max=64 + 2 * 8016))
    world.node.lead(2)
    world.turn()
    link = FakeLink(2, dialled=False)
    world.receive(link, Forward(Epoch(2), b"another.", 1, (b"no",) * 5))
    world.turn()
    world.requests.on_barrier(world.node.barriers[-1], make(2, 0))
    said = link.take()
    assert [[number for number, _ in message.refused] for message in said] == [[1, 2], [3, 4], [5]]


def test_a_refusal_is_spoken_when_a_barrier_has_shown_that_the_leader_still_leads() -> None:
    world = led()
    link = FakeLink(2, dialled=False)
    world.receive(link, Forward(Epoch(2), b"another.", 1, (b"a", b"no")))
    world.submit(b"no, too")
    world.turn()
    assert link.take() == []
    (token,) = world.node.barriers
    world.requests.on_barrier(token, make(2, 0))
    assert link.take() == [Refusals(Epoch(2), make(2, 1), ((2, "no"),))]
    assert world.ends == {}, "what it depends on is not applied here yet"
    world.apply(make(2, 1))
    assert world.ends == {b"no, too": Refused}


def test_a_refusal_of_a_deposed_leader_is_not_spoken() -> None:
    world = led()
    world.submit(b"no")
    world.turn()
    (token,) = world.node.barriers
    world.requests.on_barrier(token, None)
    assert world.ends == {}
    world.node.look()
    world.turn()
    world.node.lead(3)
    world.turn()
    assert len(world.node.barriers) == 2, "asked again in the next leadership"


# -- barriers -----------------------------------------------------------------------------------------------


def test_one_barrier_serves_all_waiters_and_is_repeated_until_it_holds() -> None:
    world = World()
    answers: list[object] = []
    for name in "abc":
        world.requests.barriers.add(lambda result, error, name=name: answers.append(error or name))  # type: ignore[misc]
    world.turn()
    world.requests.ask_barrier(0)
    assert world.node.barriers == [], "nobody to ask"
    world.node.lead(2)
    world.turn()
    world.requests.ask_barrier(0)
    (first,) = world.node.barriers
    world.requests.on_barrier(first, None)
    world.requests.ask_barrier(0)
    second = world.node.barriers[-1]
    assert answers == []
    world.requests.on_barrier(second, make(2, 0))
    assert answers == ["a", "b", "c"]
    world.requests.ask_barrier(0)
    assert len(world.node.barriers) == 2


def test_an_aside_goes_ahead_of_a_barrier_to_each_leader_that_is_asked() -> None:
    """A barrier reply proves that its leader has received the message before it, such as a sign of life."""
    world = World()
    answers: list[object] = []
    for word in (b"alive", b"alive", b""):
        world.requests.barriers.add(lambda result, error: answers.append(error), word)
    world.turn()
    world.requests.ask_barrier(0)
    for leader, zxid in ((3, None), (2, make(2, 0))):
        world.node.follow(leader, epoch=leader)
        link = world.dial(leader)
        world.turn()
        link.take()
        assert len(answers) == 0
        world.requests.ask_barrier(0)
        assert link.take() == [LeaderMessage(b"alive")]
        world.requests.on_barrier(world.node.barriers[-1], zxid)
    assert answers == [None] * 3


def test_forgotten_barrier_is_not_answered() -> None:
    world = led()
    answers: list[str] = []

    def one(result: object, error: Exception | None) -> None:
        answers.append("one")

    def two(result: object, error: Exception | None) -> None:
        answers.append("two")

    world.requests.barriers.add(one)
    world.requests.barriers.add(two)
    world.requests.ask_barrier(0)
    world.requests.barriers.forget(one)
    world.requests.on_barrier(world.node.barriers[0], make(2, 0))
    assert answers == ["two"]


# -- changes of membership ----------------------------------------------------------------------------------


class Change:
    def __init__(self, world: World, request: ReconfigureRequest) -> None:
        self.outcome: list[Exception | None] = []
        world.requests.changes.add(request, self.outcome.append)


def test_a_change_at_the_leader() -> None:
    world = led()
    change = Change(world, ReconfigureRequest(0, leaving=(ServerId(3),)))
    world.turn()
    assert [ensemble.voters for ensemble in world.node.changes] == [(1, 2)]
    assert change.outcome == []
    world.requests.changes.activated(make(2, 76))
    assert change.outcome == []
    world.requests.changes.activated(make(2, 77))
    assert change.outcome == [None]


def test_a_change_through_a_follower() -> None:
    world = World()
    change = Change(world, ReconfigureRequest(0, leaving=(ServerId(3),), expect=make(1, 0)))
    world.node.follow(3, epoch=2)
    link = world.dial(3)
    world.turn()
    (request,) = [message for message in link.take() if isinstance(message, ReconfigureRequest)]
    assert (request.leaving, request.expect) == ((3,), make(1, 0))
    world.receive(link, ReconfigureReply(request.number, make(2, 9)))
    world.requests.changes.activated(make(2, 9))
    assert change.outcome == [None]


@pytest.mark.parametrize("where", ["here", "there"])
def test_an_error_keeps_its_kind(where: str) -> None:
    world = led()
    world.node.refuse_change = WrongVersion("it is at another")
    if where == "here":
        change = Change(world, ReconfigureRequest(0, leaving=(ServerId(3),)))
        world.turn()
        (error,) = change.outcome
        assert isinstance(error, WrongVersion)
    else:
        link = FakeLink(2, dialled=False)
        world.receive(link, ReconfigureRequest(4, leaving=(ServerId(3),)))
        assert link.take() == [ReconfigureReply(4, None, "WrongVersion", "it is at another")]


@pytest.mark.parametrize(
    "request_",
    [
        ReconfigureRequest(4, leaving=(ServerId(9),)),
        ReconfigureRequest(4, joining=("server.4=nonsense",)),
        ReconfigureRequest(4, members="nonsense"),
        ReconfigureRequest(4, joining=("server.4=a:1:2",), members=ENSEMBLE.text()),
    ],
)
def test_invalid_membership_change_raises_at_its_caller(request_: ReconfigureRequest) -> None:
    world = led()
    link = FakeLink(2, dialled=False)
    world.receive(link, request_)
    (reply,) = link.take()
    assert (reply.zxid, reply.error) == (None, "ConfigError")
    assert world.node.changes == []


def test_membership_change_of_a_lost_leader_is_lost_or_unknown() -> None:
    world = led()
    proposed = Change(world, ReconfigureRequest(0, leaving=(ServerId(3),)))
    world.turn()
    world.node.follow(3, epoch=3)
    link = world.dial(3)
    unanswered = Change(world, ReconfigureRequest(0, leaving=(ServerId(2),)))
    world.turn()
    world.node.look()
    world.turn()
    assert [type(each) for each in unanswered.outcome] == [OutcomeUnknown]
    assert proposed.outcome == [], "it may have survived"
    world.node.follow(2, epoch=4)
    link = world.dial(2)
    world.turn()
    world.receive(link, CatchUpPoint(link.take()[-1].number, make(1, 5)))
    assert [type(each) for each in proposed.outcome] == [ChangeLost]


def test_membership_change_waits_for_prepared_requests() -> None:
    world = led()
    world.node.full = True
    world.submit(b"a")
    world.turn()
    change = Change(world, ReconfigureRequest(0, leaving=(ServerId(3),)))
    world.turn()
    assert [type(each) for each in change.outcome] == [Overloaded]


def test_too_many_changes_are_refused() -> None:
    world = World()
    for _ in range(64):
        Change(world, ReconfigureRequest(0, leaving=(ServerId(3),)))
    with pytest.raises(Overloaded):
        Change(world, ReconfigureRequest(0, leaving=(ServerId(3),)))


def test_open_changes_and_barriers_fail_at_the_end() -> None:
    world = led()
    asked, waiting = Change(world, ReconfigureRequest(0, leaving=(ServerId(3),))), []
    world.turn()
    later = Change(world, ReconfigureRequest(0, leaving=(ServerId(3),)))
    world.requests.barriers.add(lambda result, error: waiting.append(error))
    world.requests.stop(Stopped("over"))
    assert [type(error) for error in (*asked.outcome, *later.outcome, *waiting)] == [Stopped] * 3


def test_a_snapshot_in_the_place_of_history_leaves_a_change_unknown() -> None:
    world = led()
    change = Change(world, ReconfigureRequest(0, leaving=(ServerId(3),)))
    world.turn()
    world.requests.changes.jumped(make(2, 76))
    assert change.outcome == []
    world.requests.changes.jumped(make(2, 77))
    assert [type(each) for each in change.outcome] == [OutcomeUnknown]


# -- the side channel -------------------------------------------------------------------------------------------------


def test_leader_message_goes_to_the_current_leader_or_is_lost() -> None:
    world = World()
    heard: list[bytes] = []
    world.on_leader_message = heard.append
    assert not world.requests.side_channel.tell_leader(b"nobody leads")
    world.node.follow(2, epoch=1)
    link = world.dial(2)
    world.turn()
    link.take()
    assert world.requests.side_channel.tell_leader(b"over there")
    assert link.take() == [LeaderMessage(b"over there")]
    world.receive(link, LeaderMessage(b"said to one who follows"))
    assert heard == []
    world.node.lead(2)
    world.turn()
    assert world.requests.side_channel.tell_leader(b"to myself")
    world.receive(FakeLink(3, False), LeaderMessage(b"from afar"))
    assert heard == [b"to myself", b"from afar"]


def test_member_message_goes_from_the_leader_to_synced_members_only() -> None:
    world = World()
    seen: list[bytes] = []
    world.on_member_message = seen.append
    world.node.follow(2, epoch=1)
    leader = world.dial(2)
    world.turn()
    leader.take()
    assert not world.requests.side_channel.tell_members(b"I follow")
    world.receive(leader, MemberMessage(b"from my leader"))
    world.receive(FakeLink(3, True), MemberMessage(b"from a former one"))
    assert seen == [b"from my leader"]
    world.node.lead(2)
    world.turn()
    synced, behind = FakeLink(3, False), FakeLink(4, False)
    world.links.accepted.update({ServerId(3): synced, ServerId(4): behind})
    world.node.synced = (ServerId(1), ServerId(3))
    assert world.requests.side_channel.tell_members(b"to all")
    assert (synced.take(), behind.take()) == ([MemberMessage(b"to all")], [])
