"""Which requests may come from a page of another site, and are refused."""

from __future__ import annotations

import socket
from http import HTTPStatus

import pytest

from zab.admin import browser_guard
from zab.admin.browser_guard import BrowserGuard
from zab.admin.http import AdminRequest, HttpError
from zab.admin.http_connection import HttpConnection

HERE = {"host": "127.0.0.1:8080"}


async def status_of(guard: BrowserGuard, request: AdminRequest) -> HTTPStatus:
    try:
        await guard.check(request)
    except HttpError as error:
        return error.status
    return HTTPStatus.OK


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> BrowserGuard:
    monkeypatch.setattr(socket, "gethostname", lambda: "Db7")
    monkeypatch.setattr(socket, "getfqdn", lambda name: f"{name}.corp.example")
    return BrowserGuard(["allowed.example", "0.0.0.0"], lambda: ("Zoo1.example", None))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:8080", "10.1.2.3:8080", "[::1]", "[::1]:8080", "[fe80::1]:80", "localhost",
        "LOCALHOST:1", "localhost.:8080", "Allowed.Example:8080", "zoo1.example:8080", "db7", "DB7:80",
        "db7.corp.example:8080",
    ],
)  # fmt: skip
async def test_an_address_and_a_name_of_this_server_are_accepted(guard: BrowserGuard, host: str) -> None:
    assert await status_of(guard, AdminRequest("GET", "/", headers={"host": host})) == HTTPStatus.OK


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "db7.evil.example",
        "127.1", "2130706433", "", ":8080", "[evil.example]:80", "localhost@evil.example", "embedded.invalid",
    ],
)  # fmt: skip
async def test_a_name_that_an_attacker_may_have_chosen_is_refused(guard: BrowserGuard, host: str) -> None:
    assert await status_of(guard, AdminRequest("GET", "/", headers={"host": host})) == HTTPStatus.MISDIRECTED_REQUEST


async def test_the_refusal_names_the_settings(guard: BrowserGuard) -> None:
    with pytest.raises(HttpError, match=r"evil\.example.*admin\.allowedHosts.*zab\.operators\.hosts"):
        await guard.check(AdminRequest("GET", "/", headers={"host": "evil.example"}))


async def test_refusal_names_the_setting_of_its_port() -> None:
    guard = BrowserGuard([], setting="the option --allowed-host of the console")
    with pytest.raises(HttpError, match="list the name in the option --allowed-host of the console$"):
        await guard.check(AdminRequest("GET", "/", headers={"host": "evil.example"}))


async def test_allowed_hosts_can_be_any_or_missing() -> None:
    assert (
        await status_of(BrowserGuard(["*"]), AdminRequest("GET", "/", headers={"host": "evil.example"}))
        == HTTPStatus.OK
    )
    assert await status_of(BrowserGuard([]), AdminRequest("GET", "/")) == HTTPStatus.OK


async def test_names_of_the_machine_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[str] = []

    def names() -> frozenset[str]:
        lookups.append("db7")
        return frozenset(lookups)

    monkeypatch.setattr(browser_guard, "_names_of_machine", names)
    guard = BrowserGuard([])
    for host in ("127.0.0.1", "localhost", "db7", "evil.example", "other.example"):
        await status_of(guard, AdminRequest("GET", "/", headers={"host": host}))
    assert len(lookups) == 1


def test_the_host_of_an_absolute_url_counts_more_than_the_header() -> None:
    reader = HttpConnection(1000, 0)
    reader.feed(b"GET http://evil.example/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    request = reader.next()
    assert request is not None
    assert (request.path, request.headers["host"]) == ("/x", "evil.example")


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {}, 200),
        ("POST", {"origin": "http://127.0.0.1:8080"}, 200),
        ("POST", {"origin": "https://127.0.0.1:8080", "sec-fetch-site": "same-origin"}, 200),
        ("POST", {"origin": "http://127.0.0.1"}, 403),
        ("POST", {"origin": "http://evil.example"}, 403),
        ("POST", {"origin": "null"}, 403),
        ("POST", {"origin": ""}, 403),
        ("POST", {"sec-fetch-site": "cross-site"}, 403),
        ("POST", {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 403),
        ("GET", {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
        ("GET", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 200),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, 403),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ("HEAD", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
    ],
)
async def test_a_request_of_another_site(method: str, headers: dict[str, str], status: int) -> None:
    assert await status_of(BrowserGuard([]), AdminRequest(method, "/", headers={**HERE, **headers})) == status
