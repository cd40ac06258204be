"""The console's site: its bounds, the password, and the tokens of forms. No server and no socket is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from urllib.parse import urlencode

import pytest
import trio
import trio.testing

from zab.admin.http import AdminReply, AdminRequest, HttpError
from zab.console import console_site
from zab.console.console_gate import SESSION_S, SESSIONS_MAX, ConsoleGate
from zab.console.console_site import PAGES_MAX, ConsoleSite
from zab.console.page import Handler, Page, Redirect, Refusal, Visit

HOST = "127.0.0.1"
PASSWORD = "opensesame"


class Part:
    menu: Sequence[tuple[str, str]] = (("Things", "/things"),)

    def __init__(self, handler: Handler | None = None) -> None:
        self.changes: list[Visit] = []
        self.pages: Mapping[str, Handler] = {"/things": handler or self._page}
        self.forms: Mapping[str, Handler] = {"/things/change": self._change}

    async def _page(self, visit: Visit) -> Page:
        return Page("Things", f"writable={visit.writable}")

    async def _change(self, visit: Visit) -> Redirect:
        self.changes.append(visit)
        return Redirect("/things?id=1")

    async def overview(self) -> str:
        return "<p>all is well</p>"

    def explain(self, error: Exception, *, changing: bool = False) -> Refusal | None:
        return Refusal(HTTPStatus.NOT_FOUND, f"explained: {error}") if isinstance(error, LookupError) else None

    async def run(self) -> None: ...


def get(path: str, cookie: str = "", **parameters: str) -> AdminRequest:
    return AdminRequest("GET", path, parameters, {"cookie": cookie} if cookie else {})


def post(path: str, cookie: str, **fields: str) -> AdminRequest:
    return AdminRequest("POST", path, {}, {"cookie": cookie}, urlencode(fields).encode())


def text(reply: AdminReply) -> str:
    return reply.body.decode()


def token(reply: AdminReply) -> str:
    found = re.search(r'name="token" value="(\w+)"', text(reply))
    assert found is not None
    return found[1]


def cookie(reply: AdminReply) -> str:
    return dict(reply.headers)["Set-Cookie"].partition(";")[0]


async def logged_in(site: ConsoleSite, target: str = "/") -> tuple[str, str]:
    """Return the cookie of a new session, and the token of its forms."""
    form = await site.answer(get(target), HOST)
    fields = {"token": token(form), "password": PASSWORD, "target": target}
    entered = await site.answer(post("/login", cookie(form), **fields), HOST)
    assert entered.status is HTTPStatus.SEE_OTHER
    assert dict(entered.headers)["Location"] == target
    session = cookie(entered)
    assert session != cookie(form)
    return session, token(await site.answer(get("/", session), HOST))


def on_virtual_time(test: Callable[[], object]) -> None:
    trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))  # type: ignore[arg-type]


# -- bounds --------------------------------------------------------------------------------------------


async def test_pages_have_frames_and_unknown_ones_are_404() -> None:
    site = ConsoleSite([Part()], ConsoleGate(), "Store <b>")
    overview = await site.answer(get("/"), HOST)
    assert "all is well" in text(overview)
    assert 'href="/things"' in text(overview)
    assert 'href="#main"' in text(overview)
    assert (await site.answer(get("/nothing"), HOST)).status is HTTPStatus.NOT_FOUND
    style = await site.answer(get("/console.css"), HOST)
    assert style.content_type.startswith("text/css")
    assert "prefers-color-scheme: dark" in text(style)
    assert "function morph" in text(await site.answer(get("/console.js"), HOST))


def test_slow_page_is_replaced_after_its_time_limit() -> None:
    async def slow(visit: Visit) -> Page:
        await trio.sleep_forever()
        raise AssertionError

    async def main() -> None:
        site = ConsoleSite([Part(slow)], ConsoleGate(), "")
        began = trio.current_time()
        reply = await site.answer(get("/things"), HOST)
        assert reply.status is HTTPStatus.GATEWAY_TIMEOUT
        assert "not complete after 10 s" in text(reply)
        assert trio.current_time() - began == pytest.approx(console_site.PAGE_S)

    on_virtual_time(main)


def test_too_many_pages_at_a_time_are_refused_at_once() -> None:
    async def main() -> None:
        release = trio.Event()

        async def waits(visit: Visit) -> Page:
            await release.wait()
            return Page("Things", "")

        site = ConsoleSite([Part(waits)], ConsoleGate(), "")
        replies: list[AdminReply] = []

        async def visit() -> None:
            replies.append(await site.answer(get("/things"), HOST))

        async with trio.open_nursery() as nursery:
            for _ in range(PAGES_MAX):
                nursery.start_soon(visit)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(HttpError, match=f"{PAGES_MAX} pages") as refused:
                await site.answer(get("/things"), HOST)
            assert refused.value.status is HTTPStatus.SERVICE_UNAVAILABLE
            release.set()
        assert len(replies) == PAGES_MAX
        assert (await site.answer(get("/things"), HOST)).status is HTTPStatus.OK

    on_virtual_time(main)


async def test_expected_errors_are_pages_and_others_are_raised() -> None:
    async def fails(visit: Visit) -> Page:
        raise LookupError("<b>gone") if visit.parameters.get("expected") else ZeroDivisionError("bug")

    site = ConsoleSite([Part(fails)], ConsoleGate(), "")
    reply = await site.answer(get("/things", expected="1"), HOST)
    assert reply.status is HTTPStatus.NOT_FOUND
    assert "explained: &lt;b&gt;gone" in text(reply)
    with pytest.raises(ZeroDivisionError):  # `AdminPort` logs it, and replies with a 500
        await site.answer(get("/things"), HOST)
    assert (await site.answer(get("/"), HOST)).status is HTTPStatus.OK


# -- passwords and forms -------------------------------------------------------------------------------


async def test_without_a_password_every_form_is_refused() -> None:
    part = Part()
    site = ConsoleSite([part], ConsoleGate(), "")
    reply = await site.answer(post("/things/change", ""), HOST)
    assert reply.status is HTTPStatus.METHOD_NOT_ALLOWED
    assert not part.changes
    with pytest.raises(AssertionError):
        ConsoleGate(writable=True)


async def test_nothing_is_shown_before_the_login() -> None:
    site = ConsoleSite([Part()], ConsoleGate(PASSWORD), "the place")
    for path in ("/", "/things", "/nothing"):
        reply = await site.answer(get(path), HOST)
        assert "password" in text(reply)
        assert "all is well" not in text(reply)
        assert "the place" not in text(reply)
        assert "Things" not in text(reply)
    session, _ = await logged_in(site, "/things")
    assert "writable=False" in text(await site.answer(get("/things", session), HOST))


async def test_session_cookie_is_for_http_and_this_site_only() -> None:
    site = ConsoleSite([Part()], ConsoleGate(PASSWORD), "")
    form = await site.answer(get("/"), HOST)
    request = post("/login", cookie(form), token=token(form), password=PASSWORD)
    entered = await site.answer(request, HOST)
    assert dict(entered.headers)["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Path=/")
    request = AdminRequest("POST", "/login", {}, {**request.headers, "origin": "https://console"}, request.body)
    assert "; Secure" in dict((await site.answer(request, HOST)).headers)["Set-Cookie"]


async def test_change_needs_a_session_a_token_and_permission() -> None:
    part = Part()
    site = ConsoleSite([part], ConsoleGate(PASSWORD, writable=True), "")
    session, valid = await logged_in(site)
    other_session, other = await logged_in(site)
    assert other_session != session
    refused = [
        post("/things/change", session),
        post("/things/change", session, token=other),
        post("/things/change", session, token=valid[:-1]),
        post("/things/change", "", token=valid),
        post("/things/change", "zab-console=invented", token=valid),
    ]
    before = await site.answer(get("/"), HOST)
    refused.append(post("/things/change", cookie(before), token=token(before)))  # a valid token, but no login
    for request in refused:
        assert (await site.answer(request, HOST)).status is HTTPStatus.FORBIDDEN
    assert not part.changes
    made = await site.answer(post("/things/change", session, token=valid, a="1"), HOST)
    assert (made.status, dict(made.headers)["Location"]) == (HTTPStatus.SEE_OTHER, "/things?id=1")
    assert part.changes[0].form == {"token": valid, "a": "1"}
    read_only = ConsoleSite([part], ConsoleGate(PASSWORD), "")
    session, valid = await logged_in(read_only)
    reply = await read_only.answer(post("/things/change", session, token=valid), HOST)
    assert reply.status is HTTPStatus.FORBIDDEN
    assert "--writable" in text(reply)


async def test_malformed_and_large_forms_are_refused() -> None:
    site = ConsoleSite([Part()], ConsoleGate(PASSWORD, writable=True), "")
    session, _ = await logged_in(site)
    for body, status in (
        (None, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"\xff=1", HTTPStatus.BAD_REQUEST),
        (b"&".join(b"a=1" for _ in range(100)), HTTPStatus.BAD_REQUEST),
    ):
        request = AdminRequest("POST", "/things/change", {}, {"cookie": session}, body)
        assert (await site.answer(request, HOST)).status is status


async def test_logout_ends_the_session() -> None:
    site = ConsoleSite([Part()], ConsoleGate(PASSWORD), "")
    session, valid = await logged_in(site)
    assert (await site.answer(post("/logout", session, token="no"), HOST)).status is HTTPStatus.FORBIDDEN
    assert "all is well" in text(await site.answer(get("/", session), HOST))
    await site.answer(post("/logout", session, token=valid), HOST)
    assert "all is well" not in text(await site.answer(get("/", session), HOST))


def test_wrong_passwords_are_delayed_more_and_more_and_sessions_end() -> None:
    async def main() -> None:
        site = ConsoleSite([Part()], ConsoleGate(PASSWORD), "")
        form = await site.answer(get("/"), HOST)
        delays = []
        for _ in range(4):
            began = trio.current_time()
            reply = await site.answer(post("/login", cookie(form), token=token(form), password="guess"), HOST)
            assert reply.status is HTTPStatus.UNAUTHORIZED
            delays.append(trio.current_time() - began)
        assert delays == sorted(delays)
        assert delays[-1] > 4 * delays[0] > 0
        session, _ = await logged_in(site)
        await trio.sleep(SESSION_S + 1)
        assert "all is well" not in text(await site.answer(get("/", session), HOST))

    on_virtual_time(main)


def test_guesses_keep_no_logged_in_visitor_out() -> None:
    async def main() -> None:
        site = ConsoleSite([Part()], ConsoleGate(PASSWORD), "")
        session, _ = await logged_in(site)
        form = await site.answer(get("/"), HOST)
        statuses = []

        async def guess(host: str) -> None:
            request = post("/login", cookie(form), token=token(form), password="guess")
            statuses.append((await site.answer(request, host)).status)

        async with trio.open_nursery() as nursery:
            for index in range(4 * PAGES_MAX):
                nursery.start_soon(guess, f"10.0.0.{index % 5}")
            await trio.testing.wait_all_tasks_blocked()
            assert "all is well" in text(await site.answer(get("/", session), HOST))
        assert set(statuses) == {HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS}

    on_virtual_time(main)


async def test_number_of_sessions_is_bounded() -> None:
    gate = ConsoleGate(PASSWORD)
    sessions = [await gate.log_in(PASSWORD, HOST) for _ in range(SESSIONS_MAX + 1)]
    assert not gate.admits(sessions[0])
    assert gate.admits(sessions[1])
    assert gate.admits(sessions[-1])
