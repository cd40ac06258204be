"""The client's end of the protocol, with the server's end spoken by the test."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.client.calls import Call
from zab.client.client_protocol import ClientProtocol
from zab.client.client_settings import ClientSettings
from zab.client.connection_failures import Unreachable
from zab.core.errors import LocalProtocolError, OutcomeUnknown, RemoteProtocolError, WireError
from zab.session.session_errors import AuthFailed, BadArguments, NoNode, SessionExpired
from zab.session.watch import Event, WatchEvent
from zab.session.watch_manager import WatchManager
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.server_watches import WatchKind
from zab.store.znode import Stat
from zab.wire.client.client_frames import RequestReader
from zab.wire.client.connect import ConnectResponse
from zab.wire.client.replies import encode_event, encode_reply, error_reply
from zab.wire.client.requests import AUTH_XID, PING_XID, SET_WATCHES_XID, decode_request
from zab.wire.sasl import DigestClient, DigestServer

STAT = Stat(*range(11))
PASSWORD = b"p" * 16


class Heard:
    over = False

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []

    def notify(self, event: WatchEvent) -> None:
        self.events.append(event)


class Client:
    """A protocol object with its owner and the results of its calls."""

    def __init__(self, **settings: Any) -> None:
        self.book = WatchManager()
        self.machine = ClientProtocol(self, self.book, ClientSettings(**settings), 10_000)
        self.wakes = self.opens = 0
        self.refused: list[tuple[int, str]] = []
        self._reader = RequestReader()

    def wake(self) -> None:
        self.wakes += 1

    def opened(self) -> None:
        self.opens += 1

    def auth_failed(self, code: int, why: str) -> None:
        self.refused.append((code, why))
        self.machine.end(code, why)

    def connect(self, session: int = 7, **response: Any) -> None:
        self._reader = RequestReader()
        self.machine.connected(ConnectResponse(9_000, session, PASSWORD, **response))

    def ask(self, op: Op, *fields: Any, watch: Heard | None = None) -> Outcome:
        outcome = Outcome(self.machine, op, fields, watch)
        self.machine.submit(outcome.call)
        return outcome

    def sent(self) -> list[tuple[int, int, Fields]]:
        """(xid, op, fields) of everything since the last look."""
        found = []
        for xid, op, body in self._reader.feed(self.machine.take()):
            fields = decode_request(op, body)
            assert isinstance(fields, tuple), fields
            found.append((xid, op, fields))
        return found

    def reply(self, op: Op, xid: int, value: Any = None, zxid: int = 1) -> None:
        self.machine.receive(encode_reply(op, xid, zxid, value))


class Outcome:
    def __init__(self, machine: ClientProtocol, op: Op, fields: Fields, watch: Heard | None) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        self.times = 0
        self.call = Call(op, fields, str(fields[0]) if fields else "it", self._done, watch)

    def _done(self, value: Any, error: Exception | None) -> None:
        self.value, self.error = value, error
        self.times += 1


def connected(**settings: int) -> Client:
    client = Client(**settings)
    client.connect()
    assert client.sent() == []
    return client


# -- requests and replies ------------------------------------------------------------------------------


def test_replies_come_in_the_order_of_the_requests() -> None:
    client = connected()
    one, two = client.ask(Op.GET_DATA, "/a", False), client.ask(Op.CREATE, "/b", b"", ((31, "world", "anyone"),), 0)
    assert [(xid, op) for xid, op, _ in client.sent()] == [(1, Op.GET_DATA), (2, Op.CREATE)]
    client.machine.receive(encode_reply(Op.GET_DATA, 1, 5, (b"x", STAT)) + encode_reply(Op.CREATE, 2, 6, "/b"))
    assert (one.value, two.value) == ((b"x", STAT), "/b")
    assert client.machine.last_zxid == 6
    assert client.wakes == 1, "both leave in one go"


def test_error_is_raised_at_the_caller() -> None:
    client = connected()
    outcome = client.ask(Op.GET_DATA, "/a", False)
    client.sent()
    client.machine.receive(error_reply(1, 5, ErrorCode.NO_NODE))
    assert isinstance(outcome.error, NoNode)
    assert str(outcome.error) == "/a: no node"


@pytest.mark.parametrize("xid", [2, 3, 99])
def test_a_reply_out_of_order_ends_the_connection(xid: int) -> None:
    client = connected()
    client.ask(Op.WHO_AM_I)
    client.ask(Op.WHO_AM_I)
    client.sent()
    with pytest.raises(RemoteProtocolError, match=f"a reply with xid {xid}; expected: 1"):
        client.machine.receive(error_reply(xid, 1, 0))


@pytest.mark.parametrize("xid", [-3, 0, AUTH_XID, SET_WATCHES_XID])
def test_an_answer_to_nothing_ends_the_connection(xid: int) -> None:
    with pytest.raises(RemoteProtocolError):
        connected().machine.receive(error_reply(xid, 1, 0))


def test_the_numbers_begin_again_where_they_end() -> None:
    client = connected()
    client.machine._xid = 0x7FFF_FFFE
    client.ask(Op.WHO_AM_I)
    client.ask(Op.WHO_AM_I)
    assert [xid for xid, _, _ in client.sent()] == [0x7FFF_FFFF, 1]


def test_pings_stand_in_no_line() -> None:
    client = connected()
    outcome = client.ask(Op.WHO_AM_I)
    client.machine.ping()
    assert [(xid, op) for xid, op, _ in client.sent()] == [(1, Op.WHO_AM_I), (PING_XID, Op.PING)]
    client.machine.receive(error_reply(PING_XID, 77, 0))
    assert client.machine.last_zxid == 77
    assert outcome.value is None
    client.reply(Op.WHO_AM_I, 1, ())
    assert outcome.value == ()


def test_no_more_is_on_its_way_than_may_be() -> None:
    client = connected(requests_max=2)
    outcomes = [client.ask(Op.SYNC, "/") for _ in range(5)]
    assert len(client.sent()) == 2
    client.reply(Op.SYNC, 1, "/")
    assert [xid for xid, _, _ in client.sent()] == [3]
    client.machine.receive(b"".join(encode_reply(Op.SYNC, xid, 1, "/") for xid in (2, 3)))
    assert [xid for xid, _, _ in client.sent()] == [4, 5]
    assert [each.times for each in outcomes] == [1, 1, 1, 0, 0]


def test_no_more_bytes_are_on_their_way_than_may_be() -> None:
    client = connected(request_bytes_max=100)
    for _ in range(3):
        client.ask(Op.SET_DATA, "/a", bytes(80), -1)
    assert len(client.sent()) == 2, "the one that goes over it is the last"
    client.reply(Op.SET_DATA, 1, STAT)
    assert len(client.sent()) == 1


def test_oversized_request_is_not_sent() -> None:
    client = connected(frame_bytes_max=100)
    with pytest.raises(
        LocalProtocolError, match="set_data /a: the request is too large, 121 bytes: frame_bytes_max is 100"
    ):
        client.ask(Op.SET_DATA, "/a", bytes(99), -1)
    with pytest.raises(BadArguments, match="the request cannot be encoded"):
        client.ask(Op.SET_DATA, "/a", b"", 1 << 40)
    with pytest.raises(BadArguments):
        client.ask(Op.GET_DATA, "/\ud800", False)
    assert client.sent() == []


def test_a_reply_that_is_none_costs_its_call_and_the_connection_and_no_other() -> None:
    client = connected()
    one, two = client.ask(Op.GET_DATA, "/a", False), client.ask(Op.GET_DATA, "/b", False)
    client.sent()
    with pytest.raises(WireError):
        client.machine.receive(encode_reply(Op.SYNC, 1, 1, "/"))
    client.machine.lost("cut")
    assert isinstance(one.error, WireError)
    client.connect()
    assert [fields for _, _, fields in client.sent()] == [("/b", False)]
    assert not two.times


def test_a_reply_beyond_the_limit_is_not_asked_for_again() -> None:
    client = connected(reply_bytes_max=1000)
    one, two, three = (client.ask(Op.SYNC, f"/{name}") for name in "abc")
    client.sent()
    too_long = (2000).to_bytes(4, "big") + (2).to_bytes(4, "big") + bytes(30)
    with pytest.raises(WireError, match="a frame of length 2000"):
        client.machine.receive(encode_reply(Op.SYNC, 1, 1, "/a") + too_long)
    client.machine.lost("cut")
    assert one.value == "/a"
    assert isinstance(two.error, WireError)
    client.connect()
    assert [fields for _, _, fields in client.sent()] == [("/c",)]
    assert not three.times


# -- connections ---------------------------------------------------------------------------------------


def test_requests_before_a_connection_wait() -> None:
    client = Client()
    client.ask(Op.SYNC, "/a")
    assert client.sent() == []
    client.connect()
    assert client.opens == 1
    assert [fields for _, _, fields in client.sent()] == [("/a",)]


def test_reads_are_asked_again_and_changes_are_in_doubt() -> None:
    client = connected(requests_max=3)
    read, write, again = (
        client.ask(Op.SYNC, "/a"),
        client.ask(Op.DELETE, "/b", -1),
        client.ask(Op.GET_DATA, "/c", False),
    )
    queued = client.ask(Op.DELETE, "/d", -1)
    assert len(client.sent()) == 3
    client.machine.lost("the plug was pulled")
    assert isinstance(write.error, OutcomeUnknown)
    assert "delete /b: the connection was lost before the reply: the plug was pulled" in str(write.error)
    assert not any(each.times for each in (read, again, queued))
    client.connect()
    assert [fields[0] for _, _, fields in client.sent()] == ["/a", "/c", "/d"], "in their old order"


def test_a_read_that_ends_every_connection_is_given_up() -> None:
    client = Client(tries_max=3)
    outcome = client.ask(Op.SYNC, "/a")
    for _ in range(3):
        assert not outcome.times
        client.connect()
        assert len(client.sent()) == 1
        client.machine.lost("crash")
    assert isinstance(outcome.error, Unreachable)
    client.connect()
    assert client.sent() == []


def test_next_server_gets_the_last_zxid_and_the_credentials() -> None:
    client = connected()
    client.ask(Op.SYNC, "/")
    client.reply(Op.SYNC, 1, "/", zxid=50)
    client.machine.lost("")
    request = client.machine.connect_request(10_000, read_only=False)
    assert (request.session, request.password, request.last_zxid_seen) == (7, PASSWORD, 50)
    assert client.machine.granted.timeout_ms == 9_000


def test_a_session_that_one_server_knows_is_not_asked_of_others() -> None:
    client = Client()
    client.connect(read_only=True)
    assert client.machine.read_only
    client.machine.lost("")
    assert client.machine.connect_request(10_000, read_only=True).session == 0
    client.connect(8)
    client.machine.lost("")
    client.connect(8, read_only=True)
    client.machine.lost("")
    assert client.machine.connect_request(10_000, read_only=True).session == 8


def test_end_of_the_session_reaches_every_watch() -> None:
    client = connected(requests_max=2)
    write, read, queued = client.ask(Op.DELETE, "/a", -1), client.ask(Op.SYNC, "/"), client.ask(Op.DELETE, "/b", -1)
    client.machine.lost("cut")
    client.machine.end(ErrorCode.SESSION_EXPIRED, "it is over")
    assert isinstance(write.error, OutcomeUnknown)
    assert isinstance(read.error, SessionExpired)
    assert isinstance(queued.error, SessionExpired)
    assert {each.times for each in (write, read, queued)} == {1}


def test_cancelled_request_is_not_sent_and_its_reply_is_skipped() -> None:
    client = connected(requests_max=1)
    one, two, three = (client.ask(Op.SYNC, f"/{name}") for name in "abc")
    client.sent()
    client.machine.cancel(one.call)
    client.machine.cancel(two.call)
    client.reply(Op.SYNC, 1, "/a")
    assert [fields for _, _, fields in client.sent()] == [("/c",)]
    client.machine.cancel(three.call)
    client.machine.lost("")
    client.connect()
    assert client.sent() == []
    assert not any(each.times for each in (one, two, three))


def test_many_that_are_cancelled_do_not_stay() -> None:
    client = Client()
    client.ask(Op.SYNC, "/kept")
    for _ in range(5_000):
        client.machine.cancel(client.ask(Op.SYNC, "/").call)
    assert len(client.machine._queue) <= 1_100
    client.connect()
    assert [fields for _, _, fields in client.sent()] == [("/kept",)]


# -- requests ------------------------------------------------------------------------------------------


def test_credentials_are_shown_to_every_server_before_anything_else() -> None:
    client = Client()
    client.ask(Op.SYNC, "/")
    told: list[Exception | None] = []
    client.machine.add_auth("digest", b"a:b", lambda value, error: told.append(error))
    for _ in range(2):
        client.connect()
        assert client.sent()[0] == (
            AUTH_XID,
            Op.AUTH,
            (0, "digest", b"a:b"),
        )
        client.machine.receive(error_reply(AUTH_XID, 0, 0))
        client.machine.lost("")
    assert told == [None], "once"


def test_credentials_that_are_refused_end_the_session() -> None:
    client = connected()
    told: list[Exception | None] = []
    outcome = client.ask(Op.SYNC, "/")
    client.machine.add_auth("digest", b"a:b", lambda value, error: told.append(error))
    client.machine.receive(error_reply(AUTH_XID, 0, ErrorCode.AUTH_FAILED) + error_reply(1, 0, 0))
    assert client.refused == [(ErrorCode.AUTH_FAILED, "the server has refused the credentials of scheme 'digest'")]
    assert [type(error) for error in told] == [AuthFailed]
    assert isinstance(outcome.error, AuthFailed)


def sasl(password: str, servers: str = "secret") -> tuple[Client, DigestServer]:
    client = Client()
    client.ask(Op.SYNC, "/")
    client._reader = RequestReader()
    client.machine.connected(ConnectResponse(9_000, 7, PASSWORD), DigestClient("me", password, b"cnonce"))
    return client, DigestServer(b"nonce", {"me": servers}.get)


def test_sasl_comes_before_everything_else() -> None:
    client, server = sasl("secret")
    for step in (1, 2):
        ((xid, op, (token,)),) = client.sent()
        assert (xid, op) == (step, Op.SASL)
        client.reply(Op.SASL, xid, server.step(token))
    assert [op for _, op, _ in client.sent()] == [Op.SYNC]
    assert client.opens == 1


def test_sasl_that_is_refused_ends_the_session() -> None:
    client, server = sasl("wrong")
    ((xid, _, (token,)),) = client.sent()
    client.reply(Op.SASL, xid, server.step(token))
    ((xid, _, _),) = client.sent()
    client.machine.receive(error_reply(xid, 0, ErrorCode.AUTH_FAILED))
    assert client.refused == [(ErrorCode.AUTH_FAILED, "SASL: the server has refused the login")]


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    client, server = sasl("secret")
    ((xid, _, (token,)),) = client.sent()
    client.reply(Op.SASL, xid, server.step(token))
    ((xid, _, _),) = client.sent()
    client.reply(Op.SASL, xid, b"rspauth=" + b"0" * 32)
    assert client.refused == [(ErrorCode.AUTH_FAILED, "SASL: the server has not proved that it knows the password")]
    assert not client.opens


# -- watches -------------------------------------------------------------------------------------------


def test_one_shot_watch_is_set_with_its_reply_and_fires_once() -> None:
    client, heard = connected(), Heard()
    client.ask(Op.GET_DATA, "/a", True, watch=heard)
    client.machine.receive(encode_reply(Op.GET_DATA, 1, 5, (b"", STAT)) + encode_event(Event.DATA_CHANGED, "/a", 6) * 2)
    assert heard.events == [WatchEvent(Event.DATA_CHANGED, "/a", 6)]
    client.machine.lost("")
    assert client.machine.connect_request(9, read_only=False).last_zxid_seen == 6
    client.connect()
    assert client.machine.last_zxid == 5, "another event of transaction 6 may have been lost with the connection"


def test_watches_move_to_the_next_server_after_a_lost_connection() -> None:
    client, once, stays = connected(), Heard(), Heard()
    client.ask(Op.GET_DATA, "/data", True, watch=once)
    client.ask(Op.EXISTS, "/exist", True, watch=once)
    client.ask(Op.GET_CHILDREN2, "/child", True, watch=once)
    client.machine.receive(
        encode_reply(Op.GET_DATA, 1, 4, (b"", STAT))
        + error_reply(2, 5, ErrorCode.NO_NODE)
        + encode_reply(Op.GET_CHILDREN2, 3, 5, ([], STAT))
    )
    client.machine.lost("")
    client.connect()
    assert client.sent() == [(SET_WATCHES_XID, Op.SET_WATCHES, (5, ("/data",), ("/exist",), ("/child",)))]
    client.machine.receive(encode_event(Event.CREATED, "/exist", -1) + error_reply(SET_WATCHES_XID, 9, 0))
    assert once.events == [WatchEvent(Event.CREATED, "/exist")]
    client.ask(Op.ADD_WATCH, "/p", 0, watch=stays)
    client.ask(Op.ADD_WATCH, "/r", 1, watch=stays)
    client.sent()
    client.machine.receive(encode_reply(Op.ADD_WATCH, 4, 5, 0) + encode_reply(Op.ADD_WATCH, 5, 5, 0))
    client.machine.lost("")
    client.connect()
    assert client.sent() == [(SET_WATCHES_XID, Op.SET_WATCHES2, (5, ("/data",), (), ("/child",), ("/p",), ("/r",)))]


def test_watches_are_set_again_in_portions() -> None:
    client, heard = connected(watch_bytes_max=100), Heard()
    paths = [f"/{'x' * 20}{index}" for index in range(10)]
    for path in paths:
        client.book.answered(Op.GET_CHILDREN, (path, True), 0, heard)
        client.book.answered(Op.ADD_WATCH, (path, 1), 0, heard)
    client.machine.lost("")
    client.connect()
    requests = client.sent()
    assert {(xid, op, fields[0]) for xid, op, fields in requests} == {(SET_WATCHES_XID, Op.SET_WATCHES2, 0)}
    assert all(sum(len(path) + 4 for paths in fields[1:] for path in paths) <= 100 for _, _, fields in requests)
    assert [path for _, _, fields in requests for path in fields[3]] == paths
    assert [path for _, _, fields in requests for path in fields[5]] == paths
    client.machine.receive(error_reply(SET_WATCHES_XID, 1, 0) * len(requests))
    with pytest.raises(RemoteProtocolError):
        client.machine.receive(error_reply(SET_WATCHES_XID, 1, 0))


def test_a_server_that_does_not_take_the_watches_is_left() -> None:
    client, heard = connected(), Heard()
    client.book.answered(Op.GET_CHILDREN, ("/a", True), 0, heard)
    client.machine.lost("")
    client.connect()
    with pytest.raises(RemoteProtocolError, match="watches: error -6"):
        client.machine.receive(error_reply(SET_WATCHES_XID, 1, ErrorCode.UNIMPLEMENTED))


def test_cancelled_removal_of_watches_reaches_the_watches() -> None:
    client = connected()
    heard = Heard()
    client.ask(Op.ADD_WATCH, "/a", 0, watch=heard)
    client.reply(Op.ADD_WATCH, 1, 0)
    removal = client.ask(Op.REMOVE_WATCHES, "/a", int(WatchKind.ANY))
    client.machine.cancel(removal.call)
    client.reply(Op.REMOVE_WATCHES, 2)
    assert heard.events == [WatchEvent(Event.PERSISTENT_WATCH_REMOVED, "/a")]
    assert not any(client.book.lists())
    assert removal.times == 0


def test_cancelled_removal_without_watches_changes_nothing() -> None:
    client = connected()
    heard = Heard()
    client.ask(Op.ADD_WATCH, "/a", 0, watch=heard)
    client.reply(Op.ADD_WATCH, 1, 0)
    client.machine.cancel(client.ask(Op.REMOVE_WATCHES, "/a", int(WatchKind.DATA)).call)
    client.machine.receive(error_reply(2, 1, ErrorCode.NO_WATCHER))
    assert heard.events == []
    assert any(client.book.lists())


def test_a_watch_of_a_cancelled_call_is_not_written_down() -> None:
    client, heard = connected(), Heard()
    outcome = client.ask(Op.GET_DATA, "/a", True, watch=heard)
    client.machine.cancel(outcome.call)
    client.reply(Op.GET_DATA, 1, (b"", STAT))
    assert not any(client.book.lists())


def test_watch_stays_at_the_server_while_one_watch_needs_it() -> None:
    client, heard = connected(), Heard()
    client.ask(Op.GET_DATA, "/a", True, watch=heard)
    client.machine.unwatch("/a", WatchKind.DATA)
    client.machine.unwatch("/b", WatchKind.DATA)
    assert [(op, fields) for _, op, fields in client.sent()] == [
        (Op.GET_DATA, ("/a", True)),
        (Op.REMOVE_WATCHES, ("/b", WatchKind.DATA)),
    ]
    client.machine.receive(encode_reply(Op.GET_DATA, 1, 1, (b"", STAT)) + error_reply(2, 1, ErrorCode.NO_WATCHER))
    assert client.book.watches("/a", WatchKind.DATA)
    client.machine.unwatch("/c", WatchKind.DATA)
    client.machine.lost("")
    client.connect()
    assert all(op == Op.SET_WATCHES for _, op, _ in client.sent()), "a new server need not forget what it never knew"


@pytest.mark.parametrize("path", ["", "a/b"])
def test_an_event_that_happens_nowhere_ends_the_connection(path: str) -> None:
    client = connected()
    client.book.answered(Op.ADD_WATCH, ("/", 1), 0, Heard())
    with pytest.raises(RemoteProtocolError, match="which is not a path"):
        client.machine.receive(encode_event(Event.CREATED, path, 1))


# -- noise ---------------------------------------------------------------------------------------------

REPLIES = st.tuples(
    st.sampled_from([-8, -4, -2, -1, 0, 1, 2, 3, 4, 5, 6]),
    st.integers(-1, 1 << 62),
    st.sampled_from([0, 0, 0, -101, -112, -121, 7]),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([encode_reply(Op.GET_DATA, 1, 1, (b"x", STAT))[20:], encode_event(2, "/a/b", 1)[20:]]),
        st.builds(lambda event, path: encode_event(event, path, 1)[20:], st.integers(-2, 9), st.text(max_size=3)),
    ),
)


@given(st.lists(REPLIES, max_size=8), st.binary(max_size=12))
def test_any_server_bytes_are_replies_or_end_the_connection(
    replies: list[tuple[int, int, int, bytes]], rest: bytes
) -> None:
    client, heard = connected(), Heard()
    client.machine.add_auth("digest", b"a:b", lambda value, error: None)
    outcomes = [
        client.ask(Op.GET_DATA, "/a", True, watch=heard),
        client.ask(Op.ADD_WATCH, "/", 1, watch=heard),
        client.ask(Op.MULTI, (Op.DELETE, ("/a", 1))),
        client.ask(Op.GET_CHILDREN2, "/", True, watch=heard),
        client.ask(Op.GET_ACL, "/"),
        client.ask(Op.WHO_AM_I),
    ]
    data = b"".join(encode_frame(*reply) for reply in replies) + rest
    try:
        client.machine.receive(data)
    except RemoteProtocolError as error:
        client.machine.lost(str(error))
    client.machine.end(ErrorCode.SESSION_EXPIRED, "the end")
    assert [each.times for each in outcomes] == [1] * 6, "everybody hears what became of it, and once"


def encode_frame(xid: int, zxid: int, error: int, body: bytes) -> bytes:
    return error_reply(xid, zxid, error)[4:].join([(16 + len(body)).to_bytes(4, "big"), body])
