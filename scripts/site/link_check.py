"""Check a built site: each link leads to a file and an anchor, and no page loads anything from another machine."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The anchors of a page, its links, and the files that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loaded.append(given["src"])


def broken_links(site: Path) -> list[str]:
    """Return a line for each mistake in the site."""
    pages = {page: _Page(page.read_text()) for page in sorted(site.rglob("*.html"))}
    return [line for page in pages for line in _mistakes(site, page, pages)]


def _mistakes(site: Path, page: Path, pages: dict[Path, _Page]) -> Iterator[str]:
    here = page.relative_to(site)
    for target in pages[page].loaded:
        if urlsplit(target).netloc:
            yield f"{here}: loads {target} from another machine"
    for target in [*pages[page].loaded, *pages[page].links]:
        url = urlsplit(target)
        if url.scheme or url.netloc:
            continue
        path = (site if url.path.startswith("/") else page.parent) / unquote(url.path).lstrip("/")
        there = path.resolve() if url.path else page
        if there.is_dir():
            there /= "index.html"
        if not there.is_file():
            yield f"{here}: {target}: no such file"
        elif there in pages and unquote(url.fragment) not in pages[there].anchors:
            yield f"{here}: {target}: no such anchor"
