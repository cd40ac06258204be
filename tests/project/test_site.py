"""The site of the docs: its navigation, the pages of the API reference, the style of docstrings, and its link checker.

These tests need nothing that only `make site` installs.
"""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

from scripts.site.api_pages import PACKAGES, api_pages
from scripts.site.cross_references import refer
from scripts.site.docstrings import Row, parts
from scripts.site.link_check import broken_links
from scripts.site.navigation import PURPOSES, ROOT_PAGES, Entry, navigation
from scripts.site.staging import relink

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def pages_in(entries: list[Entry]) -> list[str]:
    found: list[str] = []
    for entry in entries:
        for value in [entry] if isinstance(entry, str) else entry.values():
            found += [value] if isinstance(value, str) else pages_in(value)
    return found


def test_navigation_has_every_page_once() -> None:
    api, entries = api_pages(ROOT)
    docs = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert Counter(pages_in(navigation(DOCS, entries))) == Counter([*docs, *ROOT_PAGES.values(), *api])


def test_navigation_begins_with_the_purposes() -> None:
    tabs = [next(iter(tab)) for tab in navigation(DOCS, []) if isinstance(tab, dict)]
    assert tabs == ["Start", "How to", "Understand", "Reference", "Decisions", "Benchmarks"]


def index(folder: Path, *, without: str = "") -> Path:
    titles = [title for titles in PURPOSES.values() for title in titles if title != without]
    folder.joinpath("index.md").write_text("".join(f"## {title}\n\n" for title in titles) + "- [A](a.md)\n")
    folder.joinpath("a.md").write_text("# A\n")
    return folder


def test_page_in_no_section_is_reported(tmp_path: Path) -> None:
    docs = index(tmp_path)
    navigation(docs, [])
    docs.joinpath("b.md").write_text("# B\n")
    with pytest.raises(ValueError, match=r"no section of docs/index.md names: \['b.md'\]"):
        navigation(docs, [])


def test_section_without_purpose_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Look it up"):
        navigation(index(tmp_path, without="Look it up"), [])


@pytest.mark.parametrize("package", PACKAGES)
def test_api_reference_has_every_public_name_once(package: str) -> None:
    public = getattr(import_module(package), "__all__", [])
    pages = api_pages(ROOT)[0]
    shown = [line for text in pages.values() for line in text.splitlines() if line.startswith(f"::: {package}.")]
    others = tuple(f"::: {other}." for other in PACKAGES if other.startswith(f"{package}."))
    own = [line for line in shown if not (others and line.startswith(others))]
    assert Counter(own) == Counter(f"::: {package}.{name}" for name in public)


def test_docstring_table_becomes_rows() -> None:
    docstring = dedent("""\
        Change it.

        joining         servers to add; a server
                        replaces the member
        time_ms_min, _max  bounds
        a_very_long_name
                        its text
        ...             and others

        Raise `TypeError`  never.""")
    rows = [
        Row(("joining",), "servers to add; a server replaces the member"),
        Row(("time_ms_min", "_max"), "bounds"),
        Row(("a_very_long_name",), "its text"),
        Row(("...",), "and others"),
    ]
    assert parts(docstring) == ["Change it.", rows, "Raise `TypeError`  never."]
    assert rows[1].full_names(["time_ms_min", "time_ms_max"]) == ("time_ms_min", "time_ms_max")


def test_example_in_docstring_becomes_one_block_of_code() -> None:
    docstring = "Use it:\n\n    class A:\n        x = 1\n\n        y = 2\n\nIt works.\n"
    assert parts(docstring) == ["Use it:", "```python\nclass A:\n    x = 1\n\n    y = 2\n```", "It works."]


def test_indented_table_is_no_code() -> None:
    assert parts("Open.\n\n    path  the directory\n") == ["Open.", [Row(("path",), "the directory")]]


@pytest.mark.parametrize(
    ("text", "package", "target"),
    [
        ("see `zab.Session.get`", "", "zab.Session.get"),
        ("call `zab.recipes.Lock(session)`", "", "zab.recipes.Lock"),
        ("see `Session.get`", "zab", "zab.Session.get"),
        ("the package `zab`", "", "package-zab"),
        ("see `Session.get`", "", ""),
        ("see `zab.core.zxid.Zxid`", "", ""),
        ("# `zab.Session`", "", ""),
        ("[`zab.Session`](page.md)", "", ""),
    ],
)
def test_public_name_links_to_the_reference(text: str, package: str, target: str) -> None:
    linked = refer(text, package)
    assert (f'<autoref identifier="{target}" optional>' in linked) if target else (linked == text)


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("docs/howto/run-brokers.md", "../../CHANGELOG.md", "../changelog.md"),
        ("docs/howto/run-brokers.md", "../errors.md#refused", "../errors.md#refused"),
        ("docs/howto/run-brokers.md", "../examples/zab.service", "../source/docs/examples/zab.service.md"),
        ("docs/index.md", "../pyproject.toml", "source/pyproject.toml.md"),
        ("README.md", "docs/index.md", "index.md"),
        ("README.md", "docs/pictures/architecture.svg", "pictures/architecture.svg"),
    ],
)
def test_link_out_of_the_docs_leads_to_a_page_of_the_site(page: str, link: str, there: str) -> None:
    assert relink(ROOT, page, f"[text]({link})", set()) == f"[text]({there})"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_paragraphs_in_lists_are_indented_by_four_spaces(page: Path) -> None:
    """With fewer the generator of the site ends the list, though other readers of Markdown continue it."""
    assert re.findall(r"\n\n {1,3}\S.*", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)) == []


def test_broken_links_of_a_site_are_found(tmp_path: Path) -> None:
    tmp_path.joinpath("b.html").write_text("<h2 id='there'>B</h2>")
    good = "<a href='b.html#there'>B</a> <a href='#'>top</a> <a href='https://example.org/'>elsewhere</a>"
    tmp_path.joinpath("a.html").write_text(good)
    assert broken_links(tmp_path) == []
    bad = "<a href='b.html#gone'>B</a> <a href='c.html'>C</a> <script src='https://example.org/x.js'></script>"
    tmp_path.joinpath("a.html").write_text(good + bad)
    assert broken_links(tmp_path) == [
        "a.html: loads https://example.org/x.js from another machine",
        "a.html: b.html#gone: no such anchor",
        "a.html: c.html: no such file",
    ]
