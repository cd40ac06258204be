"""The common parts of guards: a request with its authorizer, and functions that pass on only the permitted elements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from attrs import evolve, frozen

from kraft_controller.core.names import TopicId
from replica.core.errors import ErrorCode
from replica.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from replica.runtime.authorization.authorizer import Authorizer
from replica.runtime.requests import Handler, Request
from replica.wire.schemas import APIS

Q = TypeVar("Q")

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

    def changed(self, **fields: object) -> Request[Q]:
        return evolve(self.request, body=evolve(self.body, **fields))  # type: ignore[misc]  # every body is a class of attrs


Guard: TypeAlias = Callable[[GuardedRequest[Any], Handler], Awaitable[Any]]
Refused: TypeAlias = Callable[[Any], Any]
"""Returns the result for a refused element of a request."""


async def handle_permitted(guarded: GuardedRequest[Any], handler: Handler, field: str, permitted: list[Any]) -> Any:
    """Call the handler with only `permitted` in `field`. Return an empty response if `permitted` is empty."""
    return await handler(guarded.changed(**{field: permitted})) if permitted else APIS[guarded.request.api].response()


async def handle_split(
    guarded: GuardedRequest[Any],
    handler: Handler,
    field: str,
    results: str,
    allowed: Callable[[Any], bool],
    refused: Refused,
) -> Any:
    """Call the handler with the permitted elements of `field`, and add the results of the refused ones to its
    response."""
    elements = getattr(guarded.body, field) or ()
    permitted = [each for each in elements if allowed(each)]
    if len(permitted) == len(elements):
        return await handler(guarded.request)
    response = await handle_permitted(guarded, handler, field, permitted)
    if response is None or getattr(response, "error_code", None):
        return response
    others = [refused(each) for each in elements if not allowed(each)]
    return evolve(response, **{results: [*getattr(response, results), *others]})


def of_topics(operation: Operation, field: str, results: str, name: str, refused: Refused) -> Guard:
    """Return a guard that checks `operation` on each topic in `field`. `name`: the attribute that holds the topic
    name."""

    async def guard(guarded: GuardedRequest[Any], handler: Handler) -> Any:
        permitted = guarded.topics(operation, [getattr(each, name) for each in getattr(guarded.body, field)])
        return await handle_split(
            guarded, handler, field, results, lambda each: getattr(each, name) in permitted, refused
        )

    return guard


def of_cluster(operation: Operation, refused: Refused) -> Guard:
    """Return a guard that checks `operation` on the cluster. `refused` returns the response to a refused request."""

    async def guard(guarded: GuardedRequest[Any], handler: Handler) -> Any:
        if guarded.cluster(operation):
            return await handler(guarded.request)
        return refused(guarded.body)

    return guard
