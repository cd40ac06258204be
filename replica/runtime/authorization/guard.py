"""The common parts of guards: a request with its authorizer, and functions that separate the permitted elements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from attrs import evolve, frozen

from kraft_controller.core.names import TopicId
from replica.core.errors import ErrorCode
from replica.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from replica.runtime.authorization.authorizer import Authorizer
from replica.runtime.requests import ApiKey, Handler, Request
from replica.wire.fields import Api

Q = TypeVar("Q")
R = TypeVar("R")
E = TypeVar("E")

REFUSED_TEXT: Final = "the principal is not authorized"
TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_REFUSED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class TopicNames(Protocol):
    """The part of the metadata cache that guards need."""

    @property
    def topics(self) -> Collection[str]: ...
    def name_of(self, ident: TopicId) -> str | None: ...


@frozen
class GuardedRequest(Generic[Q]):
    """A request to authorize.

    auto_create   `auto.create.topics.enable`
    """

    authorizer: Authorizer
    request: Request[Q]
    names: TopicNames
    auto_create: bool

    @property
    def body(self) -> Q:
        return self.request.body

    def topic(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.authorizer.allows(self.request, operation, ResourceType.TOPIC, name, quiet=quiet)

    def group(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.authorizer.allows(self.request, operation, ResourceType.GROUP, name, quiet=quiet)

    def cluster(self, operation: Operation, *, quiet: bool = False) -> bool:
        return self.authorizer.allows(self.request, operation, ResourceType.CLUSTER, CLUSTER_NAME, quiet=quiet)

    def transactional_id(self, operation: Operation, name: str, *, quiet: bool = False) -> bool:
        return self.authorizer.allows(self.request, operation, ResourceType.TRANSACTIONAL_ID, name, quiet=quiet)

    def topics(self, operation: Operation, names: Collection[str], *, quiet: bool = False) -> set[str]:
        """Return the permitted names. Each name is checked once, even if the request repeats it."""
        return {name for name in dict.fromkeys(names) if self.topic(operation, name, quiet=quiet)}

    def with_body(self, body: Q) -> Request[Q]:
        return evolve(self.request, body=body)


Guard: TypeAlias = Callable[[GuardedRequest[Q], Handler[Q, R]], Awaitable[R]]
"""Authorizes a request, and calls the handler with its permitted part. Returns the response."""
GuardTable: TypeAlias = Mapping[ApiKey, Guard[Any, Any]]
"""Guards by API key. The table has no types of requests and responses; `entry` lets mypy check each guard."""


def entry(
    api: Api[Q, R], guard: Callable[[GuardedRequest[Q], Handler[Q, R]], Awaitable[R | None]]
) -> tuple[ApiKey, Guard[Any, Any]]:
    """Return the key of the API with its guard, which must take requests of that API and return its responses."""
    return api.key, guard


def guard_table(*entries: tuple[ApiKey, Guard[Any, Any]]) -> GuardTable:
    table = dict(entries)
    assert len(table) == len(entries), "an API has two guards"
    return table


def split(elements: Iterable[E], permitted: Callable[[E], bool]) -> tuple[list[E], list[E]]:
    """Return the elements that are permitted and those that are refused."""
    passed: list[E] = []
    refused: list[E] = []
    for element in elements:
        (passed if permitted(element) else refused).append(element)
    return passed, refused


def of_cluster(operation: Operation, refused: Callable[[Q], R]) -> Guard[Q, R]:
    """Return a guard that checks `operation` on the cluster. `refused` returns the response to a refused request."""

    async def guard(guarded: GuardedRequest[Q], handler: Handler[Q, R]) -> R:
        if guarded.cluster(operation):
            return await handler(guarded.request)
        return refused(guarded.body)

    return guard
