"""The seam between connections and whoever answers: a request that was understood goes in, the reply's fields come out.

    handlers = {ApiKey.METADATA: answer_metadata, ...}

    async def answer_metadata(request: Request) -> Reply: ...

Fields are named as in `replica.wire.schemas`, in snake case. A request's body has *every* field of its API: those that
its version does not know stand there with their defaults. A reply may have any of the fields of its API: what the
version does not know is left out on the wire, and what is missing is sent as its default. So a handler seldom asks for
the version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import trio
from attrs import frozen

from replica.wire.api import ApiKey as ApiKey

Body: TypeAlias = dict[str, Any]
Reply: TypeAlias = dict[str, Any] | None
"""None: nothing is sent. Only a request that expects no answer is answered so: Produce with acks = 0."""

T = TypeVar("T")

ANONYMOUS: Final = "User:ANONYMOUS"


def unheard() -> None:
    """Nobody waits for the place of a request."""


@frozen
class Request:
    """listener      name of the listener that it came in by: addresses in the reply are those for that listener
    principal     who asks, `User:name`
    host          of the peer
    placed        to be called when all that is left is to wait: what it writes stands where it will stand, so the
                  request behind it cannot get in front of it any more. Who never calls it holds that one up until
                  he has answered
    """

    api: ApiKey
    version: int
    correlation: int
    client_id: str | None
    body: Body
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    host: str = "127.0.0.1"
    placed: Callable[[], None] = unheard


Handler: TypeAlias = Callable[[Request], Awaitable[Reply]]
"""Answers of one connection are sent in the order of its requests, which are taken up one at a time: a handler that
waits holds up this connection and no other, but for those who write and wait for replicas (`Request.placed`). When the
connection ends, it is cancelled. A `KafkaError` that it raises ends the connection, as does any error: what is wrong
with one topic or group belongs into the reply."""

Handlers: TypeAlias = Mapping[ApiKey, Handler]


def joined(*tables: Mapping[ApiKey, T]) -> dict[ApiKey, T]:
    """Return one table with the rows of all; a key that stands in two of them is a mistake of ours."""
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
