"""Length framing: four bytes of length, then that many bytes.

A receive returns any number of bytes: half a frame, or a hundred frames. One `feed` returns all complete frames,
because its caller handles many messages at once faster than one by one.

`FrameReader` splits the streams of links between servers, of the controller's command channel and of the connections
of brokers (`replica.wire.framing`). The client protocol has the same framing, but its readers read the length and the
header of a message in one step (`zab.wire.client.client_frames`). All readers derive from `PartialFrame`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from zab.core.errors import WireError

_LENGTH: Final = Struct(">I")
HEADER_BYTES: Final = _LENGTH.size


def frame(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload


class PartialFrame:
    """The received part of a frame that is not complete. It is never larger than one frame and one receive."""

    __slots__ = ("_bytes_min", "_held", "_needed", "bytes_max")

    def __init__(self, frame_bytes_max: int, frame_bytes_min: int) -> None:
        self.bytes_max = frame_bytes_max
        """The maximum length of a frame, not counting the four bytes of length. It may be raised after a login."""
        self._bytes_min = frame_bytes_min
        self._held = bytearray()
        """The received bytes of the partial frame. Between two calls it lacks bytes, unless its length is forbidden."""
        self._needed = HEADER_BYTES
        """The size that `_held` must have before the frame, or at least its length, can be read."""

    @property
    def held_bytes(self) -> int:
        """The number of bytes held. If it is not 0 when the stream ends, the last frame is incomplete."""
        return len(self._held)

    @property
    def missing_bytes(self) -> int:
        """The number of bytes that may be received without reading past the partial frame."""
        return self._needed - len(self._held)

    def _gather(self, data: bytes | bytearray) -> bytes:
        """Return all held bytes and `data`, or no bytes if the partial frame is still not complete."""
        held = self._held
        if held:
            # Appended, not joined: however slowly a frame arrives, its bytes are copied a fixed number of times.
            held += data
            if len(held) < self._needed:
                return b""
            data = bytes(held)
            held.clear()
        return bytes(data)

    def _keep(self, data: bytes, position: int) -> None:
        """Hold the partial frame at `position`. Raise `WireError` if its length has arrived and is not allowed."""
        self._needed = HEADER_BYTES
        if position + HEADER_BYTES <= len(data):
            (length,) = _LENGTH.unpack_from(data, position)
            self._check(length)
            self._needed = HEADER_BYTES + length
        self._held += data[position:]

    def _check(self, length: int) -> None:
        if not self._bytes_min <= length <= self.bytes_max:
            raise WireError(f"a frame of length {length}: {self._bytes_min} to {self.bytes_max} are allowed")


class FrameReader(PartialFrame):
    """Split a stream into the payloads of its frames.

    After a `WireError` nothing more can be read from the stream: the start of the next frame is unknown.
    """

    __slots__ = ()

    def __init__(self, frame_bytes_max: int) -> None:
        super().__init__(frame_bytes_max, 1)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Return the payloads of all frames that are complete now. Raise `WireError` for a forbidden length."""
        held = self._held
        if held:
            held += data
            if len(held) < self._needed:
                return []
            data = memoryview(held)  # not copied: a frame may have a megabyte
            held = self._held = bytearray()
        end = len(data)
        if end > HEADER_BYTES and _LENGTH.unpack_from(data)[0] == end - HEADER_BYTES <= self.bytes_max:
            self._needed = HEADER_BYTES
            return [bytes(data[HEADER_BYTES:])]  # exactly one frame: the usual case
        complete: list[bytes] = []
        position, needed, bytes_max = 0, HEADER_BYTES, self.bytes_max
        while end - position >= HEADER_BYTES:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 < length <= bytes_max:
                self._refuse(length, complete)
                break
            start = position + HEADER_BYTES
            if end - start < length:
                needed += length
                break
            position = start + length
            complete.append(bytes(data[start:position]))
        self._needed = needed
        if position < end:
            held += data[position:]
        return complete

    def _refuse(self, length: int, complete: list[bytes]) -> None:
        """Raise `WireError` for a forbidden length. The frames in `complete`, which precede it, are lost.

        A subclass may return instead: then `feed` returns those frames.
        """
        self._check(length)
