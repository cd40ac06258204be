"""Requests to a leader of ZooKeeper: their forwarding, the recognition of their replies, and the loss of a link."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field

from zab.core.errors import OutcomeUnknown, Overloaded, Refused, Stopped
from zab.core.zxid import Epoch, ServerId, Zxid, make
from zab.service.forwarding.leadership import Leadership, LearnerLink
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.zookeeper_forwarder import ZookeeperForwarder
from zab.service.limits import Limits
from zab.service.tree_digests import TreeDigestCheck
from zab.store import transactions
from zab.store.acl import encode_identities
from zab.store.operations import Op
from zab.store.request_format import FOREIGN, INTERNAL, pack_body, pack_request
from zab.wire.apache.packet_bodies import (
    LearnerRequest,
    RevalidateReply,
    RevalidateRequest,
    SessionTouches,
    TreeDigests,
)
from zab.wire.apache.proposals import NO_TAG

SESSION, OTHER = 0x100, 0x200
AT = make(1, 1)


@define(eq=False)
class FakeLink:
    """A link that records its messages. Their bytes are their places in `said`."""

    peer: ServerId = ServerId(1)
    dialled: bool = True
    over: bool = False
    said: list[Any] = field(factory=list)

    def send(self, frame: bytes) -> None:
        assert frame == b"%d" % len(self.said)

    def cut(self, why: str) -> None: ...

    def take(self) -> list[Any]:
        said, self.said = self.said, []
        return said


def encode(link: LearnerLink, message: object) -> bytes:
    assert isinstance(link, FakeLink)
    link.said.append(message)
    return b"%d" % len(link.said)


class Tree:
    def __init__(self) -> None:
        self.digest = 0
        self.different: list[tuple[int, int, int]] = []

    def tree_digest(self) -> int:
        return self.digest

    def tree_differs(self, zxid: int, leaders: int, ours: int) -> None:
        self.different.append((zxid, leaders, ours))


class World:
    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008
        self.pending = PendingSubmissions(bytes(8), 100, 10_000)
        self.tree = Tree()
        self.received = Zxid(0)
        digests = TreeDigestCheck(self.tree)
        self.it = ZookeeperForwarder(ServerId(4), self.pending, limits, encode, self, digests, lambda: self.received)
        self.ends: list[object] = []
        self.attached: list[tuple[int, int, int]] = []
        self.link = FakeLink()

    def attach_session(self, session: int, server: ServerId, epoch: Epoch) -> bool:
        self.attached.append((session, server, epoch))
        return session == SESSION

    def done(self, result: object, error: Exception | None) -> None:
        self.ends.append(result if error is None else type(error))

    def lead(self, epoch: int = 1) -> FakeLink:
        self.link = FakeLink()
        self.it.begin(Leadership(Epoch(epoch), self.link), AT)
        self.pending.reached(Zxid(0))
        return self.link

    def submit(self, *requests: bytes) -> list[Any]:
        """Submit requests, and return what reaches the leader."""
        for request in requests:
            self.pending.submit(request, self.done)
        self.forward()
        return self.link.take()

    def forward(self) -> None:
        self.it.forward(self.link, AT)

    def apply(self, session: int, cxid: int, result: object = "result", zxid: int = AT) -> None:
        self.it.applied(Zxid(zxid), NO_TAG + transactions.error(session, cxid, 0, -101), result)


def write(session: int, cxid: int, body: bytes = b"body") -> bytes:
    return pack_request(Op.SET_DATA, body, session, cxid, 4, encode_identities([("ip", "10.0.0.1")]), FOREIGN)


def test_request_names_session_and_number_and_keeps_its_body_and_identities() -> None:
    world = World()
    world.lead()
    assert world.submit(write(SESSION, 3)) == [LearnerRequest(SESSION, 3, Op.SET_DATA, b"body", (("ip", "10.0.0.1"),))]


def test_request_waits_for_a_leader_only_and_not_for_its_log() -> None:
    world = World()
    world.pending.submit(write(SESSION, 1), world.done)
    assert not world.pending.wants_to_send
    world.lead()
    assert world.pending.wants_to_send


def test_session_is_created_and_closed_in_the_format_of_zookeeper() -> None:
    world = World()
    world.lead()
    sent = world.submit(
        pack_request(Op.CREATE_SESSION, pack_body((6_000,)), SESSION, flags=INTERNAL),
        pack_request(Op.CLOSE_SESSION, pack_body(()), SESSION, flags=INTERNAL),
    )
    assert sent == [
        LearnerRequest(SESSION, 0, Op.CREATE_SESSION, (6_000).to_bytes(4, "big")),
        LearnerRequest(SESSION, 0, Op.CLOSE_SESSION, b""),
    ]


def test_request_without_an_equal_in_zookeeper_is_refused() -> None:
    world = World()
    world.lead()
    assert world.submit(pack_request(Op.SET_SECRET, pack_body((b"s",)), flags=INTERNAL)) == []
    assert world.ends == [Refused]


def test_transactions_answer_the_requests_of_their_session_in_order() -> None:
    world = World()
    world.lead()
    world.submit(write(SESSION, 1), write(OTHER, 1), write(SESSION, 2))
    world.apply(OTHER, 1, "other")
    world.apply(SESSION, 1, "first")
    world.apply(SESSION, 2, "second")
    assert world.ends == ["other", "first", "second"]


@pytest.mark.parametrize(("session", "cxid"), [(SESSION, 2), (0x300, 1)])
def test_transaction_of_another_request_answers_none(session: int, cxid: int) -> None:
    world = World()
    world.lead()
    world.submit(write(SESSION, 1))
    world.apply(session, cxid)
    assert world.ends == []


def test_request_without_a_reply_is_not_sent_again_on_the_next_link() -> None:
    """The leader may still carry it out: it prepares the requests of a broken link."""
    world = World()
    world.lead()
    world.submit(write(SESSION, 1))
    world.it.end()
    assert world.ends == [OutcomeUnknown]
    world.lead()
    world.forward()
    assert world.link.said == []
    world.apply(SESSION, 1)
    assert world.ends == [OutcomeUnknown]


def test_request_that_was_not_sent_waits_for_the_next_leader() -> None:
    world = World()
    world.lead()
    world.it.end()
    world.pending.submit(write(SESSION, 1), world.done)
    world.lead(2)
    world.forward()
    assert [message.cxid for message in world.link.said] == [1]
    assert world.ends == []


def test_revalidation_is_answered_for_its_session() -> None:
    world = World()
    link = world.lead()
    world.it.revalidate(SESSION, 6_000, world.done)
    world.it.revalidate(OTHER, 7_000, world.done)
    assert link.take() == [RevalidateRequest(SESSION, 6_000), RevalidateRequest(OTHER, 7_000)]
    handle = world.it.handlers[RevalidateReply]
    handle(link, RevalidateReply(OTHER, False))
    handle(link, RevalidateReply(SESSION, True))
    handle(link, RevalidateReply(SESSION, True))  # not asked for
    assert world.ends == [False, True]


def test_revalidation_waits_for_a_leader_and_is_lost_with_its_link() -> None:
    world = World()
    world.it.revalidate(SESSION, 6_000, world.done)
    link = world.lead()
    assert link.take() == [RevalidateRequest(SESSION, 6_000)]
    world.it.end()
    assert world.ends == [OutcomeUnknown]
    world.it.handlers[RevalidateReply](link, RevalidateReply(SESSION, True))
    assert world.ends == [OutcomeUnknown]


def test_revalidation_of_a_client_that_is_gone_is_not_sent() -> None:
    world = World()
    done = world.done
    world.it.revalidate(SESSION, 6_000, done)
    world.it.forget(done)
    assert world.lead().said == []


def test_revalidations_without_an_answer_are_bounded() -> None:
    world = World(Limits(submits_max=2))
    world.it.revalidate(1, 6_000, world.done)
    link = world.lead()
    world.it.revalidate(2, 6_000, world.done)
    world.it.revalidate(3, 6_000, world.done)
    assert world.ends == [Overloaded]
    world.it.handlers[RevalidateReply](link, RevalidateReply(1, True))
    world.it.revalidate(4, 6_000, world.done)
    assert [message.session for message in link.said] == [1, 2, 4]


def test_end_of_the_member_ends_revalidations() -> None:
    world = World()
    world.it.revalidate(SESSION, 6_000, world.done)
    world.lead()
    world.it.revalidate(OTHER, 6_000, world.done)
    world.it.stop(Stopped("over"))
    assert world.ends == [Stopped, Stopped]


def test_touches_go_to_the_leader_or_are_lost() -> None:
    world = World()
    world.it.touch([(SESSION, 6_000)])
    link = world.lead()
    world.it.touch([(OTHER, 6_000)])
    assert link.take() == [SessionTouches(((OTHER, 6_000),))]


def test_difference_from_the_leaders_tree_is_recorded() -> None:
    world = World()
    link = world.lead()
    expect = world.it.handlers[TreeDigests]
    expect(link, TreeDigests(((make(1, 1), 2, 10), (make(1, 2), 2, 20), (make(1, 3), 1, 30))))
    world.tree.digest = 10
    for counter in (1, 2, 3):
        world.apply(SESSION, 1, zxid=make(1, counter))
    assert world.tree.different == [(make(1, 2), 20, 10)]


def test_difference_after_a_snapshot_counts_only_once_the_trees_were_equal() -> None:
    world = World()
    link = world.lead()
    world.it.restored()
    expect = world.it.handlers[TreeDigests]
    expect(link, TreeDigests(tuple((make(1, counter), 2, counter) for counter in range(1, 5))))
    for counter, ours in ((1, 2), (2, 2), (3, 3), (4, 5)):
        world.tree.digest = ours
        world.apply(SESSION, 1, zxid=make(1, counter))
    assert world.tree.different == [(make(1, 4), 4, 5)]


def test_transaction_from_before_the_request_is_not_its_answer() -> None:
    """A client that came from another server counts from 1 again. Its request of then is received, but not applied."""
    world = World()
    world.lead()
    world.received = Zxid(AT + 1)
    world.submit(write(SESSION, 1))
    world.apply(SESSION, 1, "of the earlier server", AT + 1)
    assert world.ends == []
    world.apply(SESSION, 1, "of this request", AT + 2)
    assert world.ends == ["of this request"]
