from __future__ import annotations

import pytest

from zab.core.errors import WireError
from zab.store.operations import Op
from zab.wire.client import replies, requests
from zab.wire.client.client_frames import (
    Command,
    ConnectionOpening,
    FirstFrame,
    HttpRequest,
    ReplyReader,
    RequestReader,
)
from zab.wire.client.connect import (
    EXPIRED,
    ConnectRequest,
    ConnectResponse,
    decode_connect_response,
    encode_connect_request,
    encode_connect_response,
)

GET = requests.encode_request(Op.GET_DATA, 7, ("/a", False))
HELLO = encode_connect_request(ConnectRequest(5, 10_000, 0x100000000000001, bytes(range(16))))


# -- requests and replies ------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(1, len(GET)))
def test_a_frame_that_arrives_in_two_parts(cut: int) -> None:
    reader = RequestReader()
    assert reader.feed(GET + GET[:cut]) == [(7, Op.GET_DATA, GET[12:])]
    assert reader.held_bytes == cut
    assert reader.feed(GET[cut:] + requests.PING) == [(7, Op.GET_DATA, GET[12:]), (-2, Op.PING, b"")]
    assert reader.held_bytes == 0


def test_byte_for_byte() -> None:
    reader = RequestReader()
    assert [request for byte in GET * 2 for request in reader.feed(bytes((byte,)))] == [(7, 4, GET[12:])] * 2


def test_bodies_are_bytes_whatever_the_transport_hands_over() -> None:
    ((_, _, body),) = RequestReader().feed(bytearray(GET))
    assert type(body) is bytes


@pytest.mark.parametrize("length", ["00000000", "00000007", "00100000", "ffffffff", "80000000"])
def test_a_length_beyond_the_bounds_is_an_error_before_its_bytes_arrive(length: str) -> None:
    with pytest.raises(WireError, match="a frame of"):
        RequestReader().feed(GET + bytes.fromhex(length))
    with pytest.raises(WireError, match="a frame of"):
        RequestReader().feed(GET + bytes.fromhex(length) + bytes(40))


def test_the_bounds_themselves_are_allowed() -> None:
    reader = RequestReader(frame_bytes_max=20)
    assert reader.feed(bytes.fromhex("00000014") + bytes(20)) == [(0, 0, bytes(12))]
    assert reader.feed(bytes.fromhex("00000008") + bytes(8)) == [(0, 0, b"")]


def test_a_reply_without_a_body_is_the_shortest() -> None:
    reader = ReplyReader()
    frame = replies.error_reply(3, 9, -101)
    assert reader.feed(frame + frame[:-1]) == [(3, 9, -101, b"")]
    assert reader.feed(frame[-1:]) == [(3, 9, -101, b"")]
    with pytest.raises(WireError, match="a frame of length 15"):
        reader.feed(bytes.fromhex("0000000f"))


def test_a_big_frame_in_small_pieces_is_looked_at_once() -> None:
    """Were the held bytes copied at every receive, this would move 50 GB and not end."""
    reader = RequestReader(1 << 24)
    frame = (1 << 24).to_bytes(4, "big") + bytes(1 << 24)
    received = [request for at in range(0, len(frame), 2048) for request in reader.feed(frame[at : at + 2048])]
    assert received == [(0, 0, bytes((1 << 24) - 8))]


# -- how a connection begins ---------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(len(HELLO)))
def test_the_greeting_in_two_parts(cut: int) -> None:
    opening = ConnectionOpening()
    assert opening.open(HELLO[:cut]) is None
    assert opening.open(HELLO[cut:]) == ConnectRequest(5, 10_000, 0x100000000000001, bytes(range(16)))
    assert opening.rest == b""


def test_bytes_after_the_first_frame_are_in_rest() -> None:
    opening = ConnectionOpening()
    assert opening.open(HELLO + GET + GET[:5]) is not None
    assert opening.rest == GET + GET[:5]


@pytest.mark.parametrize("read_only", [None, False, True])
def test_a_client_too_old_to_know_of_read_only(read_only: bool | None) -> None:
    request = ConnectRequest(0, 10_000, read_only=read_only)
    frame = encode_connect_request(request)
    assert len(frame) == 4 + 44 + (read_only is not None)
    assert ConnectionOpening().open(frame) == request


@pytest.mark.parametrize("password", [None, b"", b"short", bytes(100)])
def test_a_password_of_another_length_is_the_sessions_trouble_not_ours(password: bytes | None) -> None:
    request = ConnectRequest(0, 10_000, 1, password, None)
    assert ConnectionOpening().open(encode_connect_request(request)) == request


@pytest.mark.parametrize("length", ["0000001b", "00100000", "ffffffff"])
def test_no_greeting_of_ours(length: str) -> None:
    with pytest.raises(WireError, match="a frame of"):
        ConnectionOpening().open(bytes.fromhex(length))


@pytest.mark.parametrize(
    ("length", "why"),
    [
        ("00000012", "a password of 18 bytes does not fit into"),
        ("7fffffff", "a password of 2147483647 bytes does not fit into"),
        ("fffffffe", "-2 is not a valid length of a password"),
        ("80000000", "-2147483648 is not a valid length of a password"),
    ],
)
def test_a_password_that_is_not_there(length: str, why: str) -> None:
    frame = bytearray(HELLO)
    frame[4 + 24 : 4 + 28] = bytes.fromhex(length)
    with pytest.raises(WireError, match=why):
        ConnectionOpening().open(frame)


@pytest.mark.parametrize("sent", [b"ruok", b"ruok\n", b"ruok\r\nand more"])
def test_four_letters(sent: bytes) -> None:
    assert ConnectionOpening().open(sent) == Command("ruok")


def test_four_letters_one_by_one() -> None:
    opening = ConnectionOpening()
    assert [opening.open(letter) for letter in (b"m", b"n", b"t")] == [None] * 3
    assert opening.open(b"r") == Command("mntr")


def test_the_one_word_with_an_argument() -> None:
    opening = ConnectionOpening()
    assert opening.open(b"stmk\0\0\0") is None
    assert opening.open(b"\0\0\0\0") is None
    assert opening.open(b"\7") == Command("stmk", bytes(7) + b"\7")


# -- the answer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [None, False, True])
def test_the_answer(read_only: bool | None) -> None:
    response = ConnectResponse(4_000, -5, bytes(range(16)), read_only)
    reader = FirstFrame()
    frame = encode_connect_response(response)
    event = replies.error_reply(-2, 9, 0)
    assert reader.feed(frame[:7]) is None
    payload = reader.feed(frame[7:] + event)
    assert payload is not None
    assert decode_connect_response(payload) == response
    assert reader.rest == event


def test_an_expired_session() -> None:
    assert encode_connect_response(EXPIRED) == bytes.fromhex("00000025" + "00" * 16 + "00000010" + "00" * 17)


@pytest.mark.parametrize("parts", [(b"GET /status HTTP/1.0\r\n\r\n",), (b"G", b"E", b"T ", b"/")])
def test_http_is_recognised_and_not_called_a_lie(parts: tuple[bytes, ...]) -> None:
    opening = ConnectionOpening()
    with pytest.raises(HttpRequest, match="admin port"):
        for part in parts:
            opening.open(part)
