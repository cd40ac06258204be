"""The interface between connections and handlers: a handler takes a decoded request, and returns a response body.

    handlers = handler_table(handles(METADATA, answer_metadata), ...)

    async def answer_metadata(request: Request[MetadataRequest]) -> MetadataResponse: ...

`replica.wire.schemas` declares the bodies. A body has the fields of all versions of its API. In a request, fields that
its version lacks have their defaults; in a response, they are not sent. So most handlers ignore the version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import trio
from attrs import frozen

from replica.wire.api import ApiKey as ApiKey
from replica.wire.fields import Api

T = TypeVar("T")
Q = TypeVar("Q")

ANONYMOUS: Final = "User:ANONYMOUS"


def ignore() -> None:
    """Do nothing: the default of callbacks such as `Request.placed`."""


@frozen
class Request(Generic[Q]):
    """A decoded request, with facts about its connection.

    listener      name of the connection's listener: the response contains addresses of that listener
    principal     the client's principal, `User:name`
    host          the client's address
    placed        called by a handler when the records have offsets and only their replication or flush is pending: then
                  the connection's next request may be executed. Without the call that request waits for the response
    connection    the id of the connection, unique among the connections of the broker
    """

    api: ApiKey
    version: int
    correlation: int
    client_id: str | None
    body: Q
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    host: str = "127.0.0.1"
    placed: Callable[[], None] = ignore
    connection: str = ""


Handler: TypeAlias = Callable[[Request[Q]], Awaitable[T]]
"""Returns the body of the response, or None for a request without a response: a Produce with acks=0.

A connection executes its requests one at a time and sends responses in their order, so a handler that waits blocks only
its own connection, until it calls `Request.placed`. The end of the connection cancels the handler. Any exception ends
the connection, even a `KafkaError`: errors of topics and groups belong in the response.
"""

Handlers: TypeAlias = Mapping[ApiKey, Handler[Any, Any]]
"""Handlers by API key. With `handles`, mypy checks the types of each."""


def handles(api: Api[Q, T], handler: Callable[[Request[Q]], Awaitable[T | None]]) -> tuple[ApiKey, Handler[Any, Any]]:
    """Return the key of the API with its handler, which must take requests of that API and return its responses."""
    return api.key, handler


def handler_table(*entries: tuple[ApiKey, Handler[Any, Any]]) -> Handlers:
    table = dict(entries)
    assert len(table) == len(entries), "an API has two handlers"
    return table


def joined(*tables: Mapping[ApiKey, T]) -> dict[ApiKey, T]:
    """Return the union of the tables. No key may be in two of them."""
    made: dict[ApiKey, T] = {}
    for table in tables:
        twice = made.keys() & table.keys()
        assert not twice, f"APIs in two tables: {sorted(key.name for key in twice)}"
        made |= table
    return made


STEPS_PER_TURN: Final = 500
"""The number of steps of a long loop, such as partitions of a request, after which other tasks run."""


class Turns:
    """Lets other tasks run during a long loop, once every `every` steps."""

    def __init__(self, every: int = STEPS_PER_TURN) -> None:
        self._left = self._every = every

    async def step(self) -> None:
        self._left -= 1
        if not self._left:
            self._left = self._every
            await trio.lowlevel.checkpoint()
