"""A script as a page that a person can read, and change, and give back: `harness.script.reading` reads it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import attrs

from harness.script.checks import CHOICES, WHO, fields
from harness.script.names import FOLLOWER, LEADER, MACHINES
from harness.script.script import Fault, Knobs, Script, Timing
from harness.script.workload import Op, Step

NAMES: Final[dict[int | None, str]] = {LEADER: "leader", FOLLOWER: "follower", None: "anyone"}
"""Servers that are not called by their number."""

KEYS: Final = {"for_ms": "for", "down_ms": "down", "source": "from", "target": "to"}
"""Fields that are called otherwise in text. Of others the unit is left out: it stands behind the number."""

PLAIN: Final = re.compile(r"[^\s\"#|+=,]+")
"""What needs no quotation marks."""


def phrase(kind: type) -> str:
    """CutLinks: cut links."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()


def key(name: str) -> str:
    return KEYS.get(name) or name.removesuffix("_ms")


def describe(script: Script) -> str:
    """The world, then what happens in the order of time."""
    lines = [f"seed {script.seed}", f"voters {script.voters}"]
    if script.observers:
        lines.append(f"observers {script.observers}")
    if script.groups:
        lines.append("groups " + " | ".join(" ".join(map(str, group)) for group in script.groups))
    if script.weights:
        lines.append("weights " + " ".join(map(str, script.weights)))
    if script.machine != MACHINES[0]:
        lines.append(f"machine {script.machine}")
    if script.brokers:
        lines.append(f"brokers {script.brokers}")
    lines.append(f"length {script.length_ms} ms")
    lines += _differences("timing", script.timing, Timing())
    lines += _differences("knobs", script.knobs, Knobs())
    events = [(item.at, number, item) for number, item in enumerate((*script.faults, *script.ops))]
    for at, _, item in sorted(events, key=lambda event: event[:2]):
        lines.append(f"at {at:>5} ms  {describe_item(item)}")
    return "\n".join(lines)


def describe_item(item: Fault | Op) -> str:
    """What happens, without when."""
    return f"{phrase(type(item))} {_words(item)}".rstrip()


def _differences(name: str, value: Timing | Knobs, usual: Timing | Knobs) -> list[str]:
    changed = [
        f"{key} {mine}" for (key, mine), (_, theirs) in zip(fields(value), fields(usual), strict=True) if mine != theirs
    ]
    return [f"{name} {' '.join(changed)}"] if changed else []


def _words(item: Any) -> str:
    """First whom and how, then how long and how much."""
    named: list[str] = []
    rest: list[str] = []
    for name, value in fields(item):
        if name == "at" or (name in ("user", "late_ms", "calls") and not value):
            continue
        if name == "client":
            named.append(f"client {value}")
        elif name == "server":
            who = NAMES.get(value, str(value))
            named.append(f"server {who}") if hasattr(item, "client") else named.insert(0, who)
        elif name in CHOICES:
            named.append(quoted(value))
        elif name == "request":
            rest.append(f"request {json.dumps(value)}")
        elif name == "groups":
            named.append(" | ".join(" ".join(NAMES.get(sid, str(sid)) for sid in group) for group in value))
        elif name == "steps":
            rest.append(" + ".join(_step(step) for step in value))
        elif name in WHO:
            rest.append(f"{key(name)} {NAMES.get(value, value)}")
        else:
            rest.append(f"{key(name)} {value}{' ms' if name.endswith('_ms') else ''}")
    return " ".join(word for word in (*named, *rest) if word)


def _step(step: Step) -> str:
    """What is as usual is not said."""
    words = [step.op]
    for attribute in attrs.fields(Step):
        value = getattr(step, attribute.name)
        if value != attribute.default and attribute.name != "op":
            shown = quoted(value) if isinstance(value, str) else str(value)
            words.append(shown if attribute.name in ("path", "mode") else f"{attribute.name} {shown}")
    return " ".join(words)


def quoted(word: str) -> str:
    return word if PLAIN.fullmatch(word) else json.dumps(word)
