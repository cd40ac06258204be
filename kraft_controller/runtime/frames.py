"""Frames on a stream: four bytes of length, and what they are the length of."""

from __future__ import annotations

from struct import Struct
from typing import Final

import trio

from kraft_controller.wire.commands import FRAME_BYTES_MAX, FrameError

LENGTH: Final = Struct(">I")
RECEIVE_BYTES: Final = 64 * 1024


class Frames:
    def __init__(self, stream: trio.abc.Stream, most: int = FRAME_BYTES_MAX) -> None:
        self._stream = stream
        self._most = most
        self._data = bytearray()

    async def send(self, body: bytes) -> None:
        await self._stream.send_all(LENGTH.pack(len(body)) + body)

    async def receive(self) -> bytes | None:
        """None at the end, between two frames. `FrameError` for one that is too long or cut off."""
        if not await self._fill(LENGTH.size):
            return None
        (length,) = LENGTH.unpack_from(self._data)
        if length > self._most:
            raise FrameError(f"a frame of {length} bytes; {self._most} is the most")
        if not await self._fill(LENGTH.size + length):
            raise FrameError("the stream ends in the middle of a frame")
        body = bytes(self._data[LENGTH.size : LENGTH.size + length])
        del self._data[: LENGTH.size + length]
        return body

    async def _fill(self, wanted: int) -> bool:
        while len(self._data) < wanted:
            chunk = await self._stream.receive_some(RECEIVE_BYTES)
            if not chunk:
                if self._data:
                    raise FrameError("the stream ends in the middle of a frame")
                return False
            self._data += chunk
        return True

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
