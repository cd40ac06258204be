"""The page of a broker: the cluster as it knows it. Framed and brought up to date like the store's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from replica.runtime.admin.pulse import Beat
from zab.admin.markup import HEADLINES, NONE, SIGNS, card, clock, framed, number, row

SHOWN_MAX: Final = 200
"""Rows of a table; the rest is counted."""


def whole(told: dict[str, Any], beats: Sequence[Beat]) -> bytes:
    return framed(f"{SIGNS[told['health']]} broker {told['broker']}", main(told, beats))


def main(told: dict[str, Any], beats: Sequence[Beat]) -> str:
    parts = [_head(told), _warnings(told), _brokers(told), _troubled(told), _topics(told), _groups(told), _beats(beats)]
    return "".join([*parts, _foot(told)])


def _head(told: dict[str, Any]) -> str:
    health, found = told["health"], told["partitions"]
    alive = sum(each["alive"] for each in told["brokers"])
    controller = told["controller"]
    who = (
        "Nobody is the controller, as far as it knows"
        if controller is None
        else f"Broker {controller} is the controller"
    )
    facts = (
        ("brokers here", f"{alive} of {len(told['brokers'])}"),
        ("topics", number(told["topics_total"])),
        ("partitions", number(found["total"])),
        ("without a leader", number(found["offline"])),
        ("under-replicated", number(found["under_replicated"])),
    )
    return (
        f'<header class="{health}"><h1><span class="sign">{SIGNS[health]}</span> {HEADLINES[health]}</h1>'
        f"<p>Broker {told['broker']} tells. {escape(who)}.</p><dl>"
        + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
        + "</dl></header>"
    )


def _warnings(told: dict[str, Any]) -> str:
    if not told["warnings"]:
        return ""
    items = "".join(f"<li>{escape(each)}</li>" for each in told["warnings"][:20])
    return f'<section class="warnings" role="alert"><h2>Warnings</h2><ul>{items}</ul></section>'


def _brokers(told: dict[str, Any]) -> str:
    rows = row(("Broker", "", "Leads", "Holds", "Of these in sync", "Rack", "Listeners"), "th")
    for each in told["brokers"]:
        here = " <small>this one</small>" if each["me"] else ""
        sign, word, kind = ("●", "alive", "follower") if each["alive"] else ("✕", "gone", "lost")
        if each["controller"]:
            sign, word, kind = "★", "controller", "leader"
        lacking = each["holds"] - each["in_sync"]
        cells = (
            f"<b>{each['id']}</b>{here}",
            f'<span class="mode {kind}"><span class="sign">{sign}</span> {word}</span>',
            number(each["leads"]),
            number(each["holds"]),
            number(each["in_sync"]) if not lacking else f"<b>{number(each['in_sync'])}</b>",
            escape(each["rack"] or NONE),
            "<br>".join(f"<code>{escape(one)}</code>" for one in each["listeners"]) or NONE,
        )
        gone = "" if each["alive"] else ' class="gone"'
        rows += f'<tr data-broker="{each["id"]}"{gone}>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    return f"<section><h2>Brokers</h2><div class=wide><table class=members>{rows}</table></div></section>"


def _troubled(told: dict[str, Any]) -> str:
    if not told["troubled"]:
        return ""
    rows = [
        (
            f"{escape(each['topic'])}-{each['partition']}",
            "<b>✕ nobody</b>" if each["leader"] is None else str(each["leader"]),
            str(each["epoch"]),
            _listed(each["replicas"]),
            _listed(each["isr"]),
            _listed(each["gone"]),
        )
        for each in told["troubled"]
    ]
    title = "Partitions that are not well"
    return _table(title, ("Partition", "Leader", "Epoch", "Replicas", "In sync", "On brokers that are gone"), rows, "")


def _topics(told: dict[str, Any]) -> str:
    rows = [
        (
            f"<b>{escape(each['topic'])}</b>{' <small>internal</small>' if each['internal'] else ''}",
            number(each["partitions"]),
            number(each["replicas"]),
            _trouble(each["offline"]),
            _trouble(each["under_replicated"]),
            number(each["led_here"]),
            number(each["offsets_here"]) if each["held_here"] else NONE,
        )
        for each in told["topics"][:SHOWN_MAX]
    ]
    head = ("Topic", "Partitions", "Replicas", "Without a leader", "Under-replicated", "Led here", "Offsets held here")
    return _table("Topics", head, rows, "there are none yet", _hidden(told, "topics"))


def _groups(told: dict[str, Any]) -> str:
    rows = [
        (
            f"<b>{escape(each['group'])}</b>",
            escape(each["state"]),
            number(each["members"]),
            escape(", ".join(each["topics"][:5])) + (" ..." if len(each["topics"]) > 5 else "") or NONE,
            (NONE if each["lag"] is None else f"<b>{number(each['lag'])}</b>" if each["lag"] else "0")
            + _elsewhere(each["lag_unknown"]),
        )
        for each in told["groups"][:SHOWN_MAX]
    ]
    head = ("Group", "State", "Members", "Has read of", "Behind by")
    return _table(
        "Groups coordinated here", head, rows, "there are none: other brokers may have some", _hidden(told, "groups")
    )


def _hidden(told: dict[str, Any], kind: str) -> int:
    """Return how many of them the page does not show."""
    return max(len(told[kind]) - SHOWN_MAX, 0) + int(told["omitted"][kind])


def _elsewhere(count: int) -> str:
    return f" <small>and {count} partition{'s' * (count > 1)} held elsewhere</small>" if count else ""


def _beats(beats: Sequence[Beat]) -> str:
    cards = (
        card("Records", "written a second, led here", [beat.records for beat in beats], number),
        card("Under-replicated", "partitions of the cluster", [beat.behind for beat in beats], number),
        card("Behind", "records, of groups coordinated here", [beat.lag for beat in beats], number),
    )
    return f'<section><h2>The last two minutes</h2><div class="cards">{"".join(cards)}</div></section>'


def _foot(told: dict[str, Any]) -> str:
    places = ", ".join(f"{escape(each['path'])}{' (failed)' if each['failed'] else ''}" for each in told["directories"])
    return (
        f"<footer>Broker {told['broker']} of cluster {escape(told['cluster'])}, logs in {places}. "
        '<a href="/metrics">metrics</a> <a href="/health">health</a> <a href="/status.json">this as JSON</a>'
        f"<time>{clock(told['now_ms'])} UTC</time></footer>"
    )


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], otherwise: str, hidden: int = 0) -> str:
    more = f"<p class=none>and {hidden} more</p>" if hidden else ""
    body = "".join(row(cells) for cells in rows)
    inner = f"<div class=wide><table>{row(head, 'th')}{body}</table></div>{more}"
    return f"<section><h2>{title}</h2>{inner if rows else f'<p class=none>{otherwise}</p>'}</section>"


def _trouble(count: int) -> str:
    return f"<b>{number(count)}</b>" if count else "0"


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or NONE
