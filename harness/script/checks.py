"""Check the properties of a script that its types cannot express. An error has the place and the expected input."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from harness import lists
from harness.history import MODES, OPERATIONS, WATCHES
from harness.script import names
from harness.script.constants import CONSTANTS
from harness.script.faults import FAULTS, Fault, Setting
from harness.script.names import JOINING, MACHINES, WITH_BROKERS, is_users
from harness.script.nodes import NODE_FAULTS, NODES_MAX, NodeFault
from harness.script.script import OPS, Knobs, Script
from harness.script.values import Among, fields_of
from harness.script.workload import Invoke, Op, Reconfigure, Step, Write, request_bytes
from zab.core.ensemble import Group, Role, Server, faults
from zab.core.zxid import COUNTER_MAX, ServerId

SERVERS_MAX: Final = 30
BROKERS_MAX: Final = 30
INTEGER_MAX: Final = (1 << 63) - 1
BYTES_MAX: Final = 64 << 20
"""The limit of the data of all writes of a script."""

# -- fields by their names: a name has the same meaning everywhere --------------------------------------------

CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    **{
        name: tuple(dict.fromkeys(value.values))
        for kind in (*FAULTS, *NODE_FAULTS, *OPS)
        for name, value in fields_of(kind).items()
        if isinstance(value, Among) and isinstance(value.values[0], str)
    },
    "knob": tuple(attribute.name for attribute in attrs.fields(Knobs)), "change": names.CHANGES,
    "op": tuple(op for op in OPERATIONS if op != "multi"), "mode": MODES, "watch": WATCHES, "library": names.LIBRARIES,
    "ends": names.ENDS, "fate": names.FATES, "part": names.PARTS,
}  # fmt: skip
"""The allowed words of each field that has such a list: those that its declaration draws, or these."""

SERVER_FIELDS: Final = ("server", "source", "target")

LEAST: Final[Mapping[str, int]] = {
    **dict.fromkeys((
        "nth", "acts", "count", "slower", "client", "rate_percent", "every_ms", "most", "topic", "partitions", "factor",
        "first", "in_sync", "lag_ms", "group", "init_limit", "sync_limit", "notification_ms_min", "notification_ms_max",
        "dial_retry_ms", "window_entries", "outstanding_max", "counter_max", "snapshot_every", "segment_bytes",
        "chunk_bytes",
    ), 1),
    "tick_ms": 2,  # leaders ping every half tick
    "version": -1,
    "by_ms": -INTEGER_MAX,
}  # fmt: skip
"""The least values of numbers; the default is 0."""

MOST: Final[Mapping[str, int]] = {
    **dict.fromkeys((
        "percent", "loss_percent", "double_percent", "late_percent", "spike_percent", "impolite_percent",
    ), 100),
    "closed_loop": 1_000, "count": 10_000, "size": 1 << 20, "user": lists.USERS_MAX,
    "counter_max": COUNTER_MAX,
}  # fmt: skip

_QUOTA: Final = re.compile(r"(\w+=-?\d+([,;=]+\w+=-?\d+)*)?")
_ORDERED: Final = (
    ("timing", "delay_us_min", "delay_us_max"),
    ("timing", "fsync_us_min", "fsync_us_max"),
    ("knobs", "notification_ms_min", "notification_ms_max"),
)


class ScriptError(ValueError):
    """The input is no script of this version. The message contains the place."""


class Senseless(ScriptError):
    """A well formed script has an impossible value. `where` is a place like `script.faults[0].server`."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


def fields(value: Any) -> list[tuple[str, Any]]:
    return [(attribute.name, getattr(value, attribute.name)) for attribute in attrs.fields(type(value))]


def is_sound(script: Script) -> bool:
    try:
        check(script)
    except ScriptError:
        return False
    return True


def check(script: Script) -> None:
    if not 0 <= script.seed <= INTEGER_MAX:
        raise Senseless("script.seed", f"{script.seed} is not from 0 to {INTEGER_MAX}")
    if not 1 <= script.voters <= script.servers <= SERVERS_MAX:
        raise Senseless("script.voters", f"expected from 1 to {SERVERS_MAX} servers, at least one of them a voter")
    _check_groups(script)
    if script.machine not in MACHINES and not is_users(script.machine):
        known = f"{', '.join(MACHINES)}, nor a class of your own as module:Class"
        raise Senseless("script.machine", f"{script.machine!r} is none of {known}")
    if (script.machine in WITH_BROKERS) != (0 < script.brokers <= BROKERS_MAX):
        machines = " or ".join(WITH_BROKERS)
        raise Senseless("script.brokers", f"expected from 1 to {BROKERS_MAX} if the machine is {machines}, else 0")
    if not (script.nodes == 0 or (is_users(script.machine) and script.nodes <= NODES_MAX)):
        raise Senseless("script.nodes", f"expected at most {NODES_MAX}, and 0 unless the machine is module:main")
    if not 1 <= script.length_ms <= INTEGER_MAX:
        raise Senseless("script.length_ms", f"{script.length_ms} is not from 1 to {INTEGER_MAX}")
    for place in ("timing", "knobs"):
        for name, value in fields(getattr(script, place)):
            check_field(name, value, f"script.{place}.{name}")
    for place, small, large in _ORDERED:
        least, most = (getattr(getattr(script, place), name) for name in (small, large))
        if least > most:
            raise Senseless(f"script.{place}.{small}", f"{least} is more than {large}, which is {most}")
    names = [each.name for each in script.constants]
    for each in script.constants:
        where = f"script.constants.{each.name}"
        if each.name not in CONSTANTS:
            raise Senseless(where, f"unknown; the known ones are {', '.join(CONSTANTS)}")
        if names.count(each.name) > 1:
            raise Senseless(where, "given twice")
        if not 0 <= each.value <= INTEGER_MAX:
            raise Senseless(where, f"{each.value} is not from 0 to {INTEGER_MAX}")
    added = {op.server for op in script.ops if isinstance(op, Reconfigure) and op.change in JOINING}
    servers = {*range(1, script.servers + 1), *added}
    places: list[tuple[str, Fault | Op]] = [(f"script.ops[{number}]", op) for number, op in enumerate(script.ops)]
    places += [(f"script.faults[{number}]", fault) for number, fault in enumerate(script.faults)]
    for where, item in places:
        if item.at > script.length_ms:
            raise Senseless(f"{where}.at", f"the run ends at {script.length_ms}")
        check_item(item, where)
        if isinstance(item, NodeFault) and item.at_node > script.nodes:
            raise Senseless(f"{where}.node", f"there is no node {item.at_node}; the script has {script.nodes}")
        _check_servers(item, servers, where)
        target = getattr(item, "target", None)
        if target is not None and target == getattr(item, "source", None) and script.servers > 1:
            raise Senseless(f"{where}.target", f"{target} is the source, too; expected another server")
    asked = sum(op.count * (op.size + 16) for op in script.ops if isinstance(op, Write))
    asked += sum(len(op.request) for op in script.ops if isinstance(op, Invoke))
    if asked > BYTES_MAX:
        raise Senseless("script.ops", f"all writes together have {asked:,} bytes; the limit is {BYTES_MAX:,}")


def check_item(item: Fault | Op | Step, where: str) -> None:
    for name, value in fields(item):
        check_field(name, value, f"{where}.{name}")
        if name == "steps":
            for number, step in enumerate(value):
                check_item(step, f"{where}.{name}[{number}]")
    if isinstance(item, Setting):
        check_field(item.knob, item.value, f"{where}.value")


def check_field(name: str, value: Any, where: str) -> None:
    trouble = _trouble(name, value)
    if trouble is not None:
        raise Senseless(where, trouble)


def _trouble(name: str, value: Any) -> str | None:
    if name in CHOICES:
        return None if value in CHOICES[name] else f"{value!r} is none of {', '.join(CHOICES[name])}"
    if name in SERVER_FIELDS:
        return None if value is None or names.FOLLOWER <= value <= SERVERS_MAX else f"there is no server {value}"
    if name in ("steps", "groups") and not value:
        return "expected at least one"
    if name == "groups" and not any(value):
        return "all groups are empty; name the servers that reach each other, as in 1 2 | 3"
    if name == "groups":
        known = all(names.LEADER <= sid <= SERVERS_MAX for group in value for sid in group)
        return None if known else "a group has a server that does not exist"
    if name == "acl":
        return lists.trouble(value)
    if name == "limits":
        return None if _QUOTA.fullmatch(value) else f"{value!r} is not like countHardLimit=4,byteHardLimit=100"
    if name == "request":
        return None if _is_request(value) else f"{value!r} does not encode bytes"
    if name == "path":
        return None if not value or value.startswith("/") else f"{value!r} does not begin with /"
    if type(value) is not int:
        return None
    least, most = LEAST.get(name, 0), MOST.get(name, INTEGER_MAX)
    if value < least:
        return f"{value} is too small; the least value is {least}"
    return f"{value} is too large; the limit is {most}" if value > most else None


def _is_request(text: str) -> bool:
    try:
        request_bytes(text)
    except UnicodeEncodeError:
        return False
    return True


def _check_servers(item: Fault | Op, known: set[int], where: str) -> None:
    """Check that all named servers exist. A membership change may name another one: the leader must refuse it."""
    if isinstance(item, Reconfigure):
        return
    for name, value in fields(item):
        named = (
            [value] if name in SERVER_FIELDS else [sid for group in value for sid in group] if name == "groups" else []
        )
        for sid in named:
            if sid is not None and sid > names.LEADER and sid not in known:
                there = ", ".join(map(str, sorted(known)))
                raise Senseless(f"{where}.{name}", f"there is no server {sid}; there are {there}")


def _check_groups(script: Script) -> None:
    if not script.groups and not script.weights:
        return
    if script.weights and len(script.weights) != script.voters:
        raise Senseless("script.weights", f"expected one for each voter, {script.voters}, not {len(script.weights)}")
    servers = [
        Server(ServerId(sid), "", 1, 2, Role.PARTICIPANT if sid <= script.voters else Role.OBSERVER)
        for sid in range(1, script.servers + 1)
    ]
    groups, weights = grouped(script)
    for fault in faults(servers, groups, weights):
        raise Senseless("script.groups" if groups else "script.weights", str(fault))


def grouped(script: Script) -> tuple[tuple[Group, ...], dict[ServerId, int]]:
    """Return the groups and weights of the ensemble at the beginning of a run."""
    groups = tuple(Group(number, tuple(map(ServerId, members))) for number, members in enumerate(script.groups, 1))
    return groups, {ServerId(sid): weight for sid, weight in enumerate(script.weights, 1)}
