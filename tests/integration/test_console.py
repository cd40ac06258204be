"""The console of the store over HTTP: what it shows, what ACLs hide, what it changes, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import pytest
import trio

import zab
from bench.ports import free_port
from tests.integration.browser import Browser, needs_browser, open_browser
from tests.integration.http_client import Answer, get
from tests.integration.stores import stores
from zab.admin.admin_settings import AdminSettings
from zab.admin.markup import number
from zab.cli.console_options import console_settings
from zab.console import node_pages
from zab.console.admin_reports import AdminUrl
from zab.console.console_gate import ConsoleGate
from zab.console.console_site import run_console
from zab.console.page import ConsolePart
from zab.console.store_part import StorePart
from zab.testing import MemoryStore, open_memory_store

HOST: Final = "127.0.0.1"
PASSWORD: Final = "opensesame"
HOSTILE: Final = "<script>alert(1)"


@asynccontextmanager
async def console(
    parts: Sequence[ConsolePart], gate: ConsoleGate | None = None, hosts: Sequence[str] = ()
) -> AsyncIterator[int]:
    """Serve a console, and return its port."""
    async with trio.open_nursery() as nursery:
        settings = console_settings(HOST, 0, hosts)
        yield await nursery.start(run_console, parts, settings, gate or ConsoleGate(), "here")
        nursery.cancel_scope.cancel()


def of_memory(store: MemoryStore, admin: Sequence[AdminUrl] = ()) -> StorePart:
    return StorePart("memory:2181", store.session, admin)


def node(path: str, **more: object) -> str:
    return f"/node?{urlencode({'path': path, **more})}"


async def log_in(port: int) -> tuple[dict[str, str], str]:
    """Return the headers of a session, and the token of its forms."""
    form = await get(port, "/")
    sent = {"token": token(form), "password": PASSWORD, "target": "/"}
    entered = await send(port, "/login", {"Cookie": form.headers["set-cookie"].partition(";")[0]}, **sent)
    assert entered.status == 303
    session = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
    return session, token(await get(port, "/", "GET", None, **session))


async def send(port: int, form: str, headers: dict[str, str], /, **fields: object) -> Answer:
    return await get(port, form, "POST", urlencode(fields).encode(), **headers)


def token(page: Answer) -> str:
    found = re.search(r'name="token" value="(\w+)"', page.text)
    assert found is not None
    return found[1]


# -- reading -------------------------------------------------------------------------------------------


async def test_nodes_can_be_browsed_and_nothing_in_them_is_markup() -> None:
    async with open_memory_store() as store, store.session() as session, console([of_memory(store)]) as port:
        await session.ensure_path("/app/workers")
        await session.create("/app/config", json.dumps({"a": [HOSTILE]}).encode())
        await session.create(f"/app/{HOSTILE}", HOSTILE.encode())
        await session.create("/app/bytes", bytes(range(256)))
        await session.create("/app/large", b"x" * 900_000)
        for index in range(250):
            await session.create(f"/app/workers/w{index:03}")
        root = await get(port, "/node")
        assert f'href="{node("/app")}"' in unescape(root.text)
        app = await get(port, node("/app"))
        assert HOSTILE not in app.text
        assert f'href="{node(f"/app/{HOSTILE}")}"' in app.text
        hostile = await get(port, node(f"/app/{HOSTILE}"))
        assert hostile.status == 200
        assert HOSTILE not in hostile.text
        assert HOSTILE in unescape(hostile.text)
        shown = unescape((await get(port, node("/app/config"))).text)
        assert f'"a": [\n    "{HOSTILE}"\n  ]' in shown
        assert "world:anyone" in shown
        assert "version of the data" in shown
        assert "00000010  10 11 12" in (await get(port, node("/app/bytes"))).text
        assert "7b 22 61 22" in (await get(port, node("/app/config", **{"as": "hex"}))).text
        large = await get(port, node("/app/large"))
        assert f"This has {number(900_000)} bytes" in large.text
        assert len(large.body) < 5_000
        workers = await get(port, node("/app/workers"))
        assert "w199<" in workers.text
        assert "w200<" not in workers.text
        assert "w249<" in (await get(port, node("/app/workers", page=1))).text
        filtered = await get(port, node("/app/workers", filter="24"))
        assert "w249<" in filtered.text
        assert "w199<" not in filtered.text
        assert (await get(port, node("/missing"))).status == 404
        assert (await get(port, node("/app//"))).status == 400


async def test_more_children_than_the_bound_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_pages, "CHILDREN_MAX", 10)
    async with open_memory_store() as store, store.session() as session, console([of_memory(store)]) as port:
        await session.create("/many")
        for index in range(11):
            await session.create(f"/many/child-{index}")
        page = await get(port, node("/many"))
        assert page.status == 200
        assert "This node has 11 children. The console lists at most 10" in page.text
        assert "child-1" not in page.text


async def test_acl_hides_a_node_from_the_console_and_its_visitors() -> None:
    async with open_memory_store() as store, store.session() as session:
        await session.create("/secret", b"hidden words", acl=zab.digest_acl("bob", "pw"))
        async with console([of_memory(store)]) as port:
            page = await get(port, node("/secret"))
            assert page.status == 403
            assert "the ACL does not permit this to the identity of the console" in page.text
            assert "hidden words" not in page.text
            assert ">secret</a>" in (await get(port, "/node")).text

        @asynccontextmanager
        async def as_bob() -> AsyncIterator[zab.Session]:
            async with store.session() as bob:
                await bob.add_auth("digest", b"bob:pw")
                yield bob

        async with console([StorePart("memory:2181", as_bob)]) as port:
            assert "hidden words" in (await get(port, node("/secret"))).text


async def test_foreign_pages_can_neither_read_nor_send_anything() -> None:
    async with open_memory_store() as store, console([of_memory(store)], hosts=["console.example"]) as port:
        assert (await get(port, "/", Host="evil.example")).status == 421
        assert (await get(port, "/", Host="console.example")).status == 200
        assert (await get(port, "/", "GET", None, **{"Sec-Fetch-Site": "cross-site"})).status == 403
        assert (await get(port, "/node/set", "POST", b"path=/", Origin="http://evil.example")).status == 403
        assert (await get(port, "/node/set", "POST", b"path=/")).status == 405
        assert (await get(port, "/node/set")).status == 404


# -- changing ------------------------------------------------------------------------------------------


async def test_logged_in_visitor_creates_sets_and_deletes_a_node_at_the_version_shown() -> None:
    gate = ConsoleGate(PASSWORD, writable=True)
    async with open_memory_store() as store, store.session() as session, console([of_memory(store)], gate) as port:
        await session.create("/app", b"old words")
        assert "old words" not in (await get(port, node("/app"))).text
        headers, valid = await log_in(port)
        form = (await get(port, node("/app"), "GET", None, **headers)).text
        assert 'name="version" value="0"' in form
        assert (await send(port, "/node/set", headers, path="/app", data="new", version=0)).status == 403
        assert (await session.get("/app"))[0] == b"old words"
        fields = {"token": valid, "path": "/app", "version": 0}
        set_ = await send(port, "/node/set", headers, **fields, data="<b>\r\nnew")
        assert (set_.status, set_.headers["location"]) == (303, node("/app"))
        assert (await session.get("/app"))[0] == b"<b>\nnew"
        conflict = await send(port, "/node/set", headers, **fields, data="again")
        assert conflict.status == 409
        assert "bad version" in conflict.text
        assert (await send(port, "/node/set", headers, token=valid, path="/app", data="x")).status == 400
        assert (
            await send(port, "/node/set", headers, **fields | {"version": 1}, data="00 ff", **{"as": "hex"})
        ).status == 303
        assert (await session.get("/app"))[0] == b"\x00\xff"
        made = await send(port, "/node/create", headers, token=valid, path="/app", name="child", data="1")
        assert made.headers["location"] == node("/app/child")
        assert (await send(port, "/node/create", headers, token=valid, path="/app", name="child")).status == 409
        assert (await send(port, "/node/create", headers, token=valid, path="/app", name="a/b")).status == 404
        delete = {"token": valid, "path": "/app/child", "version": 0}
        assert (await send(port, "/node/delete", headers, **delete)).status == 400
        assert (await send(port, "/node/delete", headers, **delete, sure="yes")).status == 303
        assert await session.exists("/app/child") is None
        large = await send(port, "/node/set", headers, **fields | {"version": 2}, data="x" * 70_000)
        assert large.status == 413
        assert (await get(port, "/node/set", "POST", b"a" * 1_000_000, **headers)).status == 413


async def test_new_nodes_get_the_acl_of_the_parent_and_masked_digests_are_not_copied() -> None:
    gate = ConsoleGate(PASSWORD, writable=True)
    async with open_memory_store() as store, store.session() as session, console([of_memory(store)], gate) as port:
        readable = (*zab.READ_ONLY_ACL, (zab.Permission.CREATE.value, "world", "anyone"))
        await session.create("/readable", acl=readable)
        await session.create("/bobs", acl=(*zab.digest_acl("bob", "pw"), *readable))
        headers, valid = await log_in(port)
        assert (await send(port, "/node/create", headers, token=valid, path="/readable", name="a")).status == 303
        assert (await session.acl("/readable/a"))[0] == (await session.acl("/readable"))[0]
        assert (await send(port, "/node/create", headers, token=valid, path="/bobs", name="a")).status == 403
        opened = await send(port, "/node/create", headers, token=valid, path="/bobs", name="a", acl="open")
        assert opened.status == 303
        assert (await session.acl("/bobs/a"))[0] == zab.OPEN_ACL


# -- servers -------------------------------------------------------------------------------------------


async def test_servers_report_through_their_admin_ports_and_a_dead_one_is_a_line(tmp_path: Path) -> None:
    async with stores(tmp_path, 1, admin=(AdminSettings(port=0),)) as made:
        server = made.servers[1]
        assert server.ports.admin is not None
        dead = AdminUrl(HOST, free_port())
        part = StorePart(made.hosts(), lambda: zab.connect(made.hosts()), [AdminUrl(HOST, server.ports.admin), dead])
        async with zab.connect(made.hosts()) as session, console([part]) as port:
            await session.create("/watched")
            async with session.watch("/watched"):
                page = await get(port, node("/watched", watches=1))
                assert f"{session.id & 0xFFFF_FFFF_FFFF_FFFF:#x}" in page.text
                assert f"http://127.0.0.1:{dead.port}/ it does not list its watches" in unescape(page.text)
            while len(server.sampler.samples) < 2:
                await trio.sleep(0.1)
            servers = await get(port, "/servers")
            assert "Healthy" in servers.text
            assert f"http://127.0.0.1:{dead.port}/: it cannot be reached" in servers.text
            assert servers.text.count('class="chart"') == 2
            one = await get(port, "/server?id=1")
            assert one.text.count('class="chart"') == 4
            assert "mean of each second</title>" in one.text
            assert "none since the start" in one.text or " UTC</td>" in one.text.partition("Elections")[2]
            missing = await get(port, "/server?id=77")
            assert (missing.status, "there is no server 77 in the ensemble" in missing.text) == (404, True)
            overview = await get(port, "/")
            assert "1 of 1" in overview.text
            assert "it cannot be reached" in overview.text


# -- in a browser --------------------------------------------------------------------------------------


def use_by_keyboard(url: str, folder: Path) -> list[str]:
    """Log in, skip to the content, follow a link, and create a node, without a pointer. Return the browser's errors."""
    with open_browser(folder) as browser:
        browser.resize(390, 844)
        browser.open(url)
        browser.type(PASSWORD)  # the field has the focus
        browser.press("Enter")
        browser.wait("document.title.startsWith('Overview')")
        browser.press("Tab")
        assert focused(browser) == "Skip to the content"
        assert browser.evaluate("document.activeElement.getBoundingClientRect().left >= 0")
        browser.press("Enter", "Tab")
        assert browser.evaluate("document.querySelector('main').contains(document.activeElement)")
        browser.open(f"{url}node?path=/app")
        tab_to(browser, "INPUT", "name")
        browser.type("<b>child")
        browser.press("Tab")
        browser.type("line one")
        browser.press("Tab", "Tab", "Enter")
        browser.wait("document.title.startsWith('Node /app/<b>child')")
        assert browser.evaluate("document.querySelector('pre').textContent") == "line one"
        assert browser.evaluate("document.querySelectorAll('main b').length") == 1
        for path in ("", "servers", "node?path=/", f"node?path={quote('/app/long')}"):
            browser.open(url + path)
            widths = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert widths == [390, 390], path
        return browser.errors


def focused(browser: Browser) -> str:
    found: str = browser.evaluate("document.activeElement.textContent")
    return found


def tab_to(browser: Browser, tag: str, name: str) -> None:
    for _ in range(100):
        browser.press("Tab")
        if browser.evaluate(f"document.activeElement.tagName == '{tag}' && document.activeElement.name == '{name}'"):
            return
    raise AssertionError(f"{name} cannot be reached by Tab")


@needs_browser
@pytest.mark.slow
async def test_console_is_usable_by_keyboard_on_a_narrow_screen(tmp_path: Path) -> None:
    gate = ConsoleGate(PASSWORD, writable=True)
    async with open_memory_store() as store, store.session() as session, console([of_memory(store)], gate) as port:
        await session.create("/app", b"data")
        await session.create("/app/long", b"w" * 3_000)
        errors = await trio.to_thread.run_sync(use_by_keyboard, f"http://{HOST}:{port}/", tmp_path / "browser")
        assert not errors
        assert (await session.get("/app/<b>child"))[0] == b"line one"
