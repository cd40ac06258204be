"""Snapshot chunks that are larger than a frame: cut by the sender, joined by the receiver.

The state machine chooses the boundaries of chunks: `restore` receives exactly the chunks that `snapshot` made. A chunk
may be larger than a frame, so the link carries it in pieces, joined before the state machine receives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zab.core.errors import WireError
from zab.core.messages import SnapChunk
from zab.wire.relay_messages import SnapPiece


def cut_chunk(chunk: bytes, piece_bytes_max: int) -> Iterator[SnapPiece | SnapChunk]:
    """Cut a chunk. All pieces but the last are `SnapPiece`; the last is the `SnapChunk`, which completes the chunk."""
    last = max(0, len(chunk) - 1) // piece_bytes_max * piece_bytes_max
    for start in range(0, last, piece_bytes_max):
        yield SnapPiece(chunk[start : start + piece_bytes_max])
    yield SnapChunk(chunk[last:])


class SnapshotPieces:
    """The received part of a chunk on one link. After a `WireError` the link cannot be used any more."""

    __slots__ = ("_chunk_bytes_max", "held")

    def __init__(self, chunk_bytes_max: int) -> None:
        self._chunk_bytes_max = chunk_bytes_max
        self.held = bytearray()
        """The bytes of the incomplete chunk, at most `chunk_bytes_max`. Callers must not change them."""

    @property
    def held_bytes(self) -> int:
        return len(self.held)

    def join(self, messages: list[Any]) -> list[Any]:
        """Return the messages with each chunk joined from its pieces. Keep the pieces of an incomplete chunk.

        Raise `WireError` if a joined chunk is too large, or another message is between its pieces.
        """
        held = self.held
        if not held and SnapPiece not in map(type, messages):
            return messages
        joined: list[Any] = []
        for message in messages:
            if isinstance(message, SnapPiece):
                self._add(message.data)
            elif not held:
                joined.append(message)
            elif isinstance(message, SnapChunk):
                self._add(message.data)
                joined.append(SnapChunk(bytes(held)))
                held.clear()
            else:
                raise WireError(f"{type(message).__name__} between the pieces of a snapshot chunk")
        return joined

    def _add(self, data: bytes) -> None:
        if len(self.held) + len(data) > self._chunk_bytes_max:
            raise WireError(
                f"a snapshot chunk of more than {self._chunk_bytes_max} bytes (Limits.snapshot_chunk_bytes_max)"
            )
        self.held += data
