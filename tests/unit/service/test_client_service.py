"""The clients of a server together: readiness, expiry, read-only mode, and what a snapshot changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from attrs import evolve

from zab.core.zxid import Epoch, ServerId, make
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.service.client_service import ClientService
from zab.service.client_sessions import BARRIER, REPLACED, Revalidate
from zab.service.forwarding.pending_submissions import Done
from zab.service.session_tracker import ALIVE
from zab.store.operations import Op
from zab.store.request_format import HEAD
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.wire.client.requests import decode_fields

TICK_MS = 2_000
TIMEOUT_MS = 10_000


class Client:
    """A connection with a session."""

    peer = "10.0.0.1:5"
    identities = ()
    received = sent = unsent = unfinished = established_ms = queued = response_bytes = 0

    def __init__(self, session: int, *, read_only: bool = False) -> None:
        self.session = session
        self.timeout_ms = TIMEOUT_MS
        self.read_only = read_only
        self.heard = False
        self.resumed = 0
        self.why = ""

    def was_active(self) -> bool:
        heard, self.heard = self.heard, False
        return heard

    def ended(self, why: str) -> None:
        self.why = self.why or why

    cut = ended

    def resume(self) -> None:
        self.resumed += 1


class Surroundings:
    """The log, the watchdog and the request port of a service, on a clock that the test moves."""

    def __init__(self, touch: Callable[[list[tuple[int, int]]], None] | None = None, **options: Any) -> None:
        self.now = 1_000
        self.cut_off_since: int | None = None
        self.posted: list[tuple[bytes, Done]] = []
        self.store = Store(StoreSettings(), lambda *_: None, decode_fields)
        self.it = ClientService(
            ServerId(1),
            self.store,
            evolve(ClientPortSettings(tick_ms=TICK_MS), **options),
            self,
            self,
            self,
            clock_ms=lambda: self.now,
            wall_ms=lambda: 7_000_000,
            cut_off_since=lambda: self.cut_off_since,
            random_bytes=bytes,
            chance=lambda: 1.0,
            touch=touch,
        )

    def say(self, event: str, level: str = "info", /, **fields: object) -> None: ...
    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None: ...

    def turn(self, cause: Callable[[], str]) -> AbstractContextManager[object]:
        return nullcontext()

    def post(self, request: bytes, done: Done) -> None:
        self.posted.append((request, done))

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        self.posted += [(request, done) for request in requests]

    def postpone(self, do: Callable[[], None]) -> None:
        do()

    def lead(self, epoch: int = 1) -> None:
        self.it.role_changed(serving=True, leading=True, epoch=Epoch(epoch))

    def follow(self, epoch: int = 1) -> None:
        self.it.role_changed(serving=True, leading=False, epoch=Epoch(epoch))

    def lose_leader(self) -> None:
        self.it.role_changed(serving=False, leading=False, epoch=Epoch(1))

    def connect(self, session: int, *, server: int = 1, read_only: bool = False) -> Client:
        """A client with a session of the ensemble, which is attached to `server`."""
        if not read_only:
            self.store.sessions.table[session] = (TIMEOUT_MS, server)
        client: Any = Client(session, read_only=read_only)
        self.it.sessions.attach(client)
        self.it.connections[client] = None
        return client  # type: ignore[no-any-return]

    def tick(self) -> list[bytes]:
        self.now += TICK_MS // 2
        return self.it.check()

    def ops(self) -> list[int]:
        return [HEAD.unpack_from(request)[3] for request, _ in self.posted]


def test_held_requests_are_taken_when_there_is_a_leader_again() -> None:
    it = Surroundings()
    client = it.connect(7)
    assert not it.it.ready
    it.follow()
    assert (it.it.ready, it.it.leader.lost_ms, client.resumed) == (True, None, 1)
    it.lose_leader()
    assert (it.it.ready, it.it.leader.lost_ms, client.resumed) == (False, it.now, 1)


def test_nothing_is_read_while_a_snapshot_is_restored() -> None:
    it = Surroundings()
    it.follow()
    client, gone = it.connect(7), it.connect(8)
    it.it.restore_begins()
    assert not it.it.ready
    del it.store.sessions.table[8]
    it.it.restore_ended()
    assert (it.it.ready, client.why, gone.why) == (True, "", "the session is closed")


def test_leader_expires_a_silent_session_and_keeps_one_that_gives_signs_of_life() -> None:
    it = Surroundings()
    it.lead()
    it.connect(7)
    talking = it.connect(8)
    it.it.session_changed(7)
    for _ in range(TIMEOUT_MS // TICK_MS * 2 + 4):
        talking.heard = True
        assert it.tick() == []
    sessions = [HEAD.unpack_from(request)[1] for request, _ in it.posted]
    assert (it.ops(), sessions) == ([Op.CLOSE_SESSION], [7])
    assert it.it.counts.stale_sessions_expired == 1


def test_new_leader_grants_every_session_its_full_timeout() -> None:
    it = Surroundings()
    it.lead(1)
    it.connect(7)
    it.it.session_changed(7)
    for _ in range(TIMEOUT_MS // TICK_MS * 2 - 2):
        it.tick()
    it.lead(2)
    for _ in range(4):
        it.tick()
    assert it.posted == []


def test_leader_that_did_not_run_for_a_while_expires_no_session() -> None:
    it = Surroundings()
    it.lead()
    it.connect(7)
    it.it.session_changed(7)
    it.now += 10 * TIMEOUT_MS
    it.tick()
    assert it.posted == []


def test_follower_reports_signs_of_life_to_the_leader() -> None:
    it = Surroundings()
    it.follow()
    it.connect(7).heard = True
    it.connect(8)
    assert it.tick() == [ALIVE + (7).to_bytes(8, "big")]
    assert it.tick() == []


def test_clients_are_disconnected_from_a_server_without_a_quorum() -> None:
    it = Surroundings()
    client = it.connect(7)
    client.timeout_ms = 20_000
    it.cut_off_since = it.now
    for _ in range(4):
        it.tick()
    assert client.why == ""
    it.tick()
    assert client.why == "this server reaches no quorum"


def test_clients_are_disconnected_after_a_third_of_their_timeout_without_a_leader() -> None:
    it = Surroundings()
    client = it.connect(7)
    for _ in range(3):
        it.tick()
    assert client.why == ""
    it.tick()
    assert client.why == "this server has no leader"


def test_session_that_moves_to_another_server_ends_its_connection_here() -> None:
    it = Surroundings()
    it.follow()
    client = it.connect(7)
    it.store.sessions.table[7] = (TIMEOUT_MS, 2)
    it.it.session_changed(7)
    assert client.why == "the session has moved to another server"


def test_read_only_mode_begins_late_and_ends_with_the_next_leader() -> None:
    it = Surroundings(read_only_mode_enabled=True, read_only_after_ms=500)
    before = it.it.leader.read_only
    it.now += 500
    assert (before, it.it.leader.read_only) == (False, True)
    it.it.sessions.local.add(9, TIMEOUT_MS, it.now)
    it.it.sessions.local.add(10, TIMEOUT_MS, it.now)  # its client is not connected now
    client = it.connect(9, read_only=True)
    it.follow()
    assert it.it.leader.read_only is False
    assert client.why.startswith("there is a leader again")
    assert 9 not in it.it.sessions.local
    assert 10 not in it.it.sessions.local


def test_session_is_found_behind_a_barrier_and_attached_by_a_transaction() -> None:
    it = Surroundings()
    it.follow()
    steps = it.it.sessions.find(7, b"")
    assert next(steps) is BARRIER
    it.store.sessions.secret = b"secret"
    old = it.connect(7)
    steps = it.it.sessions.find(7, it.it.sessions.password(7))
    request = next(steps)
    assert isinstance(request, bytes)
    assert HEAD.unpack_from(request)[3] == Op.ATTACH_SESSION
    assert old.why == REPLACED
    with pytest.raises(StopIteration) as end:
        steps.send((1, 0, None, None, ()))
    assert end.value.value == TIMEOUT_MS


def test_creation_that_is_given_up_closes_the_session() -> None:
    it = Surroundings()
    it.store.sessions.secret = b"secret"
    steps = it.it.sessions.create(TIMEOUT_MS)
    request = next(steps)
    assert isinstance(request, bytes)
    session = HEAD.unpack_from(request)[1]
    steps.close()
    assert it.ops() == [Op.CLOSE_SESSION]
    assert HEAD.unpack_from(it.posted[0][0])[1] == session


# -- an ensemble that speaks the protocol of ZooKeeper -----------------------------------------------------


def test_sessions_among_servers_of_zookeeper_have_no_secret_and_no_server() -> None:
    touched: list[list[tuple[int, int]]] = []
    it = Surroundings(touched.append)
    it.follow()
    steps = it.it.sessions.create(TIMEOUT_MS)
    request = next(steps)
    assert isinstance(request, bytes)
    assert HEAD.unpack_from(request)[3] == Op.CREATE_SESSION
    assert it.ops() == []
    client = it.connect(7, server=0)
    it.it.session_changed(7)
    assert client.why == ""
    client.heard = True
    assert it.tick() == []
    assert it.tick() == []
    assert touched == [[(7, TIMEOUT_MS)], []]


@pytest.mark.parametrize(("exists", "timeout_ms"), [(True, TIMEOUT_MS), (False, None)])
def test_leader_of_zookeeper_decides_whether_a_session_may_be_attached(exists: bool, timeout_ms: int | None) -> None:
    it = Surroundings(lambda sessions: None)
    it.follow()
    it.store.sessions.table[7] = (TIMEOUT_MS, 0)
    steps = it.it.sessions.find(7, it.it.sessions.password(7))
    assert next(steps) == Revalidate(7, TIMEOUT_MS)
    with pytest.raises(StopIteration) as end:
        steps.send(exists)
    assert end.value.value == timeout_ms


def test_wrong_password_is_no_question_for_the_leader() -> None:
    it = Surroundings(lambda sessions: None)
    it.follow()
    it.store.sessions.table[7] = (TIMEOUT_MS, 0)
    with pytest.raises(StopIteration) as end:
        next(it.it.sessions.find(7, bytes(16)))
    assert end.value.value is None


def test_beginning_of_an_epoch_is_reached_by_a_server_that_serves_in_it() -> None:
    it = Surroundings(lambda sessions: None)
    it.store.zxid = make(1, 5)
    it.follow(epoch=2)
    assert [it.it.has_reached(zxid) for zxid in (make(1, 5), make(1, 6), make(2, 0), make(2, 1), make(3, 0))] == [
        True,
        False,
        True,
        False,
        False,
    ]
    it.lose_leader()
    assert not it.it.has_reached(make(2, 0))
