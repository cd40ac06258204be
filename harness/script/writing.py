"""Write a script as text for people. `harness.script.reading` reads it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import attrs

from harness.script.checks import CHOICES, SERVER_FIELDS, fields
from harness.script.faults import Fault
from harness.script.names import FOLLOWER, LEADER, MACHINES
from harness.script.nodes import NodeFault
from harness.script.script import Knobs, Script, Timing
from harness.script.workload import Op, Step

NAMES: Final[dict[int | None, str]] = {LEADER: "leader", FOLLOWER: "follower", None: "anyone"}
"""The names of servers that have no number."""

NAME_OF_ACTIVE: Final = "active"
"""The name of `ACTIVE`, the node that has reported the last act."""

KEYS: Final = {"for_ms": "for", "down_ms": "down", "source": "from", "target": "to"}
"""The fields that have another name in text. Others lose the unit in their name; it follows the number."""

PLAIN: Final = re.compile(r"[^\s\"#|+=,]+")
"""The words that need no quotation marks."""


def phrase(kind: type) -> str:
    """Return the name in text: `cut links` for `CutLinks`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()


def key(name: str) -> str:
    return KEYS.get(name) or name.removesuffix("_ms")


def describe(script: Script) -> str:
    """Return the topology and the settings, then all events in the order of time."""
    lines = [f"seed {script.seed}", f"voters {script.voters}"]
    rest = {
        "observers": script.observers,
        "groups": " | ".join(" ".join(map(str, group)) for group in script.groups),
        "weights": " ".join(map(str, script.weights)),
        "machine": script.machine if script.machine != MACHINES[0] else "",
        "brokers": script.brokers,
        "nodes": script.nodes,
        "length": f"{script.length_ms} ms",
        "timing": _differences(script.timing, Timing()),
        "knobs": _differences(script.knobs, Knobs()),
        "constants": " ".join(f"{each.name} {each.value}" for each in script.constants),
    }
    lines += [f"{name} {value}" for name, value in rest.items() if value]
    events = sorted(script.items, key=lambda item: item.at)
    return "\n".join([*lines, *(f"at {item.at:>5} ms  {describe_item(item)}" for item in events)])


def describe_item(item: Fault | Op) -> str:
    """Return the text of an event without its time."""
    return f"{phrase(type(item))} {_words(item)}".rstrip()


def _differences(value: Timing | Knobs, usual: Timing | Knobs) -> str:
    return " ".join(f"{name} {mine}" for name, mine in fields(value) if mine != getattr(usual, name))


def _words(item: Any) -> str:
    """Return the fields: first servers and words, then times and numbers."""
    named: list[str] = []
    rest: list[str] = []
    for name, value in fields(item):
        if name == "at" or (name in ("user", "late_ms", "calls") and not value):
            continue
        if name == "client":
            named.append(f"client {value}")
        elif name == "node":
            named.insert(0, str(value) if value else NAME_OF_ACTIVE)
        elif name == "server":
            who = NAMES.get(value, str(value))
            beside = hasattr(item, "client") or isinstance(item, NodeFault)
            named.append(f"server {who}") if beside else named.insert(0, who)
        elif name in CHOICES:
            named.append(quoted(value))
        elif name == "request":
            rest.append(f"request {json.dumps(value)}")
        elif name == "groups":
            named.append(" | ".join(" ".join(NAMES.get(sid, str(sid)) for sid in group) for group in value))
        elif name == "steps":
            rest.append(" + ".join(_step(step) for step in value))
        elif name in SERVER_FIELDS:
            rest.append(f"{key(name)} {NAMES.get(value, value)}")
        else:
            rest.append(f"{key(name)} {value}{' ms' if name.endswith('_ms') else ''}")
    return " ".join(word for word in (*named, *rest) if word)


def _step(step: Step) -> str:
    words = [step.op]
    for attribute in attrs.fields(Step):
        value = getattr(step, attribute.name)
        if value != attribute.default and attribute.name != "op":
            shown = quoted(value) if isinstance(value, str) else str(value)
            words.append(shown if attribute.name in ("path", "mode") else f"{attribute.name} {shown}")
    return " ".join(words)


def quoted(word: str) -> str:
    return word if PLAIN.fullmatch(word) else json.dumps(word)
