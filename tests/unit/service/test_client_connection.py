"""The client connection without a socket: bytes in, bytes and calls out, and one phase at each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from zab.core.zxid import ServerId
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.service.connection import request_pipeline
from zab.service.connection.client_connection import ClientConnection
from zab.service.connection.ports import ConnectionPhase, Done
from zab.service.counts import Counts
from zab.service.inner_bounds import DEFAULT_BOUNDS, InnerBounds
from zab.service.local_sessions import LocalSessions
from zab.service.throttle import RequestTotals, Throttles, ThrottleSettings
from zab.store.acl import OPEN, digest_id
from zab.store.error_codes import ErrorCode
from zab.store.operations import CreateFlag, Fields, Op
from zab.store.store import Store
from zab.store.store_settings import StoreSettings
from zab.wire.client.client_frames import Command, FirstFrame, Reply, ReplyReader
from zab.wire.client.connect import ConnectRequest, decode_connect_response, encode_connect_request
from zab.wire.client.requests import AUTH_XID, PING, PING_XID, SET_WATCHES_XID, decode_fields, encode_request

SESSION = 7
TIMEOUT_MS = 10_000
CHANGED = b"an event frame"


class Change:
    frame = CHANGED


class Server:
    """A ready server with one session. Submissions wait in `posted` for their result."""

    def __init__(self, settings: ClientPortSettings) -> None:
        self.me = ServerId(1)
        self.machine = Store(StoreSettings(), lambda *_: None, decode_fields)
        self.settings, self.bounds = settings, DEFAULT_BOUNDS
        self.log = self.requests = self.requests_watchdog = self.tracker = self.sessions = self
        self.audit: Any = None
        self.counts, self.totals = Counts(), RequestTotals()
        self.throttles = Throttles(settings.throttle, settings.failed_logins, lambda: 1.0, 0)
        self.local = LocalSessions(settings.tick_ms, b"")
        self.connections: dict[Any, None] = {}
        self.ready = True
        self.posted: list[tuple[bytes, Done]] = []
        self.opening: list[Any] = []
        self.events: list[str] = []
        self.upgraded: list[int] = []

    def has_reached(self, zxid: int) -> bool:
        return zxid <= self.machine.zxid

    def say(self, event: str, level: str = "info", /, **fields: object) -> None: ...

    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None:
        self.events.append(event)

    def turn(self, cause: Callable[[], str]) -> AbstractContextManager[object]:
        return nullcontext()

    def begin_opening(self, opening: Any, timeout_ms: int, now: int) -> None:
        self.opening.append(opening)

    def end_opening(self, opening: Any) -> None:
        self.opening.remove(opening)

    def knows(self, session: int) -> bool:
        return session == SESSION

    def password(self, session: int) -> bytes:
        return b"p" * 16

    def find_read_only(self, session: int, password: bytes | None) -> int | None:
        return None

    def attach(self, client: Any) -> None: ...
    def detach(self, client: Any) -> None: ...

    def upgrade(self, session: int) -> None:
        self.upgraded.append(session)

    def post(self, request: bytes, done: Done) -> None:
        self.posted.append((request, done))

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        self.posted += [(request, done) for request in requests]

    def postpone(self, do: Callable[[], None]) -> None:
        do()

    def write_done(self, zxid: int) -> None:
        self.posted.pop(0)[1]((zxid, 0, None, None, ()), None)


class ShellPort:
    """A shell port that records the connection's requests until the test answers them."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, Done]] = []

    def output_ready(self) -> None: ...
    def wake(self) -> None: ...

    def answer_command(self, command: Command) -> bytes:
        return f"answer to {command.word}".encode()

    def when_readable(self, done: Done) -> None:
        self.jobs.append(("readable", done))

    def barrier(self, done: Done) -> None:
        self.jobs.append(("barrier", done))

    def sync(self, session: int, done: Done) -> None:
        self.jobs.append(("sync", done))

    def create_session(self, timeout_ms: int, done: Done) -> None:
        self.jobs.append(("create", done))

    def create_local_session(self, timeout_ms: int, read_only: bool, done: Done) -> None:
        self.jobs.append(("create local", done))

    def attach_session(self, session: int, password: bytes | None, done: Done) -> None:
        self.jobs.append(("attach", done))

    def change_membership(self, fields: Fields, done: Done) -> None:
        self.jobs.append(("reconfigure", done))

    def done(self, kind: str, result: object = None, error: Exception | None = None) -> None:
        found, done = self.jobs.pop(0)
        assert found == kind
        done(result, error)


class Talk:
    """A connection with its surroundings, on a clock that the test moves."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.server, self.shell = Server(evolve(ClientPortSettings(), **options)), ShellPort()
        self.it = ClientConnection(self.server, self.shell, lambda: self.now, "10.0.0.1", "10.0.0.1:5")
        self._reader = ReplyReader()

    def sent(self) -> bytes:
        self.it.settle()
        buffer = self.it.send_buffer
        data = buffer.take() if buffer.frames else b""
        buffer.gone(len(data))
        return data

    def replies(self) -> list[Reply]:
        return self._reader.feed(self.sent())

    def xids(self) -> list[int]:
        return [xid for xid, *_ in self.replies()]


def connect(session: int = 0, seen: int = 0) -> bytes:
    return encode_connect_request(ConnectRequest(seen, TIMEOUT_MS, session))


def served(**options: Any) -> Talk:
    """A talk with a session."""
    talk = Talk(**options)
    talk.it.receive(connect())
    talk.shell.done("create", SESSION)
    assert talk.it.phase is ConnectionPhase.SERVING
    talk.sent()
    return talk


def write(xid: int) -> bytes:
    return encode_request(Op.DELETE, xid, (f"/n{xid}", -1))


def read(xid: int) -> bytes:
    return encode_request(Op.EXISTS, xid, ("/", False))


RECONFIG = encode_request(Op.RECONFIG, 60, ("server.4=m4:2888:3888;2181", None, None, -1))
SYNC = encode_request(Op.SYNC, 50, ("/",))
CLOSE = encode_request(Op.CLOSE_SESSION, 99)
NO_OPERATION = (8).to_bytes(4, "big") + (3).to_bytes(4, "big") + (77).to_bytes(4, "big")


# -- the handshake -------------------------------------------------------------------------------------------


def test_session_is_created_and_requests_behind_the_first_frame_are_answered() -> None:
    talk = Talk()
    talk.it.receive(connect() + read(1))
    assert talk.it.phase is ConnectionPhase.ARRIVING
    assert talk.it.advance() == inf, "nothing is read while the session is awaited"
    assert len(talk.server.opening) == 1
    talk.shell.done("create", SESSION)
    assert (talk.it.phase, talk.it.deadline, talk.server.opening) == (ConnectionPhase.SERVING, inf, [])
    first = FirstFrame()
    payload = first.feed(talk.sent())
    assert payload is not None
    assert decode_connect_response(payload).session == SESSION
    assert [xid for xid, *_ in ReplyReader().feed(first.rest)] == [1]


def test_first_frame_may_arrive_in_pieces() -> None:
    talk = Talk()
    for byte in connect():
        assert talk.it.phase is ConnectionPhase.FIRST_FRAME
        talk.it.receive(bytes([byte]))
    assert talk.it.phase is ConnectionPhase.ARRIVING


def test_expired_session_is_answered_with_zero_and_the_connection_closes() -> None:
    talk = Talk()
    talk.it.receive(connect(session=9))
    talk.shell.done("attach", None)
    payload = FirstFrame().feed(talk.sent())
    assert payload is not None
    assert decode_connect_response(payload).session == 0
    assert (talk.it.phase, talk.server.opening) == (ConnectionPhase.CLOSING, [])


def test_client_that_has_seen_more_waits_for_a_barrier_and_is_cut_if_that_does_not_help() -> None:
    talk = Talk()
    talk.it.receive(connect(seen=5))
    talk.shell.done("barrier")
    assert (talk.it.phase, talk.server.events, talk.sent()) == (ConnectionPhase.OVER, ["client_is_ahead"], b"")


@pytest.mark.parametrize("frames", [b"", connect()], ids=["first frame", "session"])
def test_connection_is_cut_if_the_handshake_takes_too_long(frames: bytes) -> None:
    talk = Talk()
    if frames:
        talk.it.receive(frames)
    assert talk.it.deadline == TIMEOUT_MS / 1000
    talk.now = talk.it.deadline
    talk.it.tick()
    assert (talk.it.phase, talk.server.opening) == (ConnectionPhase.OVER, [])
    if frames:
        talk.shell.done("create", SESSION)  # it is too late
        assert talk.it.phase is ConnectionPhase.OVER


def test_four_letter_word_is_answered_and_the_connection_closes() -> None:
    talk = Talk()
    talk.it.receive(b"ruok")
    assert (talk.sent(), talk.it.phase, talk.it.sent) == (b"answer to ruok", ConnectionPhase.CLOSING, 0)


# -- order ---------------------------------------------------------------------------------------------------


def test_read_behind_a_write_is_answered_when_the_write_is_applied() -> None:
    talk = served()
    talk.it.receive(read(1) + write(2) + read(3) + write(4) + read(5))
    assert talk.xids() == [1]
    assert talk.server.totals.open_requests == 4
    talk.server.write_done(11)
    assert talk.xids() == [2, 3]
    talk.server.write_done(12)
    assert talk.xids() == [4, 5]
    assert talk.server.totals.open_requests == 0


def test_event_precedes_the_replies_that_follow_it() -> None:
    talk = served()
    talk.it.receive(write(1))
    talk.it.notify(Change())
    talk.server.write_done(11)
    assert talk.sent().startswith(CHANGED)


def test_requests_behind_a_sync_are_held_and_pings_are_not() -> None:
    talk = served()
    talk.it.receive(SYNC + write(1) + PING)
    talk.it.receive(PING + read(2))
    assert (talk.xids(), talk.server.posted) == ([PING_XID, PING_XID], [])
    assert talk.it.queued == 3
    talk.shell.done("sync")
    assert talk.xids() == [50]
    talk.server.write_done(11)
    assert talk.xids() == [1, 2]


def test_requests_are_held_while_the_server_is_not_ready() -> None:
    talk = served()
    talk.server.ready = False
    assert not talk.it.receive(read(1))
    assert talk.xids() == []
    talk.server.ready = True
    talk.it.resume()
    assert talk.xids() == [1]


# -- bounds --------------------------------------------------------------------------------------------------


def test_nothing_is_read_while_too_many_requests_are_open() -> None:
    talk = served(requests_max=2)
    assert not talk.it.receive(write(1) + write(2) + write(3))
    assert talk.it.advance() == inf
    talk.server.write_done(11)
    assert talk.it.advance() is None


def test_closed_throttle_is_tried_again_after_its_stall() -> None:
    talk = served(throttle=ThrottleSettings(request_max_requests=1, request_stall_ms=40))
    talk.it.receive(write(1) + write(2))
    assert (len(talk.server.posted), talk.it.advance()) == (1, 0.04)
    talk.server.write_done(11)
    assert talk.xids() == [1]
    assert talk.it.advance() == 0
    assert len(talk.server.posted) == 1


def test_ping_at_a_closed_throttle_does_not_count_as_a_request_that_waits() -> None:
    talk = served(throttle=ThrottleSettings(request_max_requests=1, op_wait_ms=50))
    talk.it.receive(write(1))
    talk.it.receive(PING)
    talk.server.write_done(11)
    talk.it.settle()
    talk.now = 1.0
    talk.it.receive(write(2))
    talk.server.write_done(12)
    assert [(xid, error) for xid, _, error, _ in talk.replies()] == [(PING_XID, 0), (1, 0), (2, 0)]


def test_credentials_and_watches_are_never_refused_by_the_throttle() -> None:
    """Clients ignore such a refusal, and would continue without them."""
    talk = served(throttle=ThrottleSettings(request_max_requests=1, request_stall_ms=200, op_wait_ms=50))
    talk.it.receive(write(1))
    watches = encode_request(Op.SET_WATCHES, SET_WATCHES_XID, (0, ("/a",), (), ()))
    talk.it.receive(read(2) + encode_request(Op.AUTH, AUTH_XID, (0, "digest", b"u:p")) + watches + read(3))
    assert talk.it.advance() == 0.2  # one stall, then the next attempt
    talk.now = 1.0
    talk.it.advance()
    talk.server.write_done(11)
    replies = [(xid, error) for xid, _, error, _ in talk.replies()]
    refused = ErrorCode.THROTTLED_OP
    assert replies == [(AUTH_XID, 0), (1, 0), (2, refused), (SET_WATCHES_XID, 0), (3, refused)]
    assert talk.it.identities[-1][0] == "digest"


def test_late_requests_behind_wrong_credentials_wait_for_their_answer() -> None:
    talk = served(throttle=ThrottleSettings(request_max_requests=1, request_stall_ms=200, op_wait_ms=50))
    talk.it.receive(write(1))
    talk.it.receive(encode_request(Op.AUTH, AUTH_XID, (0, "unknown", b"x")) + read(2))
    assert talk.it.advance() == 0.2  # one stall, then the next attempt
    talk.now = 1.0
    talk.it.advance()
    talk.server.write_done(11)
    assert talk.xids() == [1]
    talk.now = 1.1
    talk.it.tick()
    assert (talk.xids(), talk.it.phase) == ([AUTH_XID], ConnectionPhase.CLOSING)


def test_client_that_does_not_read_is_cut() -> None:
    talk = served(unsent_bytes_max=100, unsent_bytes_cut=100)
    for _ in range(10):
        talk.it.notify(Change())
    assert talk.it.phase is ConnectionPhase.OVER


# -- identities ----------------------------------------------------------------------------------------------


def test_wrong_proof_is_answered_after_its_pause_and_later_requests_wait() -> None:
    talk = served()
    talk.it.receive(encode_request(Op.AUTH, AUTH_XID, (0, "unknown", b"x")) + read(1))
    assert (talk.xids(), talk.it.deadline) == ([], 0.1)
    talk.now = 0.1
    talk.it.tick()
    ((xid, _, error, _),) = talk.replies()
    assert (xid, error, talk.it.phase) == (AUTH_XID, ErrorCode.AUTH_FAILED, ConnectionPhase.CLOSING)


def test_auth_request_without_credentials_has_a_reason_of_its_own() -> None:
    talk = served(super_digest=digest_id(b"super:secret"))
    talk.it.receive(encode_request(Op.AUTH, AUTH_XID, (0, "digest", b"super:wrong")))
    talk.now = 0.1
    talk.it.tick()
    talk.it.receive(encode_request(Op.AUTH, AUTH_XID, (0, "digest", None)))
    assert [error for _, _, error, _ in talk.replies()] == [0, ErrorCode.AUTH_FAILED]
    assert talk.it.authentication.why == "the auth request cannot be decoded, or has no credentials"


# -- the end -------------------------------------------------------------------------------------------------


def test_close_request_is_answered_and_later_requests_are_not() -> None:
    talk = served()
    talk.it.receive(write(1) + CLOSE + read(2))
    assert talk.it.phase is ConnectionPhase.LEAVING
    talk.it.ended("the session is closed")
    assert talk.it.phase is ConnectionPhase.LEAVING, "its reply is under way"
    talk.server.write_done(11)
    talk.server.write_done(12)
    assert (talk.xids(), talk.it.phase) == ([1, 99], ConnectionPhase.CLOSING)
    talk.it.closed()
    assert (talk.it.phase, talk.server.counts.connection_drop_count) == (ConnectionPhase.OVER, 0)


def test_pings_behind_a_close_are_answered_until_its_reply_is_sent() -> None:
    talk = served()
    talk.it.receive(CLOSE + PING + read(1))
    talk.it.receive(PING)
    assert talk.xids() == [PING_XID, PING_XID]
    talk.server.write_done(11)
    talk.it.receive(PING)
    assert (talk.xids(), talk.it.phase) == ([99], ConnectionPhase.CLOSING)


def test_write_with_unknown_outcome_ends_the_connection() -> None:
    talk = served()
    talk.it.receive(write(1) + read(2))
    talk.server.posted[0][1](None, RuntimeError("stopped"))
    assert (talk.it.phase, talk.server.counts.connection_drop_count) == (ConnectionPhase.OVER, 1)
    talk.it.closed()
    assert (talk.server.totals.open_requests, talk.it.queued) == (0, 0)


def broken(*_: object, **__: object) -> Any:
    raise RuntimeError("planted")


def break_the_permission(talk: Talk, plant: pytest.MonkeyPatch) -> None:
    """Let the audit log fail when the leader has permitted a reconfiguration."""
    talk.it.receive(RECONFIG)
    talk.server.audit = SimpleNamespace(reconfigured=broken)
    talk.server.write_done(11)


def break_the_reconfiguration(talk: Talk, plant: pytest.MonkeyPatch) -> None:
    talk.it.receive(RECONFIG)
    talk.server.write_done(11)
    talk.shell.done("reconfigure", "not an error code and a node")


def break_the_sync(talk: Talk, plant: pytest.MonkeyPatch) -> None:
    talk.it.receive(SYNC)
    plant.setattr(request_pipeline, "encode_reply", broken)
    talk.shell.done("sync")


def break_the_resumption(talk: Talk, plant: pytest.MonkeyPatch) -> None:
    talk.server.ready = False
    talk.it.receive(read(1))
    talk.server.ready = True
    plant.setattr(request_pipeline, "read_reply", broken)
    talk.it.resume()


def break_the_postponed_requests(talk: Talk, plant: pytest.MonkeyPatch) -> None:
    postponed: list[Callable[[], None]] = []
    plant.setattr(talk.server, "postpone", postponed.append)
    assert talk.it.pipeline is not None
    plant.setattr(talk.it.pipeline, "_bounds", InnerBounds(read_work_max=-1))
    talk.it.receive(read(1))
    plant.setattr(talk.it.pipeline, "_bounds", DEFAULT_BOUNDS)
    plant.setattr(request_pipeline, "read_reply", broken)
    postponed[0]()


def break_the_write(talk: Talk, plant: pytest.MonkeyPatch) -> None:
    talk.it.receive(write(1))
    plant.setattr(request_pipeline, "write_reply", broken)
    talk.server.write_done(11)


@pytest.mark.parametrize(
    "provoke",
    [
        break_the_permission,
        break_the_reconfiguration,
        break_the_sync,
        break_the_resumption,
        break_the_postponed_requests,
        break_the_write,
    ],
)
def test_bug_in_a_callback_costs_one_connection_and_not_the_server(
    provoke: Callable[[Talk, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member and the server's tasks call these functions, so an exception would end them."""
    talk = served()
    provoke(talk, monkeypatch)
    assert (talk.it.phase, talk.server.events) == (ConnectionPhase.OVER, ["client_failed"])


def test_frame_that_breaks_the_rules_cuts_the_connection() -> None:
    talk = served()
    assert not talk.it.receive(b"\xff" * 12)
    assert (talk.it.phase, talk.server.events) == (ConnectionPhase.OVER, ["client_protocol_error"])


def test_unknown_operation_is_answered_behind_the_others_and_the_connection_closes() -> None:
    talk = served()
    talk.it.receive(write(1) + NO_OPERATION)
    assert talk.it.phase is ConnectionPhase.LEAVING
    talk.server.write_done(11)
    replies = [(xid, error) for xid, _, error, _ in talk.replies()]
    assert (replies, talk.it.phase) == ([(1, 0), (3, ErrorCode.UNIMPLEMENTED)], ConnectionPhase.CLOSING)


def test_ephemeral_node_upgrades_a_local_session() -> None:
    talk = Talk(local_sessions_enabled=True, local_sessions_upgrading_enabled=True)
    talk.it.receive(connect())
    talk.server.local.add(SESSION, TIMEOUT_MS, 0)
    talk.shell.done("create local", SESSION)
    talk.it.receive(read(1) + encode_request(Op.CREATE, 2, ("/e", b"", OPEN, CreateFlag.EPHEMERAL)))
    assert talk.server.upgraded == [SESSION]
    assert len(talk.server.posted) == 1


def test_close_of_a_local_session_waits_for_the_answer_to_wrong_credentials() -> None:
    talk = Talk(local_sessions_enabled=True)
    talk.it.receive(connect())
    talk.server.local.add(SESSION, TIMEOUT_MS, 0)
    talk.shell.done("create local", SESSION)
    talk.xids()
    talk.it.receive(encode_request(Op.AUTH, AUTH_XID, (0, "unknown", b"x")) + CLOSE)
    assert (talk.xids(), talk.it.phase) == ([], ConnectionPhase.SERVING)
    talk.now = 0.1
    talk.it.tick()
    assert (talk.xids(), talk.it.phase) == ([AUTH_XID], ConnectionPhase.CLOSING)
