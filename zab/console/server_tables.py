"""Tables about the servers of a store, from the overview that one of them has. Beside each colour there is a word or a
sign with the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Final

from zab.admin.markup import (
    NONE,
    ago,
    clock,
    header,
    member,
    members,
    mode,
    number,
    pairs,
    size,
    span,
    table,
    time_us,
    warnings,
)
from zab.runtime.admin.overview import verdict
from zab.service.health.ensemble_health import UNKNOWN, VETOING

_MODES: Final = {
    "leader": ("★", "leads"),
    "follower": ("●", "follows"),
    "observer": ("○", "observes"),
    "standalone": ("★", "alone"),
    "looking": ("◌", "looks for a leader"),
    "lost": ("✕", "missing"),
    "unreachable": ("✕", "unreachable"),
    VETOING: ("✕", "vetoes"),
    UNKNOWN: ("?", "unknown"),
}


def head(view: Mapping[str, Any]) -> str:
    """Return the health of the ensemble."""
    voters, known = len(view["voters"]), {each["id"]: each for each in view["members"]}
    present = sum(known[sid]["connected"] for sid in view["voters"] if sid in known)
    facts = [
        ("zxid", f"<code>{escape(view['zxid'])}</code>"),
        ("voters present", f"{present} of {voters}"),
        ("sessions", number(view["store"]["sessions"])),
        ("requests/s", number(sum(each["requests_per_s"] for each in view["members"] if each["connected"]))),
    ]
    return header(view["health"], escape(verdict(view)), facts, level=2)


def warned(view: Mapping[str, Any]) -> str:
    return warnings([f"<b>Server {each['server']}</b> {escape(each['text'])}" for each in view["warnings"]])


def member_table(view: Mapping[str, Any], named: Callable[[int], str]) -> str:
    """Return the table of the members. `named` returns the HTML for an id."""
    columns = (
        "Server",
        "Role",
        "Epoch",
        "zxid",
        "Behind",
        "Clients",
        "Requests/s",
        "Latency",
        "fsync",
        "Uptime",
        "Last report",
    )
    return members("Members", columns, (_member(each, named) for each in view["members"]))


def _member(each: Mapping[str, Any], named: Callable[[int], str]) -> str:
    """Return a member's row of the table, from its entry in `overview`.

    An unknown value is a dash. Id, host and role come from the membership. The mode is this server's view of the
    member: see `seen_mode`. Epoch and zxid are those of the last report, even an old one. Lag, load and times are shown
    only while the member is connected.
    """
    sign, word = _MODES.get(each["mode"], ("?", each["mode"]))
    where = f"<small>{escape(each['host'])}</small>" if each["host"] else ""
    known = each["age_ms"] is not None
    lag = each["lag"]
    note = "" if each["voting"] else " <small>does not vote</small>"
    role = " <small>observer</small>" if each["role"] == "observer" and each["mode"] != "observer" else ""
    cells = [
        f"<b>{named(each['id'])}</b> {where}",
        f"{mode(each['mode'], sign, word)}{note}{role}",
        str(each["epoch"]) if known else NONE,
        f"<code>{escape(each['zxid'])}</code>" if known else NONE,
        (NONE if lag is None else "0" if not lag else f"<b>{number(lag)}</b>"),
        number(each["connections"]) if each["connected"] else NONE,
        number(each["requests_per_s"]) if each["connected"] else NONE,
        time_us(each["latency_us"]) if each["connected"] else NONE,
        time_us(each["fsync_us"]) if each["connected"] else NONE,
        span(each["uptime_ms"]) if each["connected"] else NONE,
        "now" if each["me"] else "never" if not known else ago(each["age_ms"]),
    ]
    return member("server", each["id"], each["connected"], cells)


def election_table(view: Mapping[str, Any]) -> str:
    elections = [
        (
            f"{clock(each['at_ms'])} UTC",
            str(each["epoch"]),
            f"server {each['leader']}",
            span(each["took_ms"]),
        )
        for each in view["elections"][:8]
    ]
    return table("Elections", ("When", "Epoch", "Leader", "Out of service for"), elections, "none since the start")


def details(view: Mapping[str, Any]) -> str:
    """Return elections, the store, the disk and the clients."""
    store, disk, clients = view["store"], view["disk"], view["clients"]
    snapshot, fsync = disk["snapshot"], disk["fsync_us"]
    took = f"zxid {escape(snapshot['zxid'])}" if snapshot["zxid"] else "none yet"
    if snapshot["at_ms"]:
        took += f", {ago(view['now_ms'] - snapshot['at_ms'])}, {size(snapshot['bytes'])} in {span(snapshot['took_ms'])}"
    pairs_of_store = [
        ("Nodes", number(store["znodes"])),
        ("Ephemerals", number(store["ephemerals"])),
        ("Sessions", number(store["sessions"])),
        ("Watches at this server", number(store["watches"])),
        ("Data", size(store["data_bytes"])),
    ]
    pairs_of_disk = [
        ("Last fsync", time_us(fsync["last"])),
        ("Median fsync", time_us(fsync["p50"])),
        ("99 % of fsyncs below", time_us(fsync["p99"])),
        ("Slowest fsync", time_us(fsync["max"])),
        ("Not durable yet", size(disk["backlog_bytes"])),
        ("Snapshot", took),
        ("Directory", f"<code>{escape(disk['path'] or NONE)}</code>"),
    ]
    rows = [
        (
            f"<code>{escape(each['peer'])}</code>",
            f"<code>{escape(each['session'])}</code>",
            number(each["received"]),
            number(each["queued"]),
            span(each["timeout_ms"]),
        )
        for each in clients["shown"][:10]
    ]
    return (
        '<div class="grid">'
        + election_table(view)
        + pairs("Store", pairs_of_store)
        + pairs("Disk of this server", pairs_of_disk)
        + table(
            f"Clients of this server ({number(clients['count'])})",
            ("From", "Session", "Requests", "Open", "Timeout"),
            rows,
            "no clients",
        )
        + "</div>"
    )
