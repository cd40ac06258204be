"""Which partition of the offsets topic a group is in. Its leader is the group's coordinator."""

from __future__ import annotations

_WORD = 1 << 32
_HALF = 1 << 31


def java_hash(text: str) -> int:
    """`String.hashCode` of Java, which counts in units of UTF-16: a character beyond the first plane is two of them."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (value * 31 + (units[index] << 8 | units[index + 1])) % _WORD
    return value - _WORD if value >= _HALF else value


def partition_of(group: str, partitions: int) -> int:
    value = java_hash(group)
    return 0 if value == -_HALF else abs(value) % partitions  # its absolute value is no number of Java's
