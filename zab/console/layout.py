"""The frame of all pages of the console, and small pieces of markup: links, forms, lists of pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from zab.admin.http import AdminReply
from zab.admin.markup import NONE, clock, html, number, warnings
from zab.console.page import ROWS_MAX, Page, Visit, url
from zab.host.clocks import wall_ms

NAME_CHARS_MAX: Final = 200
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
ASSETS: Final = {"/console.css": "text/css; charset=utf-8", "/console.js": "text/javascript; charset=utf-8"}
_SPACES: Final = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_CURRENT: Final = " aria-current=page"
HEADERS: Final = (("Content-Security-Policy", POLICY), ("Referrer-Policy", "same-origin"))


@cache
def static_file(path: str) -> AdminReply:
    """Return the style sheet or the script."""
    return AdminReply(files(__package__).joinpath(path.removeprefix("/")).read_bytes(), ASSETS[path])


def framed(page: Page, menu: Sequence[tuple[str, str]], here: str, where: str, token: str) -> AdminReply:
    """Return the whole page. `where` is HTML about the connection; with a `token` there is a button to log out."""
    entries = "".join(
        f'<li><a href="{path}"{_CURRENT if here in (path, path.removesuffix("s")) else ""}>{escape(name)}</a>'
        for name, path in menu
    )
    leave = form("/logout", token, "<button>Log out</button>") if token else ""
    refresh = " data-refresh" if page.refreshes else ""
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(page.title)} \N{MIDDLE DOT} zab console</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="/console.css"><script src="/console.js" defer></script></head><body>'
        f'<a class="skip" href="#main">Skip to the content</a><nav aria-label="Console"><ul>{entries}</ul>{leave}</nav>'
        '<div id="stale" role="status">The console no longer answers. The values below are old.</div>'
        f'<main id="main" tabindex="-1"{refresh}><h1>{escape(page.title)}</h1>{page.body}</main>'
        f'<footer><span>{where}</span><button id="pause" type="button" hidden>Pause refreshing</button>'
        f"<time>{clock(wall_ms())} UTC</time></footer></body></html>"
    )
    return AdminReply(text.encode("utf-8", "replace"), html(b"").content_type, page.status, HEADERS)


def shown(text: str) -> str:
    """Return a name from the cluster as HTML: cut if it is long, with escapes for characters that cannot be printed.

    Such characters could hide or reorder the text around them.
    """
    return shown_whole(text if len(text) <= NAME_CHARS_MAX else f"{text[:NAME_CHARS_MAX]}\N{HORIZONTAL ELLIPSIS}")


def shown_whole(text: str) -> str:
    """Return text as HTML, with escapes for characters that cannot be printed."""
    return escape("".join(each if each.isprintable() or each in _SPACES else ascii(each)[1:-1] for each in text))


def moment(at_ms: int) -> str:
    """Return a time from the cluster, which any client may have chosen; a dash if it is unknown."""
    if at_ms < 0:
        return NONE
    try:
        return f"{clock(at_ms)} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms after 1970"


def link(text: str, path: str, /, **parameters: object) -> str:
    """Return a link within the console."""
    return f'<a href="{escape(url(path, **parameters))}">{shown(text)}</a>'


def form(path: str, token: str, fields: str) -> str:
    return (
        f'<form method="post" action="{escape(path)}"><input type="hidden" name="token" value="{escape(token)}">'
        f"{fields}</form>"
    )


def hidden(name: str, value: object) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(str(value))}">'


def field(label: str, control: str) -> str:
    return f"<label><span>{escape(label)}</span> {control}</label>"


def search(visit: Visit, label: str, name: str, keeps: Iterable[str] = ()) -> str:
    """Return a form with one field that filters a list. It keeps the parameters `keeps` of the page."""
    value = escape(visit.parameters.get(name, ""))
    kept = "".join(hidden(each, visit.parameters[each]) for each in keeps if each in visit.parameters)
    box = field(label, f'<input type="search" name="{name}" value="{value}">')
    return f'<form class="search" role="search">{kept}{box}<button>Filter</button></form>'


def section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def facts(title: str, pairs: Iterable[tuple[str, str]], note: str = "") -> str:
    """Return a section with a few values and their names. The values are HTML."""
    shown_pairs = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs)
    return f'<section class="facts"><h2>{escape(title)}</h2>{note}<dl>{shown_pairs}</dl></section>'


def problems(texts: Iterable[str]) -> str:
    """Return the warnings, if there are any. The texts are not HTML yet."""
    return warnings([shown_whole(text) for text in texts])


def notice(text: str) -> str:
    """Return a sentence in place of content. The text is not HTML yet."""
    return f'<section class="warnings" role="alert"><p>{shown_whole(text)}</p></section>'


def crumbs(parts: Iterable[str]) -> str:
    return f'<p class="crumbs">{" / ".join(parts)}</p>'


def page_of(visit: Visit, total: int, size: int = ROWS_MAX) -> tuple[slice, str]:
    """Return the part of a list that this page shows, and the links to the other pages of the list."""
    last = max((total - 1) // size, 0)
    at = min(visit.number("page", 0), last)
    if not last:
        return slice(0, size), ""
    steps = (("first", 0), ("previous", at - 1), ("next", at + 1), ("last", last))
    links = " ".join(
        f'<a href="{escape(visit.url(page=to))}">{name}</a>' if 0 <= to <= last and to != at else f"<s>{name}</s>"
        for name, to in steps
    )
    begin, end = at * size, min((at + 1) * size, total)
    counted = f"{number(begin + 1)} to {number(end)} of {number(total)}"
    return slice(begin, end), f'<nav class="pages" aria-label="Pages of this list">{counted} {links}</nav>'
