"""All guards, and putting them before the handlers. What has none is not offered where there is an authorizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from replica.runtime.authorizer import Authorizer
from replica.runtime.guards import admin, data, groups, topics, transactions
from replica.runtime.guards.asking import Asked, Guard, TopicNames
from replica.runtime.requests import ApiKey, Handler, Handlers, Request, joined

GUARDS: Final[Mapping[ApiKey, Guard]] = joined(
    data.GUARDS, groups.GUARDS, transactions.GUARDS, topics.GUARDS, admin.GUARDS
)


def guarded(handlers: Handlers, authorizer: Authorizer, names: TopicNames, *, auto_create: bool) -> Handlers:
    def before(guard: Guard, handler: Handler) -> Handler:
        async def checked(request: Request[Any]) -> Any:
            return await guard(Asked(authorizer, request, names, auto_create), handler)

        return checked

    return {key: before(GUARDS[key], handler) for key, handler in handlers.items() if key in GUARDS}
