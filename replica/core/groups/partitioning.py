"""The partition of an internal topic to which a name hashes."""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from struct import unpack
from typing import Final

_WORD: Final = 1 << 32
_HALF: Final = 1 << 31
_RUN: Final = 256
_POWERS: Final = tuple(pow(31, exponent, _WORD) for exponent in range(_RUN, -1, -1))


@lru_cache(64)
def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`, which is computed from UTF-16 code units.

    For speed, `_RUN` units are processed at a time: a client may send thousands of names of 32 KB.
    """
    raw = text.encode("utf-16-be", "surrogatepass")
    units = unpack(f">{len(raw) // 2}H", raw)
    value = 0
    for start in range(0, len(units), _RUN):
        run = units[start : start + _RUN]
        value = (value * _POWERS[-1 - len(run)] + sum(map(mul, run, _POWERS[-len(run) :]))) % _WORD
    return value - _WORD if value >= _HALF else value


def partition_of(group: str, partitions: int) -> int:
    value = java_hash(group)
    return 0 if value == -_HALF else abs(value) % partitions  # as Kafka's `Utils.abs`
