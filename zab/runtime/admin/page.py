"""The status page: written by the server, readable without a script, brought up to date by a small one.

The script asks for the same markup again and changes what differs, so there is one template and it is here.
Colour never says anything that a word or a sign beside it does not say, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from time import gmtime, strftime
from typing import Any, Final

_SIGNS: Final = {"healthy": "●", "degraded": "▲", "down": "■"}
_HEADLINES: Final = {"healthy": "Healthy", "degraded": "Needs a look", "down": "Not serving"}
_MODES: Final = {
    "leader": ("★", "leads"),
    "follower": ("●", "follows"),
    "observer": ("○", "observes"),
    "standalone": ("★", "alone"),
    "looking": ("◌", "looks for a leader"),
    "lost": ("✕", "lost"),
    "unreachable": ("✕", "not reached"),
}
NONE: Final = "\N{EN DASH}"
SPARK_WIDTH: Final = 240
SPARK_HEIGHT: Final = 48
SPARK_SLOTS: Final = 120


def whole(told: dict[str, Any]) -> bytes:
    title = f"{_SIGNS[told['health']]} zab server {told['server']}"
    text = _frame().replace("<!-- title -->", escape(title)).replace("<!-- main -->", main(told))
    return text.encode()


@cache
def _frame() -> str:
    return files(__package__).joinpath("page.html").read_text("utf-8")


def main(told: dict[str, Any]) -> str:
    return "".join([_head(told), _warnings(told), _members(told), _beats(told), _details(told)])


# -- its parts -----------------------------------------------------------------------------------------


def _head(told: dict[str, Any]) -> str:
    health = told["health"]
    if told["mode"] == "standalone":
        who = f"Server {told['server']} serves alone"
    elif told["serving"]:
        who = f"Server {told['leader']} leads epoch {told['epoch']}"
    else:
        who = "Nobody leads, as far as this server knows; writes wait"
    voters, members = len(told["voters"]), {each["id"]: each for each in told["members"]}
    present = sum(members[sid]["connected"] for sid in told["voters"] if sid in members)
    facts = [
        ("zxid", f"<code>{escape(told['zxid'])}</code>"),
        ("voters here", f"{present} of {voters}"),
        ("sessions", _number(told["store"]["sessions"])),
        ("requests/s", _number(sum(each["requests_per_s"] for each in told["members"] if each["connected"]))),
    ]
    return (
        f'<header class="{health}"><h1><span class="sign">{_SIGNS[health]}</span> {_HEADLINES[health]}</h1>'
        f"<p>{escape(who)}{', and the membership is changing' if told['reconfiguring'] else ''}</p><dl>"
        + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
        + "</dl></header>"
    )


def _warnings(told: dict[str, Any]) -> str:
    if not told["warnings"]:
        return ""
    items = "".join(f"<li><b>Server {each['server']}</b> {escape(each['text'])}</li>" for each in told["warnings"][:20])
    more = len(told["warnings"]) - 20
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f'<section class="warnings" role="alert"><h2>Warnings</h2><ul>{items}</ul>{rest}</section>'


def _members(told: dict[str, Any]) -> str:
    head = ("Server", "Role", "Epoch", "zxid", "Behind", "Clients", "Requests/s", "Latency", "fsync", "Up", "Heard")
    rows = _row(head, "th") + "".join(_member(each) for each in told["members"])
    return f"<section><h2>Members</h2><div class=wide><table class=members>{rows}</table></div></section>"


def _member(each: dict[str, Any]) -> str:
    sign, word = _MODES.get(each["mode"], ("?", each["mode"]))
    here = " <small>this one</small>" if each["me"] else ""
    where = f"<small>{escape(each['host'])}</small>" if each["host"] else ""
    known = each["age_ms"] is not None
    lag = each["lag"]
    note = "" if each["voting"] else " <small>does not vote</small>"
    role = " <small>observer</small>" if each["role"] == "observer" and each["mode"] != "observer" else ""
    cells = [
        f"<b>{each['id']}</b>{here} {where}",
        f'<span class="mode {escape(each["mode"])}"><span class="sign">{sign}</span> {escape(word)}</span>{note}{role}',
        str(each["epoch"]) if known else NONE,
        f"<code>{escape(each['zxid'])}</code>" if known else NONE,
        (NONE if lag is None else "0" if not lag else f"<b>{_number(lag)}</b>"),
        _number(each["connections"]) if each["connected"] else NONE,
        _number(each["requests_per_s"]) if each["connected"] else NONE,
        _time_us(each["latency_us"]) if each["connected"] else NONE,
        _time_us(each["fsync_us"]) if each["connected"] else NONE,
        _span(each["uptime_ms"]) if each["connected"] else NONE,
        "now" if each["me"] else "never" if not known else _ago(each["age_ms"]),
    ]
    kind = "" if each["connected"] else ' class="gone"'
    return f'<tr data-server="{each["id"]}"{kind}>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _beats(told: dict[str, Any]) -> str:
    beats = told["beats"]
    cards = [
        _card("Client requests", "per second, here", beats["requests"], _number),
        _card("Commits", "per second", beats["commits"], _number),
        _card("Latency", "mean of a second, here", beats["latency_us"], _time_us),
        _card("fsync", "the last one, here", beats["fsync_us"], _time_us),
    ]
    return f'<section><h2>The last two minutes</h2><div class="cards">{"".join(cards)}</div></section>'


def _card(title: str, unit: str, values: Sequence[int], shown: Any) -> str:
    last = values[-1] if values else 0
    most = max(values, default=0)
    note = f"most {shown(most)}" if most else "nothing yet"
    return (
        f"<figure><figcaption>{title} <small>{unit}</small></figcaption><output>{shown(last)}</output>"
        f"{_spark(values)}<small>{note}</small></figure>"
    )


def _spark(values: Sequence[int], slots: int = SPARK_SLOTS) -> str:
    """The newest at the right; a line over a surface."""
    most = max([*values, 1])
    step = SPARK_WIDTH / (slots - 1)
    first = slots - len(values)
    points = [
        f"{(first + index) * step:.1f},{SPARK_HEIGHT - 2 - value / most * (SPARK_HEIGHT - 6):.1f}"
        for index, value in enumerate(values)
    ]
    line = " ".join(points)
    area = f"{first * step:.1f},{SPARK_HEIGHT} {line} {SPARK_WIDTH},{SPARK_HEIGHT}" if points else ""
    return (
        f'<svg viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'<polygon points="{area}"/><polyline points="{line}"/></svg>'
    )


def _details(told: dict[str, Any]) -> str:
    store, disk, clients = told["store"], told["disk"], told["clients"]
    snapshot, fsync = disk["snapshot"], disk["fsync_us"]
    elections = [
        (
            _clock(each["at_ms"]),
            str(each["epoch"]),
            f"server {each['leader']}",
            _span(each["took_ms"]),
        )
        for each in told["elections"][:8]
    ]
    took = f"zxid {escape(snapshot['zxid'])}" if snapshot["zxid"] else "none yet"
    if snapshot["at_ms"]:
        took += (
            f", {_ago(told['now_ms'] - snapshot['at_ms'])}, {_bytes(snapshot['bytes'])} in {_span(snapshot['took_ms'])}"
        )
    pairs_of_store = [
        ("Nodes", _number(store["znodes"])),
        ("Ephemerals", _number(store["ephemerals"])),
        ("Sessions", _number(store["sessions"])),
        ("Watches here", _number(store["watches"])),
        ("Data", _bytes(store["data_bytes"])),
    ]
    pairs_of_disk = [
        ("Last fsync", _time_us(fsync["last"])),
        ("Half are below", _time_us(fsync["p50"])),
        ("99 % are below", _time_us(fsync["p99"])),
        ("Worst", _time_us(fsync["max"])),
        ("Waiting", _bytes(disk["backlog_bytes"])),
        ("Snapshot", took),
        ("Directory", f"<code>{escape(disk['path'] or NONE)}</code>"),
    ]
    rows = [
        (
            f"<code>{escape(each['peer'])}</code>",
            f"<code>{escape(each['session'])}</code>",
            _number(each["received"]),
            _number(each["queued"]),
            _span(each["timeout_ms"]),
        )
        for each in clients["shown"][:10]
    ]
    return (
        '<div class="grid">'
        + _table("Elections", ("When", "Epoch", "Leader", "Without one"), elections, "none since the start")
        + _pairs("Store", pairs_of_store)
        + _pairs("Disk of this server", pairs_of_disk)
        + _table(
            f"Clients here ({_number(clients['count'])})",
            ("From", "Session", "Requests", "Open", "Timeout"),
            rows,
            "nobody is connected",
        )
        + "</div>"
        + f"<footer>Server {told['server']}, {escape(told['version'])}. "
        '<a href="/metrics">metrics</a> <a href="/commands">commands</a> <a href="/status.json">this as JSON</a>'
        f"<time>{_clock(told['now_ms'])} UTC</time></footer>"
    )


def _table(title: str, head: Iterable[str], rows: Sequence[Sequence[str]], otherwise: str) -> str:
    body = "".join(_row(row) for row in rows)
    inner = (
        f"<div class=wide><table>{_row(head, 'th')}{body}</table></div>" if rows else f"<p class=none>{otherwise}</p>"
    )
    return f"<section><h2>{title}</h2>{inner}</section>"


def _pairs(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th scope=row>{name}</th><td>{value}</td></tr>" for name, value in pairs)
    return f"<section><h2>{title}</h2><table class=pairs>{rows}</table></section>"


def _row(cells: Iterable[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


# -- how values look -----------------------------------------------------------------------------------


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _time_us(value: float) -> str:
    if not value:
        return NONE
    if value < 1_000:
        return f"{value:.0f} µs"
    if value < 1_000_000:
        return f"{value / 1000:.{1 if value < 100_000 else 0}f} ms"
    return f"{value / 1e6:.1f} s"


def _span(ms: float) -> str:
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


def _ago(ms: float) -> str:
    return "now" if ms < 3_000 else f"{_span(ms)} ago"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the loop returns")


def _clock(at_ms: int) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", gmtime(at_ms / 1000))
