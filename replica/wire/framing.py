"""Splitting of a connection's bytes into messages, each with a length prefix of four bytes."""

from __future__ import annotations

from replica.core.errors import WireError
from zab.wire.frames import FrameReader


class Framing(FrameReader):
    """Returns the messages before an invalid length, so that they are answered before the connection is closed.

    The next `check` or `feed` raises the error of the invalid length. If no message precedes it, `feed` raises at once.
    """

    __slots__ = ("_error",)

    def __init__(self, message_bytes_max: int) -> None:
        super().__init__(message_bytes_max)
        self._error: WireError | None = None

    def check(self) -> None:
        """Raise the error of an invalid length, if one was found."""
        if self._error is not None:
            raise self._error

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        if self._error is not None:
            raise self._error
        return super().feed(data)

    def _refuse(self, length: int, complete: list[bytes]) -> None:
        signed = length - (length >> 31 << 32)
        self._error = WireError(
            f"a message of {signed} bytes is outside of the limits, 1 and {self.bytes_max} bytes "
            "(for requests: socket.request.max.bytes, or less before a SASL login)"
        )
        if not complete:
            raise self._error
