"""The paths of the admin port of a store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING

import trio

from zab.admin.admin_settings import AdminSettings
from zab.admin.exposition import CONTENT_TYPE, exposition
from zab.admin.http import JSON, AdminReply, AdminRequest, HttpError
from zab.admin.markup import html, status_page
from zab.core.ensemble import NO_HOST
from zab.core.errors import LocalProtocolError, ZabError
from zab.core.zxid import show
from zab.host.clocks import now_ms
from zab.runtime.admin.backup import RESTORE_REFUSED, Backup
from zab.runtime.admin.commands import CHANGING, GIVE_UP_HISTORY, NAMES, RESTORE, SNAPSHOT, Outcome, run
from zab.runtime.admin.overview import overview, verdict
from zab.runtime.admin.store_metrics import store_samples
from zab.service.admin_access import AdminAccess, Refusal

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime


class StoreSite:
    """Answers the requests at the admin port."""

    def __init__(self, server: ServerRuntime, settings: AdminSettings) -> None:
        self._server = server
        self._settings = settings
        self._backup = Backup(server)
        self._access = AdminAccess(
            server.clients, snapshot_enabled=settings.snapshot_enabled, snapshot_ms=settings.snapshot_ms
        )

    async def answer(self, request: AdminRequest, host: str) -> AdminReply:
        """Return the reply to a request by its path: ZooKeeper's commands, the metrics, or the status page.

        Only the parts that the settings enable have paths. Only the commands take POST, as in ZooKeeper's admin server.
        Raise `HttpError` with 405 for a POST to another path, and with 404 for an unknown path. Raise it with 503 for a
        `ZabError`, so that a health probe takes the server out of use.
        """
        await trio.lowlevel.checkpoint()
        settings, path = self._settings, request.path
        try:
            if "commands" in settings.parts:
                if path.rstrip("/") == settings.commands_path:
                    return self._list()
                if path.startswith(settings.commands_path + "/"):
                    return await self._command(path.removeprefix(settings.commands_path + "/"), request, host)
            if request.method == "POST":
                raise HttpError(
                    HTTPStatus.METHOD_NOT_ALLOWED, "this path does not accept POST", (("Allow", "GET, HEAD"),)
                )
            if "metrics" in settings.parts and path == settings.metrics_path:
                return AdminReply(exposition(store_samples(self._server)), CONTENT_TYPE)
            if "page" in settings.parts:
                if path == "/":
                    return self._page()
                if path == "/status.json":
                    return AdminReply(json.dumps(overview(self._server)).encode() + b"\n", JSON)
        except ZabError as error:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"this server cannot answer: {error}") from error
        raise HttpError(HTTPStatus.NOT_FOUND, self._directions())

    def names(self) -> tuple[str | None, ...]:
        """Return the host names that the membership gives this server."""
        mine = self._server.member.status().ensemble.by_id.get(self._server.me)
        return () if mine is None or mine.host == NO_HOST else (mine.host, mine.client_host)

    def _directions(self) -> str:
        return f"no such path; see {', '.join(self._paths('commands', 'metrics', 'page').values())}"

    def _paths(self, *parts: str) -> dict[str, str]:
        """Return the paths of those of the parts that are served."""
        settings = self._settings
        paths = {"commands": settings.commands_path, "metrics": settings.metrics_path, "page": "/"}
        return {part: paths[part] for part in parts if part in settings.parts}

    def _page(self) -> AdminReply:
        view = overview(self._server)
        return status_page(
            f"zab server {view['server']}",
            view["health"],
            escape(verdict(view)),
            [f"Server {each['server']}: {escape(each['text'])}" for each in view["warnings"]],
            "<code>zab status</code> shows the servers in a terminal, and <code>zab console</code> in a browser.",
            {"status": "/status.json", **self._paths("metrics", "commands")},
        )

    def _list(self) -> AdminReply:
        prefix = escape(self._settings.commands_path)
        return html("".join(f'<a href="{prefix}/{name}">{name}</a>\n<br/>\n' for name in NAMES).encode())

    async def _command(self, name: str, request: AdminRequest, host: str) -> AdminReply:
        if name in RESTORE:
            return as_json(Outcome(RESTORE[0], error=RESTORE_REFUSED, status=HTTPStatus.NOT_IMPLEMENTED))
        if (request.method == "POST") is not (name in CHANGING):
            return as_json(_wrong_method(name))
        proof = request.headers.get("authorization")
        if name in SNAPSHOT:
            refusal = self._access.refuse_snapshot(proof, host, now_ms(), probe=request.method == "HEAD")
            if refusal is not None:
                return await _refused(SNAPSHOT[0], refusal)
            answer = await self._backup.answer(request)
            return as_json(answer) if isinstance(answer, Outcome) else answer
        if name in GIVE_UP_HISTORY:
            refusal = self._access.refuse_give_up(proof, host, now_ms())
            return await (self._give_up_history() if refusal is None else _refused(GIVE_UP_HISTORY[0], refusal))
        return as_json(run(name, request.parameters, self._server))

    async def _give_up_history(self) -> AdminReply:
        """Carry out the operator's decision to give up the history of a server that vetoes its leader."""
        command, member = GIVE_UP_HISTORY[0], self._server.member
        try:
            veto = await member.give_up_history()
        except LocalProtocolError as error:
            return as_json(Outcome(command, error=str(error), status=HTTPStatus.CONFLICT))
        values: dict[str, object] = {
            "leader": veto.leader,
            "transactions": veto.count,
            "behind": show(veto.common),
            "committed": show(veto.committed),
            "last": show(veto.last),
            "directory": member.disk_status().path,
            "files": "damaged.*",
        }
        return as_json(Outcome(command, values))


async def _refused(command: str, refusal: Refusal) -> AdminReply:
    await trio.sleep(refusal.pause_ms / 1000)
    return as_json(Outcome(command, error=refusal.why, status=refusal.status))


def _wrong_method(name: str) -> Outcome:
    allowed, why = ("POST", "changes state and requires POST") if name in CHANGING else ("GET, HEAD", "requires GET")
    return Outcome(
        name[:100],
        error=f"The command {name[:100]} {why}",
        status=HTTPStatus.METHOD_NOT_ALLOWED,
        headers=(("Allow", allowed),),
    )


def as_json(outcome: Outcome) -> AdminReply:
    values = {"error": outcome.error, **outcome.values, "command": outcome.command}
    return AdminReply(_lines(values).encode() + b"\n", JSON, outcome.status, outcome.headers)


def _lines(value: object, depth: int = 2, indent: str = "") -> str:
    """Return JSON with a line for each row. `json.dumps` with an indent takes ten times as long."""
    inner = indent + "  "
    if depth and isinstance(value, Mapping) and value:
        rows = [f"{inner}{json.dumps(key)}: {_lines(each, depth - 1, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if depth and isinstance(value, list) and value:
        rows = [f"{inner}{_lines(each, depth - 1, inner)}" for each in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return json.dumps(value)
