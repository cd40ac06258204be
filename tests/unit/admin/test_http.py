from __future__ import annotations

import sys
from contextlib import suppress
from http import HTTPStatus
from io import BytesIO

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from zab.admin.admin_port import AdminPort
from zab.admin.admin_settings import AdminSettings
from zab.admin.http import AdminReply, AdminRequest, HttpError
from zab.admin.http_connection import HttpConnection
from zab.core.errors import ConfigError
from zab.core.zxid import Epoch, ServerId
from zab.host.logs import Log

HEAD_MAX, BODY_MAX = 500, 100

PLAIN = b"GET /commands/mntr HTTP/1.1\r\nHost: here\r\n\r\n"
POSTED = b"POST /x?a=1&b=%20&a=2&c HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


def read(data: bytes, *splits: int) -> list[AdminRequest]:
    reader = HttpConnection(HEAD_MAX, BODY_MAX)
    found = []
    for start, stop in zip((0, *splits), (*splits, len(data)), strict=True):
        reader.feed(data[start:stop])
        while request := reader.next():
            found.append(request)
    return found


def refused(data: bytes) -> HTTPStatus:
    with pytest.raises(HttpError) as error:
        read(data)
    return error.value.status


def test_a_request() -> None:
    assert read(PLAIN) == [AdminRequest("GET", "/commands/mntr", {}, {"host": "here"})]
    assert read(POSTED) == [
        AdminRequest(
            "POST",
            "/x",
            {"a": "2", "b": " ", "c": ""},
            {"host": "here", "content-length": "5", "connection": "close"},
            b"hello",
            keep=False,
        )
    ]


@given(st.lists(st.integers(0, 2 * len(PLAIN) + len(POSTED) + 2), max_size=8).map(sorted))
def test_it_does_not_matter_in_which_pieces_requests_come(splits: list[int]) -> None:
    data = PLAIN + POSTED + b"\r\n" + PLAIN
    assert read(data, *splits) == read(data)


@pytest.mark.parametrize(
    ("head", "keep"),
    [
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: here\r\nConnection: Close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False),
    ],
)
def test_whether_another_request_may_follow(head: bytes, keep: bool) -> None:
    (request,) = read(head)
    assert request.keep is keep


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", HTTPStatus.BAD_REQUEST),  # TLS
        (b"ruok and then quite a lot of other things\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET  / HTTP/1.1\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/2\r\n\r\n", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        (b"GET / HTTP/1.1\r\nHost: here\r\nno colon\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),  # HTTP/1.1 asks for a host
        (b"GET / HTTP/1.1\r\nHost : here\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nHost: here\r\nA: b\r\n folded\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (
            b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            HTTPStatus.BAD_REQUEST,
        ),
        (b"GET /%ff HTTP/1.1\r\nHost: here\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET nowhere HTTP/1.1\r\nHost: here\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /" + b"a" * HEAD_MAX + b" HTTP/1.1\r\n\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * HEAD_MAX, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET / HTTP/1.1\r\nHost:a\r\n" + b"A:b\r\n" * 100 + b"\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"DELETE / HTTP/1.1\r\nHost: here\r\n\r\n", HTTPStatus.NOT_IMPLEMENTED),
    ],
)
def test_invalid_request_gets_its_status(data: bytes, status: HTTPStatus) -> None:
    assert refused(data) == status


@pytest.mark.parametrize("length", [b"Content-Length: 101", b"Transfer-Encoding: chunked"])
def test_a_body_that_is_too_large_is_not_read_and_ends_the_connection(length: bytes) -> None:
    (request,) = read(b"POST /restore HTTP/1.1\r\nHost: here\r\n" + length + b"\r\n\r\n")
    assert request.body is None
    assert not request.keep


@pytest.mark.parametrize("size", [7, 1000])
def test_body_that_is_not_read_is_never_taken_for_a_request(size: int) -> None:
    data = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n" + PLAIN
    assert [request.path for request in read(data, *range(size, len(data), size))] == ["/"]


@given(st.lists(st.binary(max_size=60), max_size=30))
@example([b"\r\n" * 300])
def test_noise_yields_refusals_and_holds_no_more_than_a_request(pieces: list[bytes]) -> None:
    reader = HttpConnection(HEAD_MAX, BODY_MAX)
    held = 0
    for piece in pieces:
        reader.feed(piece)
        try:
            while reader.next():
                pass
        except HttpError:
            return
        held = reader.held_bytes
        assert held <= HEAD_MAX + BODY_MAX + 4


@given(
    st.binary(max_size=200),
    st.sampled_from([b"GET ", b"POST / HTTP/1.1\r\nHost: a\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nA: "]),
)
def test_noise_behind_a_good_beginning_yields_refusals(noise: bytes, beginning: bytes) -> None:
    try:
        for request in read(beginning + noise + b"\r\n\r\n"):
            assert request.path.startswith("/")
    except HttpError:
        pass


def head_of(reply: AdminReply, *, keep: bool = True, request: bytes = PLAIN) -> bytes:
    connection = HttpConnection(HEAD_MAX, BODY_MAX)
    connection.feed(request)
    assert connection.next() is not None
    return connection.head_of(reply, keep=keep)


def test_reply_has_a_content_length() -> None:
    head = head_of(AdminReply(b"four", headers=(("A", "b"),))).decode()
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "\r\nContent-Length: 4\r\n" in head
    assert "\r\nConnection: keep-alive\r\n" in head
    assert head.endswith("\r\nA: b\r\n\r\n")
    assert b"Content-Length: 7\r\n" in head_of(AdminReply(file=BytesIO(b"content")), keep=False)


def test_last_reply_of_a_connection_announces_its_end_once() -> None:
    head = head_of(AdminReply(b"four"), keep=False, request=POSTED).decode()
    assert head.lower().count("connection: close") == 1
    assert "Content-Length: 4\r\n" in head_of(AdminReply(b"four"), request=PLAIN.replace(b"GET", b"HEAD")).decode()


def test_refusal_can_be_sent_after_half_a_request() -> None:
    for half in (
        b"GET / HTTP/1.1\r\nHost: ",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
        b"\x16\x03\x01",
    ):
        connection = HttpConnection(HEAD_MAX, BODY_MAX)
        connection.feed(half)
        with suppress(HttpError):
            assert connection.next() is None
        reply = AdminReply(status=HTTPStatus.REQUEST_TIMEOUT)
        assert connection.head_of(reply, keep=False).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_admin_port_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: AdminRequest, host: str) -> AdminReply:
        raise AssertionError

    port = AdminPort(AdminSettings(port=0), answer, Log(ServerId(1), lambda: Epoch(0)))
    for package in ("h11", "prometheus_client"):
        with monkeypatch.context() as missing:
            missing.setitem(sys.modules, package, None)
            missing.delitem(sys.modules, "zab.admin.http_connection", raising=False)
            with pytest.raises(ConfigError, match=rf"package {package}.*zab\[admin\]"):
                trio.run(port.run)
