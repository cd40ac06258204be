"""The operator's decision to give up the history of a server that vetoes its leader."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from zab.admin.http import AdminRequest
from zab.core.errors import LocalProtocolError
from zab.core.zxid import show
from zab.runtime.admin.commands import GIVE_UP_HISTORY, Outcome
from zab.runtime.admin.login import distrust, log_in
from zab.store.acl import SUPER

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime

NOT_AUTHORIZED: Final = (
    "Not authorized: committed transactions would be lost, so this takes the super user "
    "(DigestAuthenticationProvider.superDigest); without one, stop the server and use `zab log give-up`"
)


async def give_up_history(server: ServerRuntime, request: AdminRequest, host: str) -> Outcome:
    command = GIVE_UP_HISTORY[0]
    caller = await log_in(server, command, request, host)
    if isinstance(caller, Outcome):
        return caller
    if all(scheme != SUPER for scheme, _ in caller.identities):
        return await distrust(server, command, caller, NOT_AUTHORIZED, HTTPStatus.FORBIDDEN)
    try:
        veto = await server.member.give_up_history()
    except LocalProtocolError as error:
        return Outcome(command, error=str(error), status=HTTPStatus.CONFLICT)
    return Outcome(
        command,
        {
            "leader": veto.leader,
            "transactions": veto.count,
            "behind": show(veto.common),
            "committed": show(veto.committed),
            "last": show(veto.last),
            "directory": server.member.disk_status().path,
            "files": "damaged.*",
        },
    )
