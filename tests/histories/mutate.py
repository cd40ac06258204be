"""Histories with one random change, legal or illegal, also ones that no system can record.

A corruption has a known effect; a random change reaches unforeseen places. The expected verdict is that of the
unchanged checkers. The histories are small, so that a reader can verify a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, TypeVar

from attrs import evolve

from harness.history import (
    MODES,
    STATES,
    WATCHES,
    Change,
    Event,
    History,
    Invoke,
    Reply,
    Request,
    Response,
    SessionEvent,
    WatchFired,
)
from zab.store.error_codes import ErrorCode

T = TypeVar("T")
ERRORS: Final = (
    "",
    "NO_NODE",
    "NODE_EXISTS",
    "BAD_VERSION",
    "NOT_EMPTY",
    "NO_WATCHER",
    "SESSION_EXPIRED",
    "RUNTIME_INCONSISTENCY",
)
PATHS: Final = ("/", "/x", "/x/y", "/y", "x", "/zookeeper", "/zookeeper/config", "/x0000000000", "/x/n0000000001")
KINDS: Final = ("create", "set", "delete", "close", "open", "attach", "setacl", "other", "error")
OPS: Final = ("create", "set", "delete", "check", "get", "exists", "children", "sync", "multi", "watch", "unwatch")
assert set(ERRORS[1:]) <= {code.name for code in ErrorCode}


def mutated(chance: Random, history: History) -> History:
    if history.changes and chance.random() < 0.4:
        return evolve(history, changes=_mutated_sequence(chance, history.changes, _change))
    if chance.random() < 0.05:
        return evolve(history, jumps=None)
    return evolve(history, events=_mutated_sequence(chance, history.events, _event))


def _mutated_sequence(chance: Random, line: Sequence[T], change: Any) -> tuple[T, ...]:
    """Drop, duplicate, swap or change one element."""
    made = list(line)
    if not made:
        return ()
    place = chance.randrange(len(made))
    what = chance.random()
    if what < 0.12:
        del made[place]
    elif what < 0.2:
        made.insert(chance.randrange(len(made)), made[place])
    elif what < 0.3:
        made[place - 1], made[place] = made[place], made[place - 1]
    else:
        made[place] = change(chance, made[place])
    return tuple(made)


def _number(chance: Random, number: int) -> int:
    return chance.choice((number - 1, number + 1, number + 2, 0, -1, 1))


def _one_of(chance: Random, changes: dict[str, Any]) -> dict[str, Any]:
    name = chance.choice(sorted(changes))
    return {name: changes[name]}


def _change(chance: Random, change: Change) -> Change:
    changes = {
        "zxid": max(1, _number(chance, change.zxid)),
        "session": chance.choice((0, 0x101, 0x102, 0x103)),
        "kind": chance.choice(KINDS),
        "path": chance.choice(PATHS),
        "data": chance.choice((None, b"", b"1", b"2")),
        "version": _number(chance, change.version),
        "owner": chance.choice((0, 0x101, 0x102)),
        "gone": chance.choice(((), ("/x",), ("/x", "/y"))),
        "part": chance.choice((0, 1, 2)),
    }
    return evolve(change, **_one_of(chance, changes))


def _event(chance: Random, event: Event) -> Event:
    if chance.random() < 0.1:
        return evolve(event, **_one_of(chance, {
            "at": event.at + chance.choice((-10, -5, 5, 10, 20)),
            "session": chance.choice((0x101, 0x102)),
            "client": chance.choice((1, 2)),
        }))  # fmt: skip
    match event:
        case Invoke():
            return evolve(event, request=_request(chance, event.request))
        case Response():
            return evolve(event, reply=_reply(chance, event.reply))
        case WatchFired():
            changes = {
                "event": chance.choice(("created", "deleted", "data", "children")),
                "path": chance.choice(PATHS),
                "zxid": _number(chance, event.zxid),
            }
            return evolve(event, **_one_of(chance, changes))
        case SessionEvent():
            return evolve(event, **_one_of(chance, {"state": chance.choice(STATES), "server": chance.choice((1, 2))}))
        case _:
            return event


def _request(chance: Random, request: Request) -> Request:
    if request.parts and chance.random() < 0.7:
        return evolve(request, parts=_mutated_sequence(chance, request.parts, _request))
    changes = {
        "op": chance.choice(OPS),
        "path": chance.choice(PATHS),
        "data": chance.choice((None, b"", b"1", b"2")),
        "version": chance.choice((-1, 0, 1, 2)),
        "mode": chance.choice(MODES),
        "watch": chance.choice(WATCHES),
    }
    return evolve(request, **_one_of(chance, changes))


def _reply(chance: Random, reply: Reply) -> Reply:
    if reply.parts and chance.random() < 0.6:
        return evolve(reply, parts=_mutated_sequence(chance, reply.parts, _reply))
    if reply.stat is not None and chance.random() < 0.3:
        name = chance.choice(
            ("czxid", "mzxid", "pzxid", "version", "cversion", "aversion", "owner", "length", "children")
        )
        changed = evolve(reply.stat, **{name: _number(chance, getattr(reply.stat, name))})
        return evolve(reply, stat=chance.choice((changed, None)))
    changes = {
        "error": chance.choice(ERRORS),
        "zxid": _number(chance, reply.zxid),
        "path": chance.choice(PATHS),
        "data": chance.choice((None, b"", b"1", b"2")),
        "children": chance.choice(((), ("x",), ("y", "x"), None)),
        "parts": chance.choice(((), (Reply(),), (Reply("NO_NODE"), Reply("RUNTIME_INCONSISTENCY")))),
    }
    return evolve(reply, **_one_of(chance, changes))
