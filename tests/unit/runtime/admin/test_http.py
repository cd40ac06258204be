from __future__ import annotations

from http import HTTPStatus
from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zab.runtime.admin.http import HttpError, Reply, Request, RequestReader, encode_head

HEAD_MAX, BODY_MAX = 500, 100

PLAIN = b"GET /commands/mntr HTTP/1.1\r\nHost: here\r\n\r\n"
POSTED = b"POST /x?a=1&b=%20&a=2&c HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


def read(data: bytes, *splits: int) -> list[Request]:
    reader = RequestReader(HEAD_MAX, BODY_MAX)
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
    assert read(PLAIN) == [Request("GET", "/commands/mntr", {}, {"host": "here"})]
    assert read(POSTED) == [
        Request(
            "POST",
            "/x",
            {"a": "2", "b": " ", "c": ""},
            {"content-length": "5", "connection": "close"},
            b"hello",
            keep=False,
        )
    ]


@given(st.lists(st.integers(0, 2 * len(PLAIN) + len(POSTED)), max_size=8).map(sorted))
def test_it_does_not_matter_in_which_pieces_requests_come(splits: list[int]) -> None:
    data = PLAIN + POSTED + PLAIN
    assert read(data, *splits) == read(data)


@pytest.mark.parametrize(
    ("head", "keep"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
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
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nHost : here\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /%ff HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET nowhere HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /" + b"a" * HEAD_MAX + b" HTTP/1.1\r\n\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * HEAD_MAX, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET / HTTP/1.1\r\n" + b"A:b\r\n" * 101 + b"\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"DELETE / HTTP/1.1\r\n\r\n", HTTPStatus.NOT_IMPLEMENTED),
    ],
)
def test_what_is_no_request_is_refused_with_the_status_that_says_why(data: bytes, status: HTTPStatus) -> None:
    assert refused(data) == status


@pytest.mark.parametrize("length", [b"Content-Length: 101", b"Transfer-Encoding: chunked"])
def test_a_body_that_is_too_large_is_not_read_and_ends_the_connection(length: bytes) -> None:
    (request,) = read(b"POST /restore HTTP/1.1\r\n" + length + b"\r\n\r\n")
    assert request.body is None
    assert not request.keep


@given(st.lists(st.binary(max_size=60), max_size=30))
@example([b"\r\n" * 300])
def test_noise_yields_refusals_and_holds_no_more_than_a_request(pieces: list[bytes]) -> None:
    reader = RequestReader(HEAD_MAX, BODY_MAX)
    held = 0
    for piece in pieces:
        reader.feed(piece)
        try:
            while reader.next():
                pass
        except HttpError:
            return
        held = len(reader._data)
        assert held <= HEAD_MAX + BODY_MAX + 4


@given(st.binary(max_size=200), st.sampled_from([b"GET ", b"POST / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nA: "]))
def test_noise_behind_a_good_beginning_yields_refusals(noise: bytes, beginning: bytes) -> None:
    try:
        for request in read(beginning + noise + b"\r\n\r\n"):
            assert request.path.startswith("/")
    except HttpError:
        pass


def test_a_reply_says_how_long_it_is() -> None:
    head = encode_head(Reply(b"four", headers=(("A", "b"),)), keep=True).decode()
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "\r\nContent-Length: 4\r\n" in head
    assert "\r\nConnection: keep-alive\r\n" in head
    assert head.endswith("\r\nA: b\r\n\r\n")
    assert b"Content-Length: 7\r\n" in encode_head(Reply(file=BytesIO(b"content")), keep=False)
