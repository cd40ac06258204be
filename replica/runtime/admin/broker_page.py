"""The status page of a broker: the cluster as this broker knows it. Layout and updates are those of the store's status
page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from replica.runtime.admin.broker_sampler import BrokerSample
from replica.runtime.admin.overview import Overview
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
"""The maximum number of rows in the tables of topics and of groups. The page counts the rest."""


def whole(state: Overview, samples: Sequence[BrokerSample], metrics_path: str) -> bytes:
    return framed(f"{SIGNS[state['health']]} broker {state['broker']}", main(state, samples, metrics_path))


def main(state: Overview, samples: Sequence[BrokerSample], metrics_path: str) -> str:
    warned = warnings([escape(each) for each in state["warnings"]])
    parts = [_head(state), warned, _brokers(state), _troubled(state), _topics(state), _groups(state), _samples(samples)]
    return "".join([*parts, _foot(state, metrics_path)])


def _head(state: Overview) -> str:
    found = state["partitions"]
    alive = sum(each["alive"] for each in state["brokers"])
    controller = state["controller"]
    controlled = "No controller is known" if controller is None else f"Broker {controller} is the controller"
    facts = (
        ("brokers alive", f"{alive} of {len(state['brokers'])}"),
        ("topics", number(state["topics_total"])),
        ("partitions", number(found["total"])),
        ("without a leader", number(found["offline"])),
        ("under-replicated", number(found["under_replicated"])),
    )
    return header(state["health"], f"As seen by broker {state['broker']}. {escape(controlled)}.", facts)


def _brokers(state: Overview) -> str:
    rows = []
    for each in state["brokers"]:
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
    return members("Brokers", ("Broker", "", "Leads", "Replicas", "In sync", "Rack", "Listeners"), rows)


def _troubled(state: Overview) -> str:
    if not state["troubled"]:
        return ""
    rows = [
        (
            f"{escape(each['topic'])}-{each['partition']}",
            "<b>✕ none</b>" if each["leader"] is None else str(each["leader"]),
            str(each["epoch"]),
            _listed(each["replicas"]),
            _listed(each["isr"]),
            _listed(each["gone"]),
        )
        for each in state["troubled"]
    ]
    title = "Unhealthy partitions"
    return table(title, ("Partition", "Leader", "Epoch", "Replicas", "In sync", "On dead brokers"), rows, "")


def _topics(state: Overview) -> str:
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
        for each in state["topics"][:SHOWN_MAX]
    ]
    head = ("Topic", "Partitions", "Replicas", "Without a leader", "Under-replicated", "Led here", "Offsets held here")
    return table("Topics", head, rows, "no topics yet", _hidden(len(state["topics"]), state["omitted"]["topics"]))


def _groups(state: Overview) -> str:
    rows = [
        (
            f"<b>{escape(each['group'])}</b>",
            escape(each["state"]),
            number(each["members"]),
            escape(", ".join(each["topics"][:5])) + (" ..." if len(each["topics"]) > 5 else "") or NONE,
            (NONE if each["lag"] is None else f"<b>{number(each['lag'])}</b>" if each["lag"] else "0")
            + _elsewhere(each["lag_unknown"]),
        )
        for each in state["groups"][:SHOWN_MAX]
    ]
    head = ("Group", "State", "Members", "Topics", "Lag")
    return table(
        "Groups coordinated here",
        head,
        rows,
        "none; other brokers may have some",
        _hidden(len(state["groups"]), state["omitted"]["groups"]),
    )


def _hidden(listed: int, omitted: int) -> int:
    """Return how many rows the page omits: listed ones beyond `SHOWN_MAX`, and those that the overview omits."""
    return max(listed - SHOWN_MAX, 0) + omitted


def _elsewhere(count: int) -> str:
    return f" <small>and {count} partition{'s' * (count > 1)} held elsewhere</small>" if count else ""


def _samples(samples: Sequence[BrokerSample]) -> str:
    return charts(
        card("Records", "written per second to partitions led here", [sample.records for sample in samples], number),
        card("Under-replicated", "partitions of the cluster", [sample.behind for sample in samples], number),
        card("Lag", "records, of groups coordinated here", [sample.lag for sample in samples], number),
    )


def _foot(state: Overview, metrics_path: str) -> str:
    directories = (f"{escape(each['path'])}{' (failed)' if each['failed'] else ''}" for each in state["directories"])
    places = ", ".join(directories)
    where = f"Broker {state['broker']} of cluster {escape(state['cluster'])}, logs in {places}."
    return footer(where, {"metrics": metrics_path, "health": "/health"}, state["now_ms"])


def _trouble(count: int) -> str:
    return f"<b>{number(count)}</b>" if count else "0"


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or NONE
