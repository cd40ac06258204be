"""Where one message ends and the next begins: four bytes of length, then that many bytes.

A receive returns whatever has arrived: half a frame, or a hundred. All that are complete come out in one
pass, because everything behind this is faster per message the more messages it sees at once.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from zab.core.errors import WireError

_LENGTH: Final = Struct(">I")
HEADER_BYTES: Final = _LENGTH.size
LENGTH_MAX: Final = 0xFFFF_FFFF


def frame(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Feed it what was received; it returns the payloads of all frames that are complete now.

    After a `WireError` nothing more can be read from the stream: nobody knows where the next frame begins.
    """

    __slots__ = ("_frame_bytes_max", "_held", "_needed")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._held = bytearray()
        self._needed = HEADER_BYTES
        """How many bytes must be held before looking at them again is worth the while."""

    @property
    def held_bytes(self) -> int:
        """Of a frame that is not complete yet. An end of stream with something held is a torn frame."""
        return len(self._held)

    @property
    def missing_bytes(self) -> int:
        """How many may be received without reading past the frame that is under way."""
        return self._needed - len(self._held)

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        # What is left over is always a part of the newest `data`, or else no frame was completed and the
        # bytes were only added. So every byte is copied a fixed number of times, however it trickles in.
        held = self._held
        if held:
            held += data
            if len(held) < self._needed:
                return []
            data = bytes(held)
            held.clear()
        end = len(data)
        if end > HEADER_BYTES and _LENGTH.unpack_from(data)[0] == end - HEADER_BYTES <= self._frame_bytes_max:
            self._needed = HEADER_BYTES
            return [bytes(data[HEADER_BYTES:])]  # one message, and all of it: as in any conversation
        complete: list[bytes] = []
        position = 0
        while end - position >= HEADER_BYTES:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 < length <= self._frame_bytes_max:
                raise WireError(f"a frame of {length} bytes: between 1 and {self._frame_bytes_max} are allowed")
            start = position + HEADER_BYTES
            if end - start < length:
                self._needed = HEADER_BYTES + length
                break
            position = start + length
            complete.append(bytes(data[start:position]))
        else:
            self._needed = HEADER_BYTES
        if position < end:
            held += data[position:]
        return complete
