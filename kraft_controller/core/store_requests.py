"""Requests to the coordination store, and their results: the only I/O of the procedures in this package.

A procedure is a generator of type `StoreRequests`. It yields a sequence of operations, which may be in flight together,
and receives their results in the same order. A procedure has no access to sessions, tasks or clocks, so the same
procedures run on a Trio session and in a simulator with virtual time.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from enum import Enum
from typing import Final, TypeAlias, TypeVar

from kraft_controller.core.names import Version
from zab.core.frozen import frozen

TRIES_MAX: Final = 20
"""The maximum number of attempts at one change if every reply is lost. A session rarely survives so many lost
connections."""


class RepliesLost(Exception):
    """The replies to `TRIES_MAX` attempts at one change were lost, so its outcome is unknown."""


class ControllerMoved(Exception):
    """This broker's term as controller is over. No write of this controller is applied any more."""


# -- operations ------------------------------------------------------------------------------------------


@frozen
class Get:
    path: str
    watch: bool = False


@frozen
class Exists:
    """Read a node's stat. With `watch`, the node is watched even if it does not exist yet."""

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
    """The expected data version; -1 matches any."""


Change: TypeAlias = Check | Create | Set | Delete


@frozen
class Multi:
    """Changes that are applied together or not at all. Every change is made in a `Multi`."""

    changes: tuple[Change, ...]


Operation: TypeAlias = Get | Exists | Children | Sync | Multi

# -- results ---------------------------------------------------------------------------------------------


@frozen
class Node:
    """The result of a `Get` or an `Exists`. The latter returns no data."""

    data: bytes | None
    version: Version
    made: int
    """The zxid that created the node."""
    owner: int
    """The session that owns an ephemeral node; 0 for a persistent node."""
    below: int = 0
    """The zxid at which a child was last created or deleted."""
    written: int = 0
    """The zxid of the last change of the data."""


@frozen
class Listing:
    names: tuple[str, ...]


@frozen
class Done:
    """The result of a `Sync` or a `Multi`."""

    versions: tuple[Version | None, ...] = ()
    """One entry for each change of a `Multi`: the new version for a `Set`, None for others."""


class Why(Enum):
    """The reasons why an operation fails."""

    NO_NODE = "the node does not exist"
    EXISTS = "the node exists already"
    BAD_VERSION = "the node has another version"
    NOT_EMPTY = "the node has children"
    UNKNOWN = "the reply was lost, and the outcome is unknown"


@frozen
class Failed:
    why: Why
    part: int = 0
    """The index of the failed change in its `Multi`."""


Result: TypeAlias = Node | Listing | Done | Failed

T = TypeVar("T")
StoreRequests: TypeAlias = Generator[Sequence[Operation], Sequence[Result], T]
"""A procedure that sends operations to the store and returns a `T`."""


def in_parallel(procedures: Sequence[StoreRequests[T]]) -> StoreRequests[list[T]]:
    """Run procedures concurrently. Each round sends the next operations of all of them together."""
    results: dict[int, T] = {}
    replies: dict[int, Sequence[Result] | None] = dict.fromkeys(range(len(procedures)))
    while replies:
        operations: list[Operation] = []
        spans: dict[int, int] = {}
        for place, reply in replies.items():
            try:
                wanted = next(procedures[place]) if reply is None else procedures[place].send(reply)
            except StopIteration as end:
                results[place] = end.value
                continue
            spans[place] = len(wanted)
            operations += wanted
        if not spans:
            break
        found = yield operations
        replies, at = {}, 0
        for place, length in spans.items():
            replies[place] = found[at : at + length]
            at += length
    return [results[place] for place in range(len(procedures))]
