"""Answer the requests of visitors: find the handler, bound its time, and turn errors into pages."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import trio

from zab.admin.admin_port import AdminPort
from zab.admin.admin_settings import AdminSettings
from zab.admin.http import AdminReply, AdminRequest, HttpError
from zab.console.console_gate import ConsoleGate, cookie, new_session
from zab.console.layout import ASSETS, HEADERS, field, form, framed, hidden, notice, problems, static_file
from zab.console.page import ConsolePart, Handler, Page, Redirect, Refusal, Visit, url
from zab.host.logs import KeyValueLog

PAGES_MAX: Final = 16
"""The maximum number of pages that are made at the same time."""
PAGE_S: Final = 10.0
"""The time limit of one page. The parts of a page that wait for a server have shorter ones."""
FORM_BYTES_MAX: Final = 256 << 10
"""The encoding of a form takes up to three bytes for one."""


class ConsoleSite:
    """The pages of all parts, the login, and the style sheet. `where` is HTML about the connection, for the footer."""

    def __init__(self, parts: Sequence[ConsolePart], gate: ConsoleGate, where: str, *, page_s: float = PAGE_S) -> None:
        self._parts = parts
        self._gate = gate
        self._where = where
        self._page_s = page_s
        self._open = 0
        """The number of pages that are made now."""
        self._menu = [("Overview", "/"), *(entry for part in parts for entry in part.menu)]
        self._pages: dict[str, tuple[ConsolePart | None, Handler]] = {"/": (None, self._overview)}
        self._forms: dict[str, tuple[ConsolePart, Handler]] = {}
        for part in parts:
            self._pages |= {path: (part, handler) for path, handler in part.pages.items()}
            self._forms |= {path: (part, handler) for path, handler in part.forms.items()}

    async def answer(self, request: AdminRequest, host: str) -> AdminReply:
        """Return the reply to a request: for expected errors, a page with the reason and the matching status."""
        await trio.lowlevel.checkpoint()
        if request.path in ASSETS and request.method != "POST":
            return static_file(request.path)
        session = self._gate.session_of(request)
        try:
            with trio.fail_after(self._page_s):
                return await (self._post if request.method == "POST" else self._get)(request, session, host)
        except Refusal as refusal:
            return self._refused(request, session, refusal)
        except trio.TooSlowError:
            why = f"the page was not complete after {self._page_s:g} s; a server may be slow or unreachable"
            return self._refused(request, session, Refusal(HTTPStatus.GATEWAY_TIMEOUT, why))

    # -- requests ----------------------------------------------------------------------------------

    async def _get(self, request: AdminRequest, session: str | None, host: str) -> AdminReply:
        if not self._gate.admits(session):
            return self._login_page(request, session)
        found = self._pages.get(request.path)
        if found is None:
            why = "this path takes forms only" if request.path in self._forms else "the console has no such page"
            raise Refusal(HTTPStatus.NOT_FOUND, why)
        return await self._handled(*found, self._visit(request, session), session)

    async def _post(self, request: AdminRequest, session: str | None, host: str) -> AdminReply:
        if not self._gate.has_password:
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "this console is read-only: it takes no forms")
        fields = self._gate.checked_form(request, session)
        if request.path == "/login":
            return await self._log_in(request, session, fields, host)
        if request.path == "/logout":
            self._gate.log_out(session)
            return self._see("/")
        if not self._gate.admits(session):
            raise Refusal(HTTPStatus.FORBIDDEN, "log in first; your session may have ended")
        found = self._forms.get(request.path)
        if found is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "the console has no such form")
        if not self._gate.writable:
            raise Refusal(HTTPStatus.FORBIDDEN, "this console is read-only: start it with --writable for changes")
        return await self._handled(*found, self._visit(request, session, fields), session)

    async def _handled(
        self, part: ConsolePart | None, handler: Handler, visit: Visit, session: str | None
    ) -> AdminReply:
        """Make a page, or carry out a form. Logins do not count towards the limit, so guesses keep no visitor out."""
        if self._open >= PAGES_MAX:
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{PAGES_MAX} pages are being made already", (("Retry-After", "1"),)
            )
        self._open += 1
        try:
            made = await handler(visit)
        except Refusal:
            raise
        except Exception as error:
            refusal = None if part is None else part.explain(error, changing=visit.path in self._forms)
            if refusal is None:
                raise
            raise refusal from error
        finally:
            self._open -= 1
        return self._see(made.target) if isinstance(made, Redirect) else self._framed(made, visit.path, session)

    def _visit(self, request: AdminRequest, session: str | None, fields: dict[str, str] | None = None) -> Visit:
        token = self._gate.token(session) if session is not None and self._gate.has_password else ""
        writable = self._gate.writable and self._gate.admits(session)
        return Visit(request.path, request.parameters, fields or {}, token, writable)

    # -- pages of the site itself ------------------------------------------------------------------

    async def _overview(self, visit: Visit) -> Page:
        """Make the sections of all parts at the same time, so that a slow part does not delay the others."""
        sections = [""] * len(self._parts)

        async def make(index: int, part: ConsolePart) -> None:
            sections[index] = await part.overview()

        async with trio.open_nursery() as nursery:
            for index, part in enumerate(self._parts):
                nursery.start_soon(make, index, part)
        return Page("Overview", "".join(sections), refreshes=True)

    def _login_page(
        self, request: AdminRequest, session: str | None, why: str = "", status: HTTPStatus = HTTPStatus.OK
    ) -> AdminReply:
        target = url(request.path, **request.parameters)
        visitor = session or new_session()
        password = '<input type="password" name="password" autocomplete="current-password" required autofocus>'
        fields = hidden("target", target) + field("Password", password) + "<button>Log in</button>"
        body = problems([why] if why else []) + form("/login", self._gate.token(visitor), fields)
        reply = framed(Page("Log in", f'<section class="login">{body}</section>', status), (), "", "", "")
        # The cookie of a visitor without a session only carries the token from this page to the next request.
        headers = HEADERS if session else (*HEADERS, cookie(visitor, None))
        return AdminReply(reply.body, reply.content_type, status, headers)

    async def _log_in(
        self, request: AdminRequest, session: str | None, fields: dict[str, str], host: str
    ) -> AdminReply:
        made = await self._gate.log_in(fields.get("password", ""), host)
        target = local(fields.get("target", "/"))
        if made is None:
            return self._login_page(
                AdminRequest("GET", target), session, "the password is wrong", HTTPStatus.UNAUTHORIZED
            )
        return self._see(target, cookie(made, request.headers.get("origin")))

    def _refused(self, request: AdminRequest, session: str | None, refusal: Refusal) -> AdminReply:
        body = f'{notice(str(refusal))}<p><a href="/">Overview</a></p>'
        page = Page(f"{refusal.status.value} {refusal.status.phrase}", body, refusal.status)
        return self._framed(page, request.path, session)

    def _framed(self, page: Page, path: str, session: str | None) -> AdminReply:
        if not self._gate.admits(session):
            return framed(page, (), "", "", "")
        token = self._gate.token(session) if session is not None and self._gate.has_password else ""
        return framed(page, self._menu, path, self._where, token)

    def _see(self, target: str, *headers: tuple[str, str]) -> AdminReply:
        return AdminReply(status=HTTPStatus.SEE_OTHER, headers=(*HEADERS, ("Location", target), *headers))


def local(target: str) -> str:
    """Return the target if it is an address within the console, else `/`: a form must not lead to another site."""
    good = target.isascii() and target.isprintable() and " " not in target and "\\" not in target
    return target if good and target.startswith("/") and not target.startswith("//") else "/"


async def run_console(
    parts: Sequence[ConsolePart],
    settings: AdminSettings,
    gate: ConsoleGate,
    where: str,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the console until cancelled. `task_status` is started with the number of the port.

    Raise `CannotListen` if the port cannot be opened.
    """
    site = ConsoleSite(parts, gate, where)
    async with trio.open_nursery() as nursery:
        for part in parts:
            nursery.start_soon(part.run)
        log = KeyValueLog("zab", dict)
        port = AdminPort(settings, site.answer, log, hosts_setting="the option --allowed-host of the console")
        await port.run(task_status)
