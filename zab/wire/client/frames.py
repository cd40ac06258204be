"""Where one message of the client protocol ends and the next begins.

All that is complete in one receive comes out in one pass, already split into header and body with a single
unpack for each: at a hundred thousand requests a second, the second look at a frame is what one would feel.

A connection begins with an `Opening` on the server's side. What follows it is read by `RequestReader` on
the server's side, `ReplyReader` on the client's.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from attrs import frozen

from zab.core.errors import WireError
from zab.wire.client.connect import REQUEST_BYTES_MIN, RESPONSE_BYTES_MIN, ConnectRequest, decode_connect_request
from zab.wire.client.words import ARGUMENT_BYTES, WORDS

FRAME_BYTES_MAX: Final = 0xFFFFF
"""`jute.maxbuffer`, as ZooKeeper's servers and clients have it by default."""

Request: TypeAlias = tuple[int, int, bytes]
"""xid, opcode, body. The body is what is forwarded to the leader, as it came."""

Reply: TypeAlias = tuple[int, int, int, bytes]
"""xid, zxid, error, body."""

_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">iii")
_REPLY: Final = Struct(">iiqi")


class _Held:
    """What has arrived of a frame that is not complete. It is bounded by the frame and one receive."""

    __slots__ = ("_bytes_max", "_bytes_min", "_held", "_needed")

    def __init__(self, frame_bytes_max: int, frame_bytes_min: int) -> None:
        self._bytes_max = frame_bytes_max
        self._bytes_min = frame_bytes_min
        self._held = bytearray()
        self._needed = 4

    @property
    def held_bytes(self) -> int:
        """An end of the stream with something held is a torn frame."""
        return len(self._held)

    def _gathered(self, data: bytes | bytearray) -> bytes:
        """Everything held and `data`, or nothing while the frame under way is not complete."""
        held = self._held
        if held:
            # Added, not joined: however a frame trickles in, its bytes are copied a fixed number of times.
            held += data
            if len(held) < self._needed:
                return b""
            data = bytes(held)
            held.clear()
        return bytes(data)

    def _keep(self, data: bytes, position: int) -> None:
        """The frame at `position` is not complete. If it never may be, say so before its bytes arrive."""
        self._needed = 4
        if position + 4 <= len(data):
            (length,) = _LENGTH.unpack_from(data, position)
            self._check(length)
            self._needed = 4 + length
        self._held += data[position:]

    def _check(self, length: int) -> None:
        if not self._bytes_min <= length <= self._bytes_max:
            raise WireError(f"a frame of {length} bytes: {self._bytes_min} to {self._bytes_max} are allowed")


class RequestReader(_Held):
    """Feed it what was received; it returns all requests that are complete now.

    After a `WireError` nothing more can be read from the stream: nobody knows where the next frame begins.
    """

    __slots__ = ()

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max, 8)

    def feed(self, data: bytes | bytearray) -> list[Request]:
        data = self._gathered(data)
        requests: list[Request] = []
        position, end, last_head = 0, len(data), len(data) - 12
        unpack, append, bytes_max = _REQUEST.unpack_from, requests.append, self._bytes_max
        while position <= last_head:
            length, xid, opcode = unpack(data, position)
            if not 8 <= length <= bytes_max:
                self._check(length)
            stop = position + 4 + length
            if stop > end:
                break
            append((xid, opcode, data[position + 12 : stop]))
            position = stop
        if position < end:
            self._keep(data, position)
        return requests


class ReplyReader(_Held):
    """The same for the client: all replies and events that are complete now.

    What is whole is handed out first, though the frame behind it be none; the next `feed` says that.
    """

    __slots__ = ()

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max, 16)

    def feed(self, data: bytes | bytearray) -> list[Reply]:
        data = self._gathered(data)
        replies: list[Reply] = []
        position, end, last_head = 0, len(data), len(data) - 20
        unpack, append, bytes_max = _REPLY.unpack_from, replies.append, self._bytes_max
        while position <= last_head:
            length, xid, zxid, error = unpack(data, position)
            if not 16 <= length <= bytes_max:
                break
            stop = position + 4 + length
            if stop > end:
                break
            append((xid, zxid, error, data[position + 20 : stop]))
            position = stop
        if position < end:
            try:
                self._keep(data, position)
            except WireError:
                if not replies:
                    raise
                self._held += data[position:]
        return replies


class FirstFrame(_Held):
    """The one frame in front of the others: for a client, the server's answer to its ConnectRequest."""

    __slots__ = ("rest",)

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, frame_bytes_min: int = RESPONSE_BYTES_MIN) -> None:
        super().__init__(frame_bytes_max, frame_bytes_min)
        self.rest = b""
        """What came behind it. It belongs to the reader of what follows."""

    def feed(self, data: bytes | bytearray) -> bytes | None:
        """The payload, once it is complete."""
        held = self._held
        held += data
        if len(held) < 4:
            return None
        (length,) = _LENGTH.unpack_from(held)
        self._check(length)
        stop = 4 + length
        if len(held) < stop:
            return None
        payload, self.rest = bytes(held[4:stop]), bytes(held[stop:])
        held.clear()
        return payload


@frozen
class Command:
    """A four-letter word in place of a ConnectRequest: somebody asks by hand, and reads until we close."""

    word: str
    argument: bytes = b""


class HttpRequest(WireError):
    """A browser, or a tool that tries which port this is. Nothing is wrong, and nothing is to be had."""


_HTTP: Final = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI"})


class Opening(FirstFrame):
    """How a connection to the server begins: with a ConnectRequest, or with four letters.

    Whatever the client sent behind it is in `rest`, and waits until the session stands.
    """

    __slots__ = ()

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max, REQUEST_BYTES_MIN)

    def open(self, data: bytes | bytearray) -> ConnectRequest | Command | None:
        """`None` until enough has arrived."""
        held = self._held
        start = bytes((held + data)[:4]) if len(held) < 4 else bytes(held[:4])
        word = WORDS.get(start)
        if word is None:
            if start in _HTTP:  # which are frames of a gigabyte
                raise HttpRequest("an HTTP request: the admin port is another one")
            payload = self.feed(data)
            return None if payload is None else decode_connect_request(payload)
        held += data
        stop = 4 + ARGUMENT_BYTES.get(word, 0)
        if len(held) < stop:
            return None
        argument = bytes(held[4:stop])
        held.clear()
        return Command(word, argument)
