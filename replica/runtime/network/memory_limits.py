"""What all connections of one listener hold together, beside the requests that wait for their turn.

A bound for each connection is none where there may be ten thousand: each of them could announce a request of a hundred
million bytes and stop before the last one, or ask for as much and never read.
"""

from __future__ import annotations

from typing import Final, Protocol

_LEAST_ROOM: Final = 64 * 1024
"""A batch is handed out whole in any case, so whoever asks gets on."""


class Holder(Protocol):
    def cut(self, why: str) -> None:
        """It ends as soon as it can, and what it holds with it."""


class PartialRequests:
    """Requests that have come in part. When they are too much together, whoever began first is cut off: who means what
    he announces has sent the rest of it soon.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._held: dict[Holder, int] = {}
        """Who began first is first."""

    def holds(self, holder: Holder, size: int, most: int) -> None:
        """So much now; 0: all of it has come."""
        if not size:
            self.lets_go(holder)
            return
        self.bytes += size - self._held.get(holder, 0)
        self._held[holder] = size
        while self.bytes > most and self._held:
            first = next(iter(self._held))
            self.lets_go(first)
            first.cut(f"requests that have come in part take more than {most} bytes, and its own is the oldest of them")

    def lets_go(self, holder: Holder) -> None:
        self.bytes -= self._held.pop(holder, 0)


def response_bytes_max(untaken: int, most: int) -> int:
    """Of bytes in one answer, when so many have not been taken yet. Never more than a quarter of what is left, so that
    those who never read do not leave the others with nothing, however many come.
    """
    return max((most - untaken) // 4, _LEAST_ROOM)
