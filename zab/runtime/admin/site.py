"""What is where on the admin port."""

from __future__ import annotations

import json
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from zab.core.errors import ZabError
from zab.runtime.admin import page
from zab.runtime.admin.backup import RESTORE_REFUSED, Backup
from zab.runtime.admin.commands import NAMES, RESTORE, SNAPSHOT, Outcome, run
from zab.runtime.admin.http import HttpError, Reply, Request
from zab.runtime.admin.metrics import CONTENT_TYPE, exposition
from zab.runtime.admin.overview import overview
from zab.runtime.admin.settings import AdminSettings

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
POLICY: Final = ((
    "Content-Security-Policy",
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:",
),)  # fmt: skip


class Site:
    def __init__(self, server: StoreServer, settings: AdminSettings) -> None:
        self._server = server
        self._settings = settings
        self._backup = Backup(server, settings)

    async def answer(self, request: Request, host: str) -> Reply:
        await trio.lowlevel.checkpoint()
        settings, path = self._settings, request.path
        try:
            if "commands" in settings.parts:
                if path.rstrip("/") == settings.commands_path:
                    return self._list()
                if path.startswith(settings.commands_path + "/"):
                    return await self._command(path.removeprefix(settings.commands_path + "/"), request, host)
            if request.method == "POST":
                raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "nothing can be sent to here")
            if "metrics" in settings.parts and path == settings.metrics_path:
                return Reply(exposition(self._server), CONTENT_TYPE)
            if "page" in settings.parts:
                if path == "/":
                    return Reply(page.whole(overview(self._server)), HTML, headers=POLICY)
                if path == "/status.json":
                    return Reply(json.dumps(overview(self._server)).encode() + b"\n", JSON)
                if path == "/status.html":
                    return Reply(page.main(overview(self._server)).encode(), HTML, headers=POLICY)
        except ZabError as error:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"this server cannot tell: {error}") from error
        raise HttpError(HTTPStatus.NOT_FOUND, self._directions())

    def _directions(self) -> str:
        settings = self._settings
        paths = {"commands": settings.commands_path, "metrics": settings.metrics_path, "page": "/"}
        return f"nothing is here; see {', '.join(paths[part] for part in sorted(settings.parts))}"

    def _list(self) -> Reply:
        prefix = escape(self._settings.commands_path)
        return Reply("".join(f'<a href="{prefix}/{name}">{name}</a>\n<br/>\n' for name in NAMES).encode(), HTML)

    async def _command(self, name: str, request: Request, host: str) -> Reply:
        if name in RESTORE:
            return as_json(Outcome(RESTORE[0], error=RESTORE_REFUSED, status=HTTPStatus.NOT_IMPLEMENTED))
        if request.method == "POST":
            return as_json(
                Outcome(name, error=f"No command {name[:100]} takes a POST", status=HTTPStatus.METHOD_NOT_ALLOWED)
            )
        if name in SNAPSHOT:
            answer = await self._backup.answer(request, host)
            return as_json(answer) if isinstance(answer, Outcome) else answer
        return as_json(run(name, request.parameters, self._server))


def as_json(outcome: Outcome) -> Reply:
    values = {"error": outcome.error, **outcome.values, "command": outcome.command}
    return Reply(json.dumps(values, indent=2).encode() + b"\n", JSON, outcome.status, outcome.headers)
