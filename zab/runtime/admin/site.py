"""What is where on the admin port."""

from __future__ import annotations

import json
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING

import trio

from zab.runtime.admin.commands import NAMES, Outcome, run
from zab.runtime.admin.http import HttpError, Reply, Request
from zab.runtime.admin.settings import AdminSettings

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer


class Site:
    def __init__(self, server: StoreServer, settings: AdminSettings) -> None:
        self._server = server
        self._settings = settings

    async def answer(self, request: Request, host: str) -> Reply:
        await trio.lowlevel.checkpoint()
        settings, path = self._settings, request.path
        if "commands" in settings.parts:
            if path.rstrip("/") == settings.commands_path:
                return self._list()
            if path.startswith(settings.commands_path + "/"):
                return self._command(path.removeprefix(settings.commands_path + "/"), request, host)
        raise HttpError(HTTPStatus.NOT_FOUND, f"nothing is here; see {settings.commands_path}")

    def _list(self) -> Reply:
        links = [f'<a href="{escape(self._settings.commands_path)}/{name}">{name}</a>\n<br/>' for name in sorted(NAMES)]
        return Reply("\n".join(links).encode() + b"\n", "text/html; charset=utf-8")

    def _command(self, name: str, request: Request, host: str) -> Reply:
        outcome = run(name, self._server)
        return as_json(outcome)


def as_json(outcome: Outcome) -> Reply:
    values = {**outcome.values, "command": outcome.command, "error": outcome.error}
    return Reply(json.dumps(values, indent=2).encode() + b"\n", "application/json", outcome.status)
