"""The short page of an admin port, and parts of the console's pages: tables, and the format of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from time import gmtime, strftime
from typing import Final

from zab.admin.http import AdminReply

SIGNS: Final = {"healthy": "●", "starting": "○", "degraded": "▲", "down": "■"}
HEADLINES: Final = {
    "healthy": "Healthy",
    "starting": "Serving; waiting for reports of the others",
    "degraded": "Needs attention",
    "down": "Not serving",
}
NONE: Final = "\N{EN DASH}"
WARNINGS_MAX: Final = 20
_POLICY: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)
"""The pages with this policy have neither style nor script, so none in a shown value has an effect."""


def html(body: bytes) -> AdminReply:
    """Return the reply with a page."""
    return AdminReply(body, "text/html; charset=utf-8", headers=_POLICY)


def status_page(
    title: str, health: str, sentence: str, warned: Sequence[str], more: str, links: Mapping[str, str]
) -> AdminReply:
    """Return a short page: the health, one sentence, the warnings, and links.

    `sentence`, `warned` and `more`, which points to the tools that show more, are HTML.
    """
    further = " ".join(f'<a href="{escape(path)}">{name}</a>' for name, path in links.items())
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="refresh" content="5">'
        f'<title>{SIGNS[health]} {escape(title)}</title><link rel="icon" href="data:,"></head><body>'
        f"{header(health, sentence, ())}{warnings(warned)}<p>{more}</p><p>{further}</p></body></html>"
    )
    return html(text.encode())


def header(health: str, sentence: str, facts: Iterable[tuple[str, str]], level: int = 1) -> str:
    """Return the top of a page: a headline for the health, one sentence, and a few values with their names.

    `sentence` and `facts` are HTML. `level` is that of the headline in the page's outline.
    """
    headline = f'<span class="sign">{SIGNS[health]}</span> {HEADLINES[health]}'
    return (
        f'<header class="{health}"><h{level} class="headline">{headline}</h{level}>'
        f"<p>{sentence}</p><dl>"
        + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
        + "</dl></header>"
    )


def warnings(items: Sequence[str]) -> str:
    if not items:
        return ""
    shown = "".join(f"<li>{each}</li>" for each in items[:WARNINGS_MAX])
    more = len(items) - WARNINGS_MAX
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f'<section class="warnings" role="alert"><h2>Warnings</h2><ul>{shown}</ul>{rest}</section>'


def members(title: str, head: Iterable[str], rows: Iterable[str]) -> str:
    """Return the table of the servers or brokers. `member` makes each of the rows."""
    body = row(head, "th") + "".join(rows)
    return f"<section><h2>{title}</h2><div class=wide><table class=members>{body}</table></div></section>"


def member(kind: str, ident: int, present: bool, cells: Iterable[str]) -> str:
    gone = "" if present else ' class="gone"'
    return f'<tr data-{kind}="{ident}"{gone}>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def mode(kind: str, sign: str, word: str) -> str:
    return f'<span class="mode {escape(kind)}"><span class="sign">{sign}</span> {escape(word)}</span>'


def table(title: str, head: Iterable[str], rows: Sequence[Sequence[str]], otherwise: str, hidden: int = 0) -> str:
    """Return a table, or the sentence `otherwise` if it has no rows. `hidden` is the number of omitted rows."""
    more = f"<p class=none>and {hidden} more</p>" if hidden else ""
    body = "".join(row(cells) for cells in rows)
    inner = f"<div class=wide><table>{row(head, 'th')}{body}</table></div>{more}"
    return f"<section><h2>{title}</h2>{inner if rows else f'<p class=none>{otherwise}</p>'}</section>"


def pairs(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th scope=row>{name}</th><td>{value}</td></tr>" for name, value in pairs)
    return f"<section><h2>{title}</h2><table class=pairs>{rows}</table></section>"


def row(cells: Iterable[str], tag: str = "td") -> str:
    begin = "th scope=col" if tag == "th" else tag
    return "<tr>" + "".join(f"<{begin}>{cell}</{tag}>" for cell in cells) + "</tr>"


# -- formatting of values ------------------------------------------------------------------------------


def number(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def time_us(value: float) -> str:
    if not value:
        return NONE
    if value < 1_000:
        return f"{value:.0f} µs"
    if value < 1_000_000:
        return f"{value / 1000:.{1 if value < 100_000 else 0}f} ms"
    return f"{value / 1e6:.1f} s"


def span(ms: float) -> str:
    if ms < 1_000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days"


def ago(ms: float) -> str:
    return "now" if ms < 3_000 else f"{span(ms)} ago"


def size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the loop returns")


def clock(at_ms: int) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", gmtime(at_ms / 1000))
