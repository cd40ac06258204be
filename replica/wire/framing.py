"""Where one message ends and the next begins: four bytes of length, then that many bytes."""

from __future__ import annotations

from struct import Struct
from typing import Final

from replica.core.errors import WireError

_LENGTH: Final = Struct(">i")


class Framing:
    """Feed it what was received; it returns the messages that are complete now, without their lengths.

    What is kept is never more than one message that is on its way, and a length that is none, or too great, is found
    before a byte of what it announces is kept. Messages in front of it are returned first: `check`, and whatever is fed
    next, raises it then. After that error nothing more can be read from the stream.
    """

    __slots__ = ("_held", "_needed", "_wrong", "message_bytes_max")

    def __init__(self, message_bytes_max: int) -> None:
        self.message_bytes_max = message_bytes_max
        self._held = bytearray()
        self._needed = _LENGTH.size
        """How many bytes must be held before looking at them again is worth the while."""
        self._wrong: WireError | None = None

    @property
    def held_bytes(self) -> int:
        """Of a message that is not complete yet."""
        return len(self._held)

    @property
    def missing_bytes(self) -> int:
        """How many are still to come before there is something to look at."""
        return self._needed - len(self._held)

    def check(self) -> None:
        """Raises what is wrong behind the messages that were returned."""
        if self._wrong is not None:
            raise self._wrong

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        self.check()
        held = self._held
        if held:
            held += data
            if len(held) < self._needed:
                return []
            complete, at = self._complete(held)
            del held[:at]
        else:
            complete, at = self._complete(data)
            if at < len(data):
                held += memoryview(data)[at:]
        return complete

    def _complete(self, data: bytes | bytearray) -> tuple[list[bytes], int]:
        """The messages, each copied once, and where what is behind them begins."""
        complete: list[bytes] = []
        at, end = 0, len(data)
        self._needed = _LENGTH.size
        with memoryview(data) as view:
            while end - at >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(view, at)
                if not 0 < length <= self.message_bytes_max:
                    self._wrong = WireError(
                        f"a message of {length} bytes: 1 to {self.message_bytes_max} are allowed "
                        "(socket.request.max.bytes)"
                    )
                    if complete:
                        break
                    raise self._wrong
                stop = at + _LENGTH.size + length
                if stop > end:
                    self._needed = _LENGTH.size + length
                    break
                complete.append(bytes(view[at + _LENGTH.size : stop]))
                at = stop
        return complete, at
