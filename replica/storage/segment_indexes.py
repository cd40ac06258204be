"""The offset and time index of one segment (Kafka: OffsetIndex, TimeIndex). They are sparse, and rebuilt from the log
if they are missing or malformed.

Each index holds its entries in two arrays of machine integers, so that a search takes no Python step for each entry.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from struct import Struct
from typing import Final

_OFFSET: Final = Struct(">ii")
_TIME: Final = Struct(">qi")


class OffsetIndex:
    """The offset index. An entry is the last offset of a batch, relative to the segment's base offset, and the batch's
    position in the log file."""

    ENTRY_BYTES: Final = _OFFSET.size

    def __init__(self, data: bytes = b"", log_bytes: int | None = None) -> None:
        """Decode a file. Raises `ValueError` if it is malformed, or points beyond a log file of `log_bytes`."""
        if len(data) % _OFFSET.size:
            raise ValueError(f"{len(data)} bytes are not a whole number of entries")
        both = array("i")
        both.frombytes(data)
        if sys.byteorder == "little":
            both.byteswap()
        self._offsets, self._positions = both[0::2], both[1::2]
        while len(self) > 1 and not self._offsets[-1] and not self._positions[-1]:  # preallocated but unused entries
            self._offsets.pop()
            self._positions.pop()
        if not all(map(lt, self._offsets, self._offsets[1:])) or not all(map(lt, self._positions, self._positions[1:])):
            raise ValueError("the entries do not ascend")
        if len(self) and (self._offsets[0] < 0 or self._positions[0] < 0):
            raise ValueError("an entry is negative")
        if len(self) and log_bytes is not None and self._positions[-1] >= log_bytes:
            raise ValueError(f"an entry points to byte {self._positions[-1]}, but the log file has {log_bytes} bytes")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        return len(self._offsets) * _OFFSET.size

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._offsets, self._positions, strict=True))

    @property
    def data(self) -> bytes:
        """The content of the file."""
        return b"".join(_OFFSET.pack(*entry) for entry in self.entries)

    def append(self, offset: int, position: int) -> bytes:
        """Add an entry, and return its bytes in the file."""
        self._offsets.append(offset)
        self._positions.append(position)
        return _OFFSET.pack(offset, position)

    def floor(self, offset: int) -> int:
        """Return the start of the last indexed batch whose last offset is at most this offset; 0 if there is none."""
        at = bisect_right(self._offsets, offset) - 1
        return self._positions[at] if at >= 0 else 0

    def floor_position(self, position: int) -> int:
        """Return the last indexed batch start at or before this position; 0 if there is none."""
        at = bisect_right(self._positions, position) - 1
        return self._positions[at] if at >= 0 else 0

    def truncate(self, position: int) -> None:
        """Remove the entries of batches from this position on."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]


class TimeIndex:
    """The time index. An entry is a timestamp, and the last offset of the first batch that has it, relative to the
    segment's base offset. No record up to that offset has a later timestamp."""

    ENTRY_BYTES: Final = _TIME.size

    def __init__(self, data: bytes = b"") -> None:
        if len(data) % _TIME.size:
            raise ValueError(f"{len(data)} bytes are not a whole number of entries")
        rows = list(_TIME.iter_unpack(data))
        while len(rows) > 1 and rows[-1] == (0, 0):
            rows.pop()
        self._times = array("q", [row[0] for row in rows])
        self._offsets = array("i", [row[1] for row in rows])
        if not all(map(lt, self._times, self._times[1:])):
            raise ValueError("the times do not ascend")
        if not all(map(lt, self._offsets, self._offsets[1:])) or (rows and self._offsets[0] < 0):
            raise ValueError("the offsets do not ascend")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def size(self) -> int:
        return len(self._times) * _TIME.size

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._times, self._offsets, strict=True))

    @property
    def data(self) -> bytes:
        """The content of the file."""
        return b"".join(_TIME.pack(*entry) for entry in self.entries)

    @property
    def last(self) -> tuple[int, int] | None:
        return (self._times[-1], self._offsets[-1]) if len(self) else None

    def append(self, time: int, offset: int) -> bytes:
        self._times.append(time)
        self._offsets.append(offset)
        return _TIME.pack(time, offset)

    def before(self, time: int) -> tuple[int, int] | None:
        """Return the last entry with an earlier timestamp; None if there is none. All records up to its offset have
        earlier timestamps."""
        at = bisect_left(self._times, time) - 1
        return (self._times[at], self._offsets[at]) if at >= 0 else None

    def truncate(self, offset: int) -> None:
        """Remove the entries with this relative offset or a later one."""
        keep = bisect_left(self._offsets, offset)
        del self._times[keep:]
        del self._offsets[keep:]


def decode_position(data: bytes) -> int:
    """Return the position in one entry of an offset index."""
    position: int = _OFFSET.unpack(data)[1]
    return position


def decode_last_time(data: bytes) -> tuple[int, int]:
    time, offset = _TIME.unpack(data)
    return time, offset
