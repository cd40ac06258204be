"""The interface between connections and handlers: a handler takes a decoded request and returns the response's body.

    handlers = {ApiKey.METADATA: answer_metadata, ...}

    async def answer_metadata(request: Request[MetadataRequest]) -> MetadataResponse: ...

`replica.wire.schemas` declares the bodies. A body has every field of its API: a field that the request's version does
not have holds its default, and a field that the response's version does not have is left out on the wire. So a handler
seldom looks at the version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import trio
from attrs import frozen

from replica.wire.api import ApiKey as ApiKey

T = TypeVar("T")
Q = TypeVar("Q")

ANONYMOUS: Final = "User:ANONYMOUS"


def unheard() -> None:
    """Ignore that a request has its place: no other request waits for it."""


@frozen
class Request(Generic[Q]):
    """A decoded request, and the connection's part of it.

    listener      name of the listener that took the request: addresses in the response are those of that listener
    principal     the client's principal, `User:name`
    host          the client's address
    placed        a handler calls it once the records have their offsets and only replicas are missing: from then on
                  the connection's next request may be handled. A handler that never calls it holds up that request
                  until it has answered
    """

    api: ApiKey
    version: int
    correlation: int
    client_id: str | None
    body: Q
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    host: str = "127.0.0.1"
    placed: Callable[[], None] = unheard


Handler: TypeAlias = Callable[[Request[Any]], Awaitable[Any]]
"""Returns the body of the response, or None where no response is sent: for a Produce with acks = 0.

A connection handles its requests one at a time and sends responses in their order, so a handler that waits holds up its
own connection only (and none, once it has called `Request.placed`). When the connection ends, the handler is cancelled.
An exception ends the connection, a `KafkaError` as well: an error of one topic or group belongs in the response."""

Handlers: TypeAlias = Mapping[ApiKey, Handler]


def joined(*tables: Mapping[ApiKey, T]) -> dict[ApiKey, T]:
    """Return one table with the rows of all; no two may share a key."""
    made: dict[ApiKey, T] = {}
    for table in tables:
        twice = made.keys() & table.keys()
        assert not twice, f"in two tables: {sorted(key.name for key in twice)}"
        made |= table
    return made


class Turns:
    """Turns of other tasks in a long loop: one after every so many steps."""

    def __init__(self, every: int = 500) -> None:
        self._left = self._every = every

    async def step(self) -> None:
        self._left -= 1
        if not self._left:
            self._left = self._every
            await trio.lowlevel.checkpoint()
