"""A leader's intake of the requests of servers of ZooKeeper, with the real queue and the real store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest

from tests.unit.service.test_zookeeper_forwarder import FakeLink, encode
from zab.core.batch import change_payload, pack
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, NewConfigNoQuorum, ReconfigInProgress
from zab.core.messages import State
from zab.core.node import Node
from zab.core.zxid import Epoch, Millis, ServerId, Zxid, make
from zab.host.logs import Log
from zab.service.forwarding.leadership import Leadership
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.proposal_queue import ProposalQueue
from zab.service.forwarding.zookeeper_forwarder import ZookeeperForwarder
from zab.service.forwarding.zookeeper_intake import ZookeeperIntake, ZookeeperSeal
from zab.service.limits import Limits
from zab.store import transactions
from zab.store.acl import OPEN, Access
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.paths import CONFIG
from zab.store.request_format import FOREIGN, INTERNAL, pack_body, pack_request
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.store.znode import DATA, MTIME
from zab.wire.apache.packet_bodies import LearnerRequest, RevalidateReply, RevalidateRequest, SessionTouches
from zab.wire.apache.proposals import NO_TAG, ProposalEncoder
from zab.wire.client.requests import SHAPES, decode_fields
from zab.wire.disk_txn import decode_txn
from zab.wire.relay_messages import TAG_BYTES

ME = ServerId(3)
SESSION = 0x100
EPOCH = Epoch(2)


def changed(fields: Fields, zxid: int) -> bytes:
    joining, *_ = fields
    return f"{joining}\nversion={zxid:x}".encode()


class Leader:
    """A leader whose proposals are committed and applied at once."""

    def __init__(self) -> None:
        self.store = Store(
            StoreSettings(checkpoints=False, access=Access(skip=True)), lambda *_: None, decode_fields, changed
        )
        self.store.adopt_sessions()
        self.state = State.LEADING
        self.epoch = EPOCH
        self.last = self.committed = make(1, 9)
        pending = PendingSubmissions(b"originME", 100, 10_000)
        self.path = ZookeeperForwarder(ME, pending, Limits(), encode, self.store, None, lambda: Zxid(0))
        log = Log(ME, lambda: EPOCH)
        self.encoder = ProposalEncoder()
        seal = ZookeeperSeal(self.encoder, self.store)
        self.queue = ProposalQueue(self.store, Limits(submits_max=10), log, seal=seal)
        self.queue.open(EPOCH)
        self.pending = pending
        self.touched: list[tuple[int, int]] = []
        self.changes: list[Ensemble] = []
        """The memberships that were proposed."""
        self.refuses: ConfigError | None = None
        """The error of a change of the membership."""
        self.intake = ZookeeperIntake(cast(Node, self), self.queue, self.path, self.touch)
        self.path.begin(Leadership(EPOCH, None), self.last)
        self.pending.reached(self.last)
        self.applied: list[tuple[transactions.Transaction, Any]] = []

    def touch(self, sessions: Iterable[tuple[int, int]]) -> None:
        self.touched += sessions

    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid:
        first = Zxid(self.last + 1) if self.last >> 32 == EPOCH else make(EPOCH, 1)
        proposals = self.encoder.encode(pack(first, payloads))
        for (zxid, data), payload in zip(proposals, payloads, strict=True):
            assert payload.startswith(NO_TAG)
            result = self.store.apply(zxid, payload[TAG_BYTES:])
            assert decode_txn(data).digest == (2, self.store.tree_digest())
            self.applied.append((transactions.decode(payload[TAG_BYTES:]), result))
            self.path.applied(Zxid(zxid), payload, result)
        self.last = self.committed = Zxid(first + len(payloads) - 1)
        return first

    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis, attached: bytes = b"") -> Zxid:
        if self.refuses is not None:
            raise self.refuses
        zxid = Zxid(self.last + 1)
        self.changes.append(ensemble)
        ((_, data),) = self.encoder.encode(pack(zxid, [change_payload(ensemble.text(), attached)], config=True))
        result = self.store.apply(zxid, attached[TAG_BYTES:])
        self.applied.append((transactions.decode(attached[TAG_BYTES:]), result))
        assert decode_txn(data).digest == (2, self.store.tree_digest())
        self.last = self.committed = zxid
        return zxid

    def hear(self, link: FakeLink, message: object) -> None:
        self.intake.handlers[type(message)](link, message)

    def turn(self) -> list[tuple[transactions.Transaction, Any]]:
        """Propose, and return the transactions with their results."""
        self.queue.begin(0.0)
        self.queue.turn(self, 0, 5_000)
        applied, self.applied = self.applied, []
        return applied

    def open_session(self, link: FakeLink, session: int = SESSION) -> None:
        self.hear(link, LearnerRequest(session, 0, Op.CREATE_SESSION, (6_000).to_bytes(4, "big")))
        assert [txn.op for txn, _ in self.turn()] == [Op.CREATE_SESSION]


def create(path: str, cxid: int = 1, session: int = SESSION) -> LearnerRequest:
    return LearnerRequest(session, cxid, Op.CREATE, SHAPES[Op.CREATE].encode((path, b"data", OPEN, 0)))


def learner(sid: int = 1) -> FakeLink:
    return FakeLink(ServerId(sid), dialled=False)


def test_requests_of_a_learner_become_canonical_transactions() -> None:
    leader, link = Leader(), learner()
    leader.open_session(link)
    assert leader.store.sessions.table == {SESSION: (6_000, 0)}
    leader.hear(link, create("/a"))
    ((txn, result),) = leader.turn()
    assert (txn.op, txn.session, txn.cxid, txn.body[0], result[1]) == (Op.CREATE, SESSION, 1, "/a", 0)
    leader.hear(link, LearnerRequest(SESSION, 2, Op.CLOSE_SESSION, b""))
    leader.turn()
    assert leader.store.sessions.table == {}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (create("/none/child"), ErrorCode.NO_NODE),
        (create("/a", session=0x999), ErrorCode.SESSION_EXPIRED),
        (LearnerRequest(SESSION, 1, Op.CREATE, b"garbage"), ErrorCode.MARSHALLING_ERROR),
        (LearnerRequest(SESSION, 1, 4711, b""), ErrorCode.UNIMPLEMENTED),
        (LearnerRequest(SESSION, 1, Op.SET_SECRET, b""), ErrorCode.UNIMPLEMENTED),
        (LearnerRequest(SESSION, 1, Op.ATTACH_SESSION, b""), ErrorCode.UNIMPLEMENTED),
    ],
)
def test_request_that_fails_becomes_a_transaction(request_: LearnerRequest, code: ErrorCode) -> None:
    """A server of ZooKeeper waits for ever for another reply."""
    leader, link = Leader(), learner()
    leader.open_session(link)
    leader.hear(link, request_)
    ((txn, result),) = leader.turn()
    assert (txn.op, txn.cxid, result[1]) == (Op.ERROR, request_.cxid, code)


def reconfig(cxid: int) -> LearnerRequest:
    body = SHAPES[Op.RECONFIG].encode(("server.1=h:1:2:participant;0.0.0.0:3", None, None, -1))
    return LearnerRequest(SESSION, cxid, Op.RECONFIG, body)


def test_change_of_the_membership_keeps_its_place_among_the_requests() -> None:
    leader, link = Leader(), learner()
    leader.open_session(link)
    for request in (create("/a"), reconfig(2), create("/b", 3), reconfig(4)):
        leader.hear(link, request)
    assert leader.queue.busy
    applied = leader.turn()
    assert [(txn.op, txn.cxid) for txn, _ in applied] == [
        (Op.CREATE, 1), (Op.RECONFIG, 2), (Op.CREATE, 3), (Op.RECONFIG, 4)
    ]  # fmt: skip
    assert [result[1] for _, result in applied] == [0, 0, 0, 0]
    assert [change.version for change in leader.changes] == [result[0] for txn, result in applied[1::2]]
    node = leader.store.tree.nodes[CONFIG]
    assert (node[DATA], node[MTIME]) == (leader.changes[-1].text().encode(), 5_000)
    assert not leader.queue.busy


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NewConfigNoQuorum("x"), ErrorCode.NEW_CONFIG_NO_QUORUM),
        (ReconfigInProgress("x"), ErrorCode.RECONFIG_IN_PROGRESS),
        (ConfigError("x"), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_change_that_the_consensus_refuses_becomes_a_transaction(error: ConfigError, code: ErrorCode) -> None:
    leader, link = Leader(), learner()
    leader.open_session(link)
    leader.refuses = error
    leader.hear(link, reconfig(5))
    leader.hear(link, create("/a", 6))
    (refused, _), (created, _) = leader.turn()
    assert (refused.op, refused.session, refused.cxid, refused.body) == (Op.ERROR, SESSION, 5, (code,))
    assert (created.op, created.cxid) == (Op.CREATE, 6)


def test_exception_of_the_store_becomes_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, link = Leader(), learner()
    leader.open_session(link)
    monkeypatch.setattr(leader.queue, "_prepare_at", lambda *_: 1 // 0)
    leader.hear(link, create("/a", 7))
    ((txn, result),) = leader.turn()
    assert (txn.op, txn.session, txn.cxid, result[1]) == (Op.ERROR, SESSION, 7, ErrorCode.SYSTEM_ERROR)


def test_session_is_at_the_server_of_its_last_revalidation() -> None:
    leader, one, two = Leader(), learner(1), learner(2)
    leader.open_session(one)
    leader.hear(two, RevalidateRequest(SESSION, 6_000))
    assert two.take() == [RevalidateReply(SESSION, True)]
    assert leader.touched == [(SESSION, 6_000)]
    leader.hear(one, create("/a"))
    leader.hear(two, create("/a"))
    assert [result[1] for _, result in leader.turn()] == [ErrorCode.SESSION_MOVED, 0]
    leader.hear(one, RevalidateRequest(0x999, 6_000))
    assert one.take() == [RevalidateReply(0x999, False)]


def test_session_of_an_earlier_leader_is_at_the_server_of_its_first_request() -> None:
    leader, one, two = Leader(), learner(1), learner(2)
    leader.store.sessions.table[SESSION] = (6_000, 0)
    leader.hear(two, create("/a"))
    leader.hear(one, create("/b"))
    assert [result[1] for _, result in leader.turn()] == [0, ErrorCode.SESSION_MOVED]


def test_own_requests_are_answered_by_their_transactions() -> None:
    leader = Leader()
    ends: list[Any] = []
    for request in (
        pack_request(Op.CREATE_SESSION, pack_body((6_000,)), SESSION, server=ME, flags=INTERNAL),
        pack_request(Op.CREATE, create("/mine").body, SESSION, 1, ME, flags=FOREIGN),
    ):
        leader.pending.submit(request, lambda result, error: ends.append(result or error))
    leader.path.take_own(leader.queue)
    leader.turn()
    assert [(result[1], result[2]) for result in ends] == [(0, None), (0, "/mine")]
    leader.path.revalidate(SESSION, 6_000, lambda result, error: ends.append(result))
    assert ends[-1] is True


def test_touches_count_at_the_leader_only() -> None:
    leader, link = Leader(), learner()
    leader.hear(link, SessionTouches(((SESSION, 6_000),)))
    leader.state = State.FOLLOWING
    leader.hear(link, SessionTouches(((0x200, 6_000),)))
    leader.hear(link, create("/a"))
    leader.hear(link, RevalidateRequest(SESSION, 6_000))
    assert leader.touched == [(SESSION, 6_000)]
    assert link.take() == [RevalidateReply(SESSION, False)]
    assert not leader.queue.busy


def test_learner_with_too_many_requests_is_cut() -> None:
    leader = Leader()
    cut: list[str] = []

    class Link(FakeLink):
        def cut(self, why: str) -> None:
            cut.append(why)

    link = Link(ServerId(1), dialled=False)
    for number in range(21):
        leader.hear(link, create(f"/{number}"))
    assert len(cut) == 1
