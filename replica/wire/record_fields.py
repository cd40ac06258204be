"""Numbers, texts and lists in records of internal topics and in consumers' metadata. Callers handle the versions."""

from __future__ import annotations

import struct
from typing import Final

_NO_LIST: Final = b"\xff\xff\xff\xff"


class RecordError(ValueError):
    """A record that cannot be encoded or decoded, for example because its version is unknown.

    Encoding and decoding raise no other exceptions.
    """


def pack(layout: str, *numbers: int) -> bytes:
    try:
        return struct.pack(layout, *numbers)
    except struct.error as error:
        raise RecordError(f"cannot encode {', '.join(map(str, numbers))}: {error}") from None


def text_field(text: str | None) -> bytes:
    if text is None:
        return pack(">h", -1)
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"the text cannot be encoded in UTF-8: {error}") from None
    if len(data) > 0x7FFF:
        raise RecordError(f"the text has {len(data)} bytes; the limit is {0x7FFF}")
    return pack(">h", len(data)) + data


class RecordReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        if size < 0 or size > len(self._data) - self._at:
            raise RecordError(f"a length of {size} does not fit at byte {self._at} of {len(self._data)}")
        self._at += size
        return self._data[self._at - size : self._at]

    def i16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def i8(self) -> int:
        return int.from_bytes(self._take(1), "big", signed=True)

    def i32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def count(self) -> int:
        count = self.i32()
        if count < 0 or count > len(self._data) - self._at:  # each element has at least one byte
            raise RecordError(f"{count} elements declared, but {len(self._data) - self._at} bytes left")
        return count

    def maybe_count(self) -> int | None:
        """Return the number of elements; None for a null list."""
        if self._data[self._at : self._at + 4] == _NO_LIST:
            self._at += 4
            return None
        return self.count()

    def numbers(self) -> list[int]:
        return [self.i32() for _ in range(self.count())]

    def maybe_text(self) -> str | None:
        size = self.i16()
        if size == -1:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise RecordError(f"the text at byte {self._at - size} is not UTF-8: {error}") from None

    def text(self) -> str:
        text = self.maybe_text()
        if text is None:
            raise RecordError(f"null before byte {self._at}, where a text is required")
        return text

    def bytes(self) -> bytes:
        return self._take(self.i32())

    def end(self) -> None:
        if self._at != len(self._data):
            raise RecordError(f"{len(self._data) - self._at} surplus bytes")
