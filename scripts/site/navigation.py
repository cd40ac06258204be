"""The site's navigation: the sections of docs/index.md, each under the purpose of its reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, TypeAlias

Entry: TypeAlias = "str | dict[str, str | list[Entry]]"

PURPOSES: Final = {
    "Start": ("Learn it",),
    "How to": ("Use it", "Break it", "Run it"),
    "Understand": ("Understand it",),
    "Reference": ("Look it up",),
    "Decisions": ("Design decisions",),
    "Benchmarks": ("Speed",),
}
"""The tabs of the site, and the sections of docs/index.md in each."""

ROOT_PAGES: Final = {
    "README.md": "first-steps.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages at the root of the repository, and their places on the site."""

_SECTION: Final = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
_PAGE: Final = re.compile(r"\[([^\]]+)\]\(([\w/.-]+\.md)\)")


def sections(index: str) -> dict[str, dict[str, str]]:
    """Return the pages in each section of the index, with the text of their first link. A page counts once."""
    seen: set[str] = set()
    found: dict[str, dict[str, str]] = {}
    for title, text in _SECTION.findall(index):
        found[title] = {}
        for name, page in _PAGE.findall(text):
            if page not in seen and not page.startswith("../"):
                found[title][page] = _title(name)
                seen.add(page)
    return found


def navigation(docs: Path, api: list[Entry]) -> list[Entry]:
    """Return the navigation for MkDocs. `api` has the generated pages.

    Raise ValueError if a page of `docs` is in no section, or if a section of the index has no purpose or is missing.
    """
    found = sections((docs / "index.md").read_text())
    placed = {title for titles in PURPOSES.values() for title in titles}
    if placed != set(found):
        raise ValueError(f"docs/index.md and the purposes of its reader differ in: {sorted(placed ^ set(found))}")
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"index.md"}
    if missing := pages - {page for section in found.values() for page in section}:
        raise ValueError(f"no section of docs/index.md names: {sorted(missing)}")
    tabs = {purpose: _tab({title: found[title] for title in titles}) for purpose, titles in PURPOSES.items()}
    tabs["Start"][:0] = ["index.md", {"First steps": ROOT_PAGES["README.md"]}]
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        tabs["Start"].append({_title(name.removesuffix(".md").lower()): ROOT_PAGES[name]})
    tabs["Reference"].append({"API": api})
    return [{purpose: entries} for purpose, entries in tabs.items()]


def _tab(titles: dict[str, dict[str, str]]) -> list[Entry]:
    lists: dict[str, list[Entry]] = {
        title: [{name: page} for page, name in pages.items()] for title, pages in titles.items()
    }
    return next(iter(lists.values())) if len(lists) == 1 else [{title: entries} for title, entries in lists.items()]


def _title(text: str) -> str:
    text = text.replace("\n", " ")
    return (text[:1].upper() + text[1:]).replace("`", "")
