"""What is asked of the store's nodes, and what is heard: the values between who decides what to ask, and who asks it.

A work is a generator, as procedures are: it yields operations that may all be under way together, and is sent what
became of them, in the same order. Whether a session of Trio carries them out or a simulation, it cannot tell.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from enum import Enum
from typing import TypeAlias, TypeVar

from attrs import frozen

from kraft_controller.core.names import Version

# -- asked -----------------------------------------------------------------------------------------------


@frozen
class Get:
    path: str
    watch: bool = False


@frozen
class Exists:
    """With `watch` also what is not there is watched."""

    path: str
    watch: bool = False


@frozen
class Children:
    path: str
    watch: bool = False


@frozen
class Sync:
    path: str


@frozen
class Check:
    path: str
    version: Version


@frozen
class Create:
    path: str
    data: bytes | None = None
    ephemeral: bool = False


@frozen
class Set:
    path: str
    data: bytes
    version: Version


@frozen
class Delete:
    path: str
    version: Version = Version(-1)
    """-1: whatever it is at."""


Change: TypeAlias = Check | Create | Set | Delete


@frozen
class Multi:
    """All of it, or nothing. Every change is one."""

    changes: tuple[Change, ...]


Operation: TypeAlias = Get | Exists | Children | Sync | Multi

# -- heard -----------------------------------------------------------------------------------------------


@frozen
class Node:
    """What a get or an exists found; an exists finds no data."""

    data: bytes | None
    version: Version
    made: int
    """The zxid that made it."""
    owner: int
    """The session whose end is its end; 0: none."""
    below: int = 0
    """The zxid at which a child of it came or went last."""
    written: int = 0
    """The zxid of its last change."""


@frozen
class Listing:
    names: tuple[str, ...]


@frozen
class Done:
    """A sync, or a multi with the versions that its sets led to."""

    versions: tuple[Version | None, ...] = ()


class Why(Enum):
    NO_NODE = "there is no such node"
    EXISTS = "there is one already"
    BAD_VERSION = "it is at another version"
    NOT_EMPTY = "it has children"
    UNKNOWN = "the answer was lost, and nobody knows whether it was done"


@frozen
class Failed:
    why: Why
    part: int = 0
    """Of a multi: the change that could not be made."""


Result: TypeAlias = Node | Listing | Done | Failed

T = TypeVar("T")
Work: TypeAlias = Generator[Sequence[Operation], Sequence[Result], T]


def together(works: Sequence[Work[T]]) -> Work[list[T]]:
    """Side by side, in rounds: what all of them want next is asked at once."""
    results: dict[int, T] = {}
    heard: dict[int, Sequence[Result] | None] = dict.fromkeys(range(len(works)))
    while heard:
        asked: list[Operation] = []
        spans: dict[int, int] = {}
        for place, answers in heard.items():
            try:
                wanted = next(works[place]) if answers is None else works[place].send(answers)
            except StopIteration as end:
                results[place] = end.value
                continue
            spans[place] = len(wanted)
            asked += wanted
        if not spans:
            break
        found = yield asked
        heard, at = {}, 0
        for place, length in spans.items():
            heard[place] = found[at : at + length]
            at += length
    return [results[place] for place in range(len(works))]
