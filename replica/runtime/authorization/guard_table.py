"""The guard for each request type. With an authorizer, request types without a guard are not served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from replica.runtime.authorization import admin_guards, data_guards, group_guards, topic_guards, transaction_guards
from replica.runtime.authorization.authorizer import Authorizer
from replica.runtime.authorization.guard import Guard, GuardedRequest, TopicNames
from replica.runtime.requests import ApiKey, Handler, Handlers, Request, joined

GUARDS: Final[Mapping[ApiKey, Guard]] = joined(
    data_guards.GUARDS, group_guards.GUARDS, transaction_guards.GUARDS, topic_guards.GUARDS, admin_guards.GUARDS
)


def guard_handlers(handlers: Handlers, authorizer: Authorizer, names: TopicNames, *, auto_create: bool) -> Handlers:
    def before(guard: Guard, handler: Handler) -> Handler:
        async def checked(request: Request[Any]) -> Any:
            return await guard(GuardedRequest(authorizer, request, names, auto_create), handler)

        return checked

    return {key: before(GUARDS[key], handler) for key, handler in handlers.items() if key in GUARDS}
