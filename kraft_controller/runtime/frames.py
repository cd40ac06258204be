"""Frames of the command channel on a stream, one at a time."""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

from kraft_controller.wire.command_frames import FRAME_BYTES_MAX, FrameError
from zab.core.errors import WireError
from zab.wire.frames import FrameReader, frame

RECEIVE_BYTES: Final = 64 * 1024


class Frames:
    """Sends and receives length-prefixed frames."""

    def __init__(self, stream: trio.abc.Stream, most: int = FRAME_BYTES_MAX) -> None:
        self._stream = stream
        self._reader = FrameReader(most)
        self._received: deque[bytes] = deque()
        """Complete frames that `receive` has not returned yet."""

    async def send(self, body: bytes) -> None:
        await self._stream.send_all(frame(body))

    async def receive(self) -> bytes | None:
        """Return the next frame; None at the end. Raise `FrameError` if a frame is empty, too long or truncated."""
        while not self._received:
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                if self._reader.held_bytes:
                    raise FrameError("the stream ends in the middle of a frame")
                return None
            try:
                self._received += self._reader.feed(data)
            except WireError as error:
                raise FrameError(str(error)) from error
        return self._received.popleft()

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
