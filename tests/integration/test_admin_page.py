"""The status page in a real browser, without a window."""

from __future__ import annotations

import re
import shutil
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path

import pytest
import trio

from tests.integration.http_client import get
from tests.integration.stores import Stores, stores
from zab.admin.admin_port import AdminPort, Answer
from zab.admin.admin_settings import AdminSettings
from zab.admin.http import AdminReply, AdminRequest, HttpError
from zab.admin.markup import framed, html
from zab.core.zxid import Epoch, ServerId
from zab.host.logs import Log
from zab.runtime.admin.store_site import StoreSite

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ADMIN = (AdminSettings(port=0),)

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium to look at the page with: apt install chromium")


REFUSED_BY_POLICY = "Content Security Policy"


async def browse(url: str, folder: Path) -> str:
    """Return the document, of which the policy must not have kept anything from working."""
    document, console = await look(url, folder)
    assert REFUSED_BY_POLICY not in console
    return document


async def look(url: str, folder: Path) -> tuple[str, str]:
    """Return the document after its script has run for some seconds of the browser's own time, and the console."""
    command = [
        BROWSER or "",
        *FLAGS,
        f"--user-data-dir={folder}",
        "--virtual-time-budget=4000",
        "--enable-logging=stderr",
        "--dump-dom",
        url,
    ]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True)
    return done.stdout.decode(), done.stderr.decode("utf-8", "replace")


class Rows(HTMLParser):
    """Return the table of members: server -> the text of its cells."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.rows: dict[int, list[str]] = {}
        self._row: list[str] | None = None
        self.feed(document)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            server = dict(attributes).get("data-server")
            self._row = None if server is None else self.rows.setdefault(int(server), [])
        elif tag == "td" and self._row is not None:
            self._row.append("")

    def handle_data(self, data: str) -> None:
        if self._row:
            self._row[-1] += data


def modes(document: str) -> dict[int, str]:
    return {sid: cells[1].split(" ", 1)[1].strip() for sid, cells in Rows(document).rows.items()}


async def settled(made: Stores) -> tuple[int, str]:
    """Return the leader, and the page address of a follower, once every server has a report of every other."""
    leader = await made.leader()
    port = next(server.ports.admin for sid, server in made.servers.items() if sid != leader)
    while True:
        told = (await get(port, "/status.json")).json
        if (
            told["health"] != "starting"
            and told["leader"] == leader
            and all(each["connected"] for each in told["members"] if each["id"] in made.servers)
        ):
            return leader, f"http://127.0.0.1:{port}/"
        await trio.sleep(0.05)


@needs_browser
@pytest.mark.slow
async def test_three_members_and_another_leader_when_the_first_is_stopped(tmp_path: Path) -> None:
    async with stores(tmp_path / "data", 3, admin=ADMIN) as made:
        leader, url = await settled(made)
        document = await browse(url, tmp_path / "one")
        assert modes(document) == {sid: "leads" if sid == leader else "follows" for sid in (1, 2, 3)}
        assert "Healthy" in document
        await made.stop(leader)
        successor, url = await settled(made)
        document = await browse(url, tmp_path / "two")
        assert modes(document)[successor] == "leads"
        assert modes(document)[leader] in ("missing", "unreachable")
        assert "Needs attention" in document


@asynccontextmanager
async def answered(answer: Answer) -> AsyncIterator[str]:
    async with trio.open_nursery() as nursery:
        admin = AdminPort(AdminSettings(port=0), answer, Log(ServerId(1), lambda: Epoch(1)))
        yield f"http://127.0.0.1:{await nursery.start(admin.run)}/"
        nursery.cancel_scope.cancel()


@needs_browser
@pytest.mark.slow
async def test_script_refreshes_the_page_and_reports_failures(tmp_path: Path) -> None:
    """The page is served empty, so its later content comes from the script."""
    async with stores(tmp_path / "data", 3, admin=ADMIN) as made:
        site = StoreSite(made.servers[await made.leader()], AdminSettings())
        silent = False

        async def answer(request: AdminRequest, host: str) -> AdminReply:
            if request.path == "/":
                return html(framed("? page", "<header><span class=sign>?</span></header>"))
            if silent:
                raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "silent")
            return await site.answer(request, host)

        async with answered(answer) as url:
            document = await browse(url, tmp_path / "one")
            assert len(modes(document)) == 3
            assert 'class="stale"' not in document
            silent = True
            assert 'class="stale"' in await browse(url, tmp_path / "two")


@needs_browser
@pytest.mark.slow
async def test_the_policy_keeps_a_script_that_a_value_brought_from_running(tmp_path: Path) -> None:
    async def answer(request: AdminRequest, host: str) -> AdminReply:
        return html(framed("? page", "<header><script>document.title = 'injected'</script></header>"))

    async with answered(answer) as url:
        document, console = await look(url, tmp_path / "browser")
    assert "<title>injected</title>" not in document
    assert REFUSED_BY_POLICY in console


async def test_the_page_is_whole_without_a_script_and_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        leader, url = await settled(made)
        page = await get(int(url.rsplit(":", 1)[1].strip("/")), "/")
    assert modes(page.text)[leader] == "leads"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for element in ("style", "script"):
        (text,) = re.findall(f"<{element}>(.*?)</{element}>", page.text, flags=re.S)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}';" in policy
    assert "style=" not in page.text
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page.text)
