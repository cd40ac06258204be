"""The guard for each request type. With an authorizer, handlers without a guard are left out.

ApiVersions and the SASL requests have no handlers in the table and need no authorization.
"""

from __future__ import annotations

from typing import Final, TypeVar

from replica.runtime.authorization import admin_guards, data_guards, group_guards, topic_guards, transaction_guards
from replica.runtime.authorization.authorizer import Authorizer
from replica.runtime.authorization.guard import Guard, GuardedRequest, GuardTable, TopicNames
from replica.runtime.requests import Handler, Handlers, Request, joined

Q = TypeVar("Q")
R = TypeVar("R")

GUARDS: Final[GuardTable] = joined(
    data_guards.GUARDS, group_guards.GUARDS, transaction_guards.GUARDS, topic_guards.GUARDS, admin_guards.GUARDS
)


def guard_handlers(handlers: Handlers, authorizer: Authorizer, names: TopicNames, *, auto_create: bool) -> Handlers:
    def before(guard: Guard[Q, R], handler: Handler[Q, R]) -> Handler[Q, R]:
        async def checked(request: Request[Q]) -> R:
            return await guard(GuardedRequest(authorizer, request, names, auto_create), handler)

        return checked

    return {key: before(GUARDS[key], handler) for key, handler in handlers.items() if key in GUARDS}
