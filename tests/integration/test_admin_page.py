"""The status page in a real browser, without a window."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
import trio

from tests.integration.http_client import get
from tests.integration.stores import Stores, stores
from zab.runtime.admin.settings import AdminSettings

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


async def browse(url: str, folder: Path, *flags: str) -> str:
    """The document after the page's script has run for some seconds of the browser's own time."""
    command = [
        BROWSER or "",
        *FLAGS,
        f"--user-data-dir={folder}",
        "--virtual-time-budget=4000",
        *flags,
        "--dump-dom",
        url,
    ]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True)
    return done.stdout.decode()


class Rows(HTMLParser):
    """What stands in the table of members: by server, the text of its cells."""

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
    """The leader, and the address of the page of one who follows, when everybody has heard of everybody."""
    leader = await made.leader()
    port = next(server.admin_port for sid, server in made.servers.items() if sid != leader)
    while True:
        told = (await get(port, "/status.json")).json
        if told["leader"] == leader and all(
            each["connected"] for each in told["members"] if each["id"] in made.servers
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
        assert modes(document)[leader] in ("lost", "not reached")
        assert "Needs a look" in document


@needs_browser
@pytest.mark.slow
async def test_the_script_brings_the_page_up_to_date_and_says_when_it_cannot(tmp_path: Path) -> None:
    """The page is held back until it was served: what it shows then, only the script can have brought."""
    async with stores(tmp_path / "data", 3, admin=ADMIN) as made:
        _, url = await settled(made)
        whole = (await get(int(url.rsplit(":", 1)[1].strip("/")), "/")).text
        old = re.sub(r"<main>.*</main>", "<main><header><span class=sign>?</span></header></main>", whole, flags=re.S)
        await trio.Path(tmp_path / "old.html").write_text(old.replace('"status.html"', f'"{url}status.html"'))
        relaxed = "--disable-web-security"  # the file stands elsewhere than what it asks for
        document = await browse(f"file://{tmp_path}/old.html", tmp_path / "one", relaxed)
        assert len(modes(document)) == 3
        assert 'class="stale"' not in document
    document = await browse(f"file://{tmp_path}/old.html", tmp_path / "two", relaxed)
    assert 'class="stale"' in document


async def test_the_page_is_whole_without_a_script_and_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        leader, url = await settled(made)
        page = await get(int(url.rsplit(":", 1)[1].strip("/")), "/")
    assert modes(page.text)[leader] == "leads"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page.text)
