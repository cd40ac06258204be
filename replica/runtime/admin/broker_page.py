"""The page of a broker: the cluster as it knows it. Framed and brought up to date like the store's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from replica.runtime.admin.broker_sampler import BrokerSample
from zab.admin.markup import (
    NONE,
    SIGNS,
    card,
    charts,
    footer,
    framed,
    header,
    member,
    members,
    mode,
    number,
    table,
    warnings,
)

SHOWN_MAX: Final = 200
"""Rows of a table; the rest is counted."""


def whole(told: dict[str, Any], beats: Sequence[BrokerSample]) -> bytes:
    return framed(f"{SIGNS[told['health']]} broker {told['broker']}", main(told, beats))


def main(told: dict[str, Any], beats: Sequence[BrokerSample]) -> str:
    warned = warnings([escape(each) for each in told["warnings"]])
    parts = [_head(told), warned, _brokers(told), _troubled(told), _topics(told), _groups(told), _beats(beats)]
    return "".join([*parts, _foot(told)])


def _head(told: dict[str, Any]) -> str:
    found = told["partitions"]
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
    return header(told["health"], f"Broker {told['broker']} tells. {escape(who)}.", facts)


def _brokers(told: dict[str, Any]) -> str:
    rows = []
    for each in told["brokers"]:
        here = " <small>this one</small>" if each["me"] else ""
        sign, word, kind = ("●", "alive", "follower") if each["alive"] else ("✕", "gone", "lost")
        if each["controller"]:
            sign, word, kind = "★", "controller", "leader"
        lacking = each["holds"] - each["in_sync"]
        cells = (
            f"<b>{each['id']}</b>{here}",
            mode(kind, sign, word),
            number(each["leads"]),
            number(each["holds"]),
            number(each["in_sync"]) if not lacking else f"<b>{number(each['in_sync'])}</b>",
            escape(each["rack"] or NONE),
            "<br>".join(f"<code>{escape(one)}</code>" for one in each["listeners"]) or NONE,
        )
        rows.append(member("broker", each["id"], each["alive"], cells))
    return members("Brokers", ("Broker", "", "Leads", "Holds", "Of these in sync", "Rack", "Listeners"), rows)


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
    return table(title, ("Partition", "Leader", "Epoch", "Replicas", "In sync", "On brokers that are gone"), rows, "")


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
    return table("Topics", head, rows, "there are none yet", _hidden(told, "topics"))


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
    return table(
        "Groups coordinated here", head, rows, "there are none: other brokers may have some", _hidden(told, "groups")
    )


def _hidden(told: dict[str, Any], kind: str) -> int:
    """Return how many of them the page does not show."""
    return max(len(told[kind]) - SHOWN_MAX, 0) + int(told["omitted"][kind])


def _elsewhere(count: int) -> str:
    return f" <small>and {count} partition{'s' * (count > 1)} held elsewhere</small>" if count else ""


def _beats(beats: Sequence[BrokerSample]) -> str:
    return charts(
        card("Records", "written a second, led here", [beat.records for beat in beats], number),
        card("Under-replicated", "partitions of the cluster", [beat.behind for beat in beats], number),
        card("Behind", "records, of groups coordinated here", [beat.lag for beat in beats], number),
    )


def _foot(told: dict[str, Any]) -> str:
    places = ", ".join(f"{escape(each['path'])}{' (failed)' if each['failed'] else ''}" for each in told["directories"])
    where = f"Broker {told['broker']} of cluster {escape(told['cluster'])}, logs in {places}."
    return footer(where, "health", told["now_ms"])


def _trouble(count: int) -> str:
    return f"<b>{number(count)}</b>" if count else "0"


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or NONE
