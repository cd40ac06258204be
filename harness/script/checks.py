"""Whether a script makes sense. What does not is refused with the place that is wrong and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from harness import lists
from harness.history import MODES, OPERATIONS, WATCHES
from harness.script.brokers import WAYS
from harness.script.names import (
    CHANGES,
    DEEDS,
    DISK_ERRORS,
    FOLLOWER,
    JOINING,
    LEADER,
    LOSSES,
    MACHINES,
    MANNERS,
    MOMENTS,
    SHAPES,
    WITH_BROKERS,
    is_users,
)
from harness.script.partitions import ACKS, DURABILITIES, ENDS, FATES, LIBRARIES, PARTS, READS, TRUNCATIONS, UNCLEAN
from harness.script.process import Setting
from harness.script.script import Fault, Knobs, Script
from harness.script.workload import Invoke, Op, Reconfigure, Step, Write, request_bytes
from zab.core.ensemble import Group, Role, Server, faults
from zab.core.zxid import COUNTER_MAX, ServerId

SERVERS_MAX: Final = 30
BROKERS_MAX: Final = 30

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "loss": LOSSES,
    "error": DISK_ERRORS,
    "moment": MOMENTS,
    "does": DEEDS,
    "shape": SHAPES,
    "manner": MANNERS,
    "knob": tuple(attribute.name for attribute in attrs.fields(Knobs)),
    "change": CHANGES,
    "op": tuple(op for op in OPERATIONS if op != "multi"),
    "mode": MODES,
    "watch": WATCHES,
    "way": WAYS,
    "acks": ACKS,
    "durability": DURABILITIES,
    "truncation": TRUNCATIONS,
    "reads": READS,
    "unclean": UNCLEAN,
    "library": LIBRARIES,
    "ends": ENDS,
    "fate": FATES,
    "part": PARTS,
}
"""Names of fields whose value is one of these words."""

LIMITS: Final = re.compile(r"(\w+=-?\d+([,;=]+\w+=-?\d+)*)?")
"""What stands in a node that limits a subtree."""
WHO: Final = ("server", "source", "target")
"""Names of fields that name a server."""

SIGNED: Final = ("by_ms",)
"""Names of fields that may be negative."""

POSITIVE: Final = (
    "nth", "acts", "count", "slower", "client", "rate_percent", "every_ms", "most", "topic", "partitions",
    "factor", "first", "in_sync", "lag_ms", "group",
)  # fmt: skip
"""Names of fields that are 1 at least; other numbers are 0 at least."""

LARGEST: Final[Mapping[str, int]] = {"count": 10_000, "size": 1 << 20, "user": lists.USERS_MAX}
"""Names of fields that decide how much memory one line takes, or of which there are only so many."""

INTEGER_MAX: Final = (1 << 63) - 1
"""No field is for larger numbers."""

BYTES_MAX: Final = 64 << 20
"""So much may all writes of a script ask for together."""

LEAST: Final[Mapping[str, int]] = {
    "tick_ms": 2, "finalize_wait_ms": 0, "log_sync_entries_max": 0, "local_sessions": 0, "read_only_ms": 0,
    "open_requests": 0, "wait_ms": 0, "large_bytes": 0, "connection_tokens": 0,
}  # fmt: skip
"""Knobs whose value may be less than 1, or must be more: leaders ping every half tick."""

ORDERED: Final = (
    ("timing", "delay_us_min", "delay_us_max"),
    ("timing", "fsync_us_min", "fsync_us_max"),
    ("knobs", "notification_ms_min", "notification_ms_max"),
)

SHARES: Final = ("percent", "loss_percent", "double_percent", "spike_percent")
"""Names of fields that are part of a hundred."""


class ScriptError(ValueError):
    """Not a script of this version. The message names the place."""


class Senseless(ScriptError):
    """It is well formed, and something in it cannot be; `where` as in `script.faults[0].server`."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


def fields(value: Any) -> list[tuple[str, Any]]:
    return [(attribute.name, getattr(value, attribute.name)) for attribute in attrs.fields(type(value))]


def check(script: Script) -> None:
    """What the types cannot say."""
    if not 0 <= script.seed <= INTEGER_MAX:
        raise Senseless("script.seed", f"{script.seed} is not from 0 to {INTEGER_MAX}")
    if not 1 <= script.voters <= script.servers <= SERVERS_MAX:
        raise Senseless("script.voters", f"from 1 to {SERVERS_MAX} servers, at least one of them a voter")
    _check_groups(script)
    if script.machine not in MACHINES and not is_users(script.machine):
        known = f"{', '.join(MACHINES)}, and no class of your own as module:Class"
        raise Senseless("script.machine", f"{script.machine!r} is none of {known}")
    if (script.machine in WITH_BROKERS) != (0 < script.brokers <= BROKERS_MAX):
        machines = " or ".join(WITH_BROKERS)
        raise Senseless("script.brokers", f"from 1 to {BROKERS_MAX} where the machine is {machines}, else none")
    if script.length_ms < 1:
        raise Senseless("script.length_ms", "a run takes time")
    if script.length_ms > INTEGER_MAX:
        raise Senseless("script.length_ms", f"{script.length_ms} is too large; {INTEGER_MAX} is the most")
    for place in ("timing", "knobs"):
        for name, value in fields(getattr(script, place)):
            check_setting(place, name, value, f"script.{place}.{name}")
    for place, small, large in ORDERED:
        least, most = (getattr(getattr(script, place), name) for name in (small, large))
        if least > most:
            raise Senseless(f"script.{place}.{small}", f"{least} is more than {large}, which is {most}")
    servers = {*range(1, script.servers + 1), *_added(script)}
    for kind, items in (("ops", script.ops), ("faults", script.faults)):
        for number, item in enumerate(items):
            if item.at > script.length_ms:
                raise Senseless(f"script.{kind}[{number}].at", f"the run ends at {script.length_ms}")
            check_item(item, f"script.{kind}[{number}]")
            _check_servers(item, servers, f"script.{kind}[{number}]")
            target = getattr(item, "target", None)
            if target is not None and target == getattr(item, "source", None) and script.servers > 1:
                raise Senseless(
                    f"script.{kind}[{number}].target", f"{target} is the source, too; nothing is between it and itself"
                )
    asked = sum(op.count * (op.size + 16) for op in script.ops if isinstance(op, Write))
    asked += sum(len(op.request) for op in script.ops if isinstance(op, Invoke))
    if asked > BYTES_MAX:
        raise Senseless("script.ops", f"all writes together ask for {asked:,} bytes; {BYTES_MAX:,} are the most")


def _check_groups(script: Script) -> None:
    """As whoever makes an ensemble of them checks it, who is told by the name of the place."""
    if not script.groups and not script.weights:
        return
    if script.weights and len(script.weights) != script.voters:
        raise Senseless("script.weights", f"one for each voter, {script.voters}, and not {len(script.weights)}")
    servers = [
        Server(ServerId(sid), "", 1, 2, Role.PARTICIPANT if sid <= script.voters else Role.OBSERVER)
        for sid in range(1, script.servers + 1)
    ]
    groups, weights = grouped(script)
    place = "groups" if groups else "weights"
    for fault in faults(servers, groups, weights):
        raise Senseless(f"script.{place}", str(fault))


def grouped(script: Script) -> tuple[tuple[Group, ...], dict[ServerId, int]]:
    """The groups and weights of the ensemble that a run begins with."""
    groups = tuple(Group(number, tuple(map(ServerId, members))) for number, members in enumerate(script.groups, 1))
    return groups, {ServerId(sid): weight for sid, weight in enumerate(script.weights, 1)}


def check_setting(place: str, name: str, value: int, where: str) -> None:
    """Of `timing` or of `knobs`."""
    if place == "timing":
        trouble = f"{value} is negative" if value < 0 else _trouble(name, value)
    else:
        trouble = _knob_trouble(name, value)
    if trouble is not None:
        raise Senseless(where, trouble)


def _knob_trouble(name: str, value: int) -> str | None:
    least = LEAST.get(name, 1)
    if value < least:
        return f"{value} is too small for {name}; {least} is the least"
    if name == "counter_max" and value > COUNTER_MAX:
        return f"{value} is too large for {name}; {COUNTER_MAX} is the most"
    return None


def _added(script: Script) -> Iterator[int]:
    for op in script.ops:
        if isinstance(op, Reconfigure) and op.change in JOINING:
            yield op.server


def _check_servers(item: Fault | Op, known: set[int], where: str) -> None:
    """A change of the members may be about a server that is not there: to refuse that is the leader's business."""
    if isinstance(item, Reconfigure):
        return
    for name, value in fields(item):
        named = [value] if name in WHO else [sid for group in value for sid in group] if name == "groups" else []
        for sid in named:
            if sid is not None and sid > LEADER and sid not in known:
                raise Senseless(f"{where}.{name}", f"there is no server {sid}; there are {_words(known)}")


def _words(known: set[int]) -> str:
    return ", ".join(map(str, sorted(known)))


def _is_request(text: str) -> bool:
    try:
        request_bytes(text)
    except UnicodeEncodeError:
        return False
    return True


def is_sound(script: Script) -> bool:
    try:
        check(script)
    except ScriptError:
        return False
    return True


def check_item(item: Fault | Op | Step, where: str) -> None:
    for name, value in fields(item):
        trouble = _trouble(name, value)
        if trouble is not None:
            raise Senseless(f"{where}.{name}", trouble)
        if name == "steps":
            for number, step in enumerate(value):
                check_item(step, f"{where}.{name}[{number}]")
    if isinstance(item, Setting):
        trouble = _knob_trouble(item.knob, item.value)
        if trouble is not None:
            raise Senseless(f"{where}.value", trouble)


def _trouble(name: str, value: Any) -> str | None:
    if name in CHOICES:
        return None if value in CHOICES[name] else f"{value!r} is none of {', '.join(CHOICES[name])}"
    if name in WHO:
        named = value is None or FOLLOWER <= value <= SERVERS_MAX
        return None if named else f"there is no server {value}"
    if name in ("steps", "groups") and not value:
        return "at least one"
    if name == "groups" and not any(value):
        return "there is nobody in any of them; name who hears whom, as in 1 2 | 3"
    if name == "groups":
        named = all(LEADER <= sid <= SERVERS_MAX for group in value for sid in group)
        return None if named else "there is no such server"
    if name == "version":
        return None if value >= -1 else "-1 is any, and nothing is below that"
    if name == "acl":
        return lists.trouble(value)
    if name == "limits":
        return None if LIMITS.fullmatch(value) else f"{value!r} is not like countHardLimit=4,byteHardLimit=100"
    if name == "request":
        return None if _is_request(value) else f"{value!r} is not the text of any bytes"
    if name == "path":
        return None if not value or value.startswith("/") else f"{value!r} does not begin with /"
    if type(value) is not int or name in SIGNED:
        return None
    if value < int(name in POSITIVE):
        return f"{value} is too small"
    if value > LARGEST.get(name, INTEGER_MAX):
        return f"{value} is too large; {LARGEST.get(name, INTEGER_MAX)} is the most"
    return f"{value} is more than the whole" if name in SHARES and value > 100 else None
