"""What leaves on a client's connection: all that gathered, in one go, and what is not taken at once, bit by bit."""

from __future__ import annotations

import os

import trio

from zab.runtime.doorbell import Doorbell


class Outlet:
    """`frames` have gathered; `bytes` wait, among them or on their way; `sent` frames, `taken_bytes`, went out.

    `room` is rung whenever some of the bytes are gone.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.bytes = 0
        self.sent = self.taken_bytes = 0
        self.room = Doorbell()
        self._stream = stream
        self._fd = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None
        self.frames: list[bytes] = []
        self._sending = False
        self._bell = Doorbell()

    async def say(self, frame: bytes) -> None:
        """In front of all that is put, and not counted with it."""
        if self._fd is not None:
            try:
                frame = frame[os.write(self._fd, frame) :]
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError from error
        if frame:
            await self._stream.send_all(frame)

    def put(self, frame: bytes) -> int:
        """How many bytes wait now."""
        self.frames.append(frame)
        self.bytes = waiting = self.bytes + len(frame)
        return waiting

    def clear(self) -> None:
        self.frames.clear()

    def flush(self) -> bool:
        """To the system, or to the task that waits until it takes more. True: nothing is left. Raises `OSError`."""
        frames = self.frames
        if self._sending:
            return False
        if not frames:
            return True
        if self._fd is None:
            self._bell.ring()
            return False
        data = self._taken()
        try:
            written = os.write(self._fd, data)
        except BlockingIOError:
            written = 0
        if written == len(data):
            self.bytes = 0
            self.room.ring()
            return True
        frames.append(data[written:])
        self.sent -= 1  # it will be handed over again
        self.bytes = len(frames[0])
        self.taken_bytes -= self.bytes
        self._bell.ring()
        return False

    def _taken(self) -> bytes:
        frames = self.frames
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        self.sent += len(frames)
        frames.clear()
        self.taken_bytes += len(data)
        return data

    async def drain(self) -> None:
        """Waits until there is something that the system did not take at once, and sends it."""
        await self._bell.wait()
        while self.frames:
            self._sending = True
            data = self._taken()
            self.bytes = len(data)
            await self._stream.send_all(data)
            self._sending = False
            self.bytes = sum(map(len, self.frames))
            self.room.ring()
