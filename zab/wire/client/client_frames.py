"""The frames of the client protocol, and the four-letter words that a client may send instead.

A server reads the first bytes of a connection with `ConnectionOpening`, and all later ones with `RequestReader`. A
client uses `FirstFrame`, then `ReplyReader`.

One `feed` of `RequestReader` or `ReplyReader` returns all messages that are complete. One unpack reads both the length
and the header of a message: at a hundred thousand requests a second, another unpack for each would be too slow.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from attrs import frozen

from zab.core.errors import WireError
from zab.wire.client.connect import REQUEST_BYTES_MIN, RESPONSE_BYTES_MIN, ConnectRequest, decode_connect_request
from zab.wire.frames import PartialFrame

FRAME_BYTES_MAX: Final = 0xFFFFF
"""The default of `jute.maxbuffer` in ZooKeeper's servers and clients."""

Request: TypeAlias = tuple[int, int, bytes]
"""xid, opcode, body. The body of a write is forwarded to the leader unchanged."""

Reply: TypeAlias = tuple[int, int, int, bytes]
"""xid, zxid, error, body."""

FOUR_LETTER_WORDS: Final = {
    word.encode(): word
    for word in (
        "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr",
        "ruok", "srst", "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
    )
}  # fmt: skip
"""Commands for operators, sent in place of the first frame's length. Read as a length, each is over a billion."""
ARGUMENT_BYTES: Final = {"stmk": 8}
"""The size of a word's argument: `stmk` is followed by the mask that it sets."""

_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">iii")
_REPLY: Final = Struct(">iiqi")


class RequestReader(PartialFrame):
    """Split a client's stream into requests.

    `feed` raises `WireError` for a frame of a forbidden length. The complete requests that arrived with it are lost.
    Nothing more can be read from the stream, because the start of the next frame is unknown.
    """

    __slots__ = ()

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max, 8)

    def feed(self, data: bytes | bytearray) -> list[Request]:
        data = self._gather(data)
        requests: list[Request] = []
        position, end, last_head = 0, len(data), len(data) - 12
        unpack, append, bytes_max = _REQUEST.unpack_from, requests.append, self.bytes_max
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


class ReplyReader(PartialFrame):
    """Split a server's stream into replies and events.

    `feed` raises `WireError` for a frame of a forbidden length. If complete replies precede the frame, `feed` first
    returns them, and the next `feed` raises.
    """

    __slots__ = ()

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max, 16)

    def feed(self, data: bytes | bytearray) -> list[Reply]:
        data = self._gather(data)
        replies: list[Reply] = []
        position, end, last_head = 0, len(data), len(data) - 20
        unpack, append, bytes_max = _REPLY.unpack_from, replies.append, self.bytes_max
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


class FirstFrame(PartialFrame):
    """Read the first frame of a connection: for a client, the server's ConnectResponse."""

    __slots__ = ("rest",)

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, frame_bytes_min: int = RESPONSE_BYTES_MIN) -> None:
        super().__init__(frame_bytes_max, frame_bytes_min)
        self.rest = b""
        """The bytes after the first frame. They belong to the reader of the following frames."""

    def feed(self, data: bytes | bytearray) -> bytes | None:
        """Return the payload, or None until it is complete."""
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
    """A four-letter word in place of a ConnectRequest. The server answers it and closes the connection."""

    word: str
    argument: bytes = b""


class HttpRequest(WireError):
    """An HTTP request at the client port, from a browser or port scanner. The server hangs up and logs no warning."""


_HTTP: Final = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI"})


class ConnectionOpening(FirstFrame):
    """Read the first bytes of a client's connection: a ConnectRequest, or a four-letter word.

    `rest` holds the bytes after a ConnectRequest until the session is attached.
    """

    __slots__ = ()

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max, REQUEST_BYTES_MIN)

    def open(self, data: bytes | bytearray) -> ConnectRequest | Command | None:
        """Return the request or the command, or None until it is complete.

        Raise `HttpRequest` for the start of an HTTP request, and `WireError` for anything else.
        """
        held = self._held
        start = bytes((held + data)[:4]) if len(held) < 4 else bytes(held[:4])
        word = FOUR_LETTER_WORDS.get(start)
        if word is None:
            if start in _HTTP:  # read as a length, each of these is over a billion, too
                raise HttpRequest("an HTTP request: HTTP is served at the admin port only")
            payload = self.feed(data)
            return None if payload is None else decode_connect_request(payload)
        held += data
        stop = 4 + ARGUMENT_BYTES.get(word, 0)
        if len(held) < stop:
            return None
        argument = bytes(held[4:stop])
        held.clear()
        return Command(word, argument)
