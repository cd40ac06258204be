"""A fuzz target: a function of arbitrary bytes, with accepted seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from attrs import frozen

FRAME_BYTES_MAX: Final = 4096


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@frozen
class Target:
    run: Callable[[bytes], bool]
    """Whether it made something of the bytes."""
    seeds: list[bytes]
