"""What guards have in common: who asks, and how a request is cut down to what he may have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol, TypeAlias

from attrs import evolve, frozen

from kraft_controller.core.names import TopicId
from replica.core.acls import CLUSTER_NAME, Operation, ResourceType
from replica.core.errors import ErrorCode
from replica.runtime.authorizer import Authorizer
from replica.runtime.requests import Body, Handler, Reply, Request

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
class Asked:
    """auto_create   `auto.create.topics.enable`"""

    authorizer: Authorizer
    request: Request
    names: TopicNames
    auto_create: bool

    @property
    def body(self) -> Body:
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
        """Those of them of which it is allowed. Each is asked for once, however often it stands in the request."""
        return {name for name in dict.fromkeys(names) if self.topic(operation, name, quiet=quiet)}

    def changed(self, **fields: object) -> Request:
        return evolve(self.request, body={**self.body, **fields})


Guard: TypeAlias = Callable[[Asked, Handler], Awaitable[Reply]]
Refused: TypeAlias = Callable[[Body], Body]
"""The answer to one element of a request that is not allowed."""


async def split(
    asked: Asked, handler: Handler, field: str, answers: str, allowed: Callable[[Body], bool], refused: Refused
) -> Reply:
    """What is allowed of the elements of `field` goes to the handler, all else is answered here."""
    elements: Sequence[Body] = asked.body[field] or ()
    mine = [each for each in elements if allowed(each)]
    if len(mine) == len(elements):
        return await handler(asked.request)
    reply = await handler(asked.changed(**{field: mine})) if mine else {}
    if reply is None or reply.get("error_code"):
        return reply
    others = [refused(each) for each in elements if not allowed(each)]
    return {**reply, answers: [*reply.get(answers, ()), *others]}


def of_topics(operation: Operation, field: str, answers: str, name: str, refused: Refused) -> Guard:
    async def guard(asked: Asked, handler: Handler) -> Reply:
        mine = asked.topics(operation, [each[name] for each in asked.body[field]])
        return await split(asked, handler, field, answers, lambda each: each[name] in mine, refused)

    return guard


def of_cluster(operation: Operation, refused: Refused) -> Guard:
    """`refused` makes the whole answer of the request's body."""

    async def guard(asked: Asked, handler: Handler) -> Reply:
        if asked.cluster(operation):
            return await handler(asked.request)
        return refused(asked.body)

    return guard


async def let_through(asked: Asked, handler: Handler) -> Reply:
    return await handler(asked.request)
