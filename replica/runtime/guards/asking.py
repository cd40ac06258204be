"""The parts that guards share: a request with its authorizer, and a request cut down to its allowed elements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from attrs import evolve, frozen

from kraft_controller.core.names import TopicId
from replica.core.acls import CLUSTER_NAME, Operation, ResourceType
from replica.core.errors import ErrorCode
from replica.runtime.authorizer import Authorizer
from replica.runtime.requests import Handler, Request
from replica.wire.schemas import APIS

Q = TypeVar("Q")

TEXT: Final = "it is not allowed"
TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_REFUSED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class TopicNames(Protocol):
    """Of the broker's picture of the cluster."""

    @property
    def topics(self) -> Collection[str]: ...
    def name_of(self, ident: TopicId) -> str | None: ...


@frozen
class Asked(Generic[Q]):
    """A request that a guard checks.

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
        """Return the allowed names. Each name is checked once, however often the request has it."""
        return {name for name in dict.fromkeys(names) if self.topic(operation, name, quiet=quiet)}

    def changed(self, **fields: object) -> Request[Q]:
        return evolve(self.request, body=evolve(self.body, **fields))  # type: ignore[misc]  # every body is a class of attrs


Guard: TypeAlias = Callable[[Asked[Any], Handler], Awaitable[Any]]
Refused: TypeAlias = Callable[[Any], Any]
"""Returns the result for an element of a request that is not allowed."""


async def handled(asked: Asked[Any], handler: Handler, field: str, mine: list[Any]) -> Any:
    """Hand the request with `mine` alone in `field` to the handler; with nothing in it, return an empty response."""
    return await handler(asked.changed(**{field: mine})) if mine else APIS[asked.request.api].response()


async def split(
    asked: Asked[Any], handler: Handler, field: str, results: str, allowed: Callable[[Any], bool], refused: Refused
) -> Any:
    """Hand the allowed elements of `field` to the handler, and add the results of the others to its response."""
    elements = getattr(asked.body, field) or ()
    mine = [each for each in elements if allowed(each)]
    if len(mine) == len(elements):
        return await handler(asked.request)
    response = await handled(asked, handler, field, mine)
    if response is None or getattr(response, "error_code", None):
        return response
    others = [refused(each) for each in elements if not allowed(each)]
    return evolve(response, **{results: [*getattr(response, results), *others]})


def of_topics(operation: Operation, field: str, results: str, name: str, refused: Refused) -> Guard:
    """Check `operation` on the topics of `field`, each of which has its name in the attribute `name`."""

    async def guard(asked: Asked[Any], handler: Handler) -> Any:
        mine = asked.topics(operation, [getattr(each, name) for each in getattr(asked.body, field)])
        return await split(asked, handler, field, results, lambda each: getattr(each, name) in mine, refused)

    return guard


def of_cluster(operation: Operation, refused: Refused) -> Guard:
    """Check `operation` on the cluster. `refused` makes the whole response, from the request's body."""

    async def guard(asked: Asked[Any], handler: Handler) -> Any:
        if asked.cluster(operation):
            return await handler(asked.request)
        return refused(asked.body)

    return guard


async def let_through(asked: Asked[Any], handler: Handler) -> Any:
    return await handler(asked.request)
