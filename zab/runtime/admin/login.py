"""Authentication of a request, for commands that require it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import trio

from zab.admin.http import AdminRequest
from zab.host.clocks import now_ms
from zab.runtime.admin.commands import Outcome
from zab.service.authentication import ClientAuthentication, Verdict

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime


async def log_in(
    server: ServerRuntime, command: str, request: AdminRequest, host: str
) -> ClientAuthentication | Outcome:
    """Return the caller with the identities that it has proved, or the refusal to send.

    A request has `Authorization: digest user:password`, or another scheme of one message.
    """
    auth = request.headers.get("authorization")
    if auth is None:
        return Outcome(command, error="Auth info is missing for the command", status=HTTPStatus.UNAUTHORIZED)
    scheme, _, credentials = auth.partition(" ")
    caller = ClientAuthentication(server.settings, host)
    if not server.clients.failed_logins.may_try(caller.host, now_ms()):
        why = "Not checked, because too many logins from this address failed just now"
        return Outcome(command, error=why, status=HTTPStatus.TOO_MANY_REQUESTS)
    if caller.authenticate(scheme, credentials.encode()) is not Verdict.PROVED:
        return await distrust(server, command, caller, "Not authenticated", HTTPStatus.UNAUTHORIZED)
    return caller


async def distrust(
    server: ServerRuntime, command: str, caller: ClientAuthentication, why: str, status: HTTPStatus
) -> Outcome:
    """Count a failed login, and delay the answer, so that guessing passwords takes time."""
    server.clients.auth_failed += 1
    reason = caller.why or "not authorized"
    server.log.warn_rate_limited("client_not_authenticated", caller.host, port="admin", why=reason)
    await trio.sleep(server.clients.failed_logins.failed(caller.host, now_ms()) / 1000)
    return Outcome(command, error=why, status=status)
