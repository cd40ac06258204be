"""What clients ask for and what they are told, between the words of the history and the values of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.history import Reply, Request
from harness.protocol import operation_of, refusal, reply_of
from zab.store.apply import Result, SubResult
from zab.store.node import Node, stat_of
from zab.store.ops import WRITES, Fields, Op
from zab.store.reads import Answer

_WRITES: Final = frozenset(WRITES)
_CREATES: Final = frozenset({Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL})


class Call:
    """One request of a client, on its way or waiting."""

    __slots__ = ("fields", "number", "op", "request", "writes")

    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.request = request
        self.op: Op
        self.fields: Fields
        self.op, self.fields = operation_of(request)
        self.writes = self.op in _WRITES


class Pinged:
    """A sign of life, and its answer."""

    __slots__ = ()


class Watched:
    """SetWatches: what a client that is back wants to be told of, and the newest state that it has seen."""

    __slots__ = ("lists", "seen")

    def __init__(self, seen: int, lists: Sequence[Sequence[str]]) -> None:
        self.seen = seen
        self.lists = lists


class Left:
    """The client closes its session."""

    __slots__ = ()


class Hello:
    """The first word of a connection."""

    __slots__ = ("password", "seen", "session", "timeout_ms", "user")

    def __init__(self, session: int, password: bytes, seen: int, timeout_ms: int, user: str = "") -> None:
        self.session = session
        self.password = password
        self.seen = seen
        self.timeout_ms = timeout_ms
        self.user = user


class Welcome:
    """The answer to it. Without a session: yours is over."""

    __slots__ = ("password", "session", "timeout_ms")

    def __init__(self, session: int, password: bytes, timeout_ms: int) -> None:
        self.session = session
        self.password = password
        self.timeout_ms = timeout_ms


class Answered:
    __slots__ = ("call", "error", "reply")

    def __init__(self, call: Call, reply: Reply, error: int) -> None:
        self.call = call
        self.reply = reply
        self.error = error


class Happened:
    __slots__ = ("event", "path", "zxid")

    def __init__(self, event: int, path: str, zxid: int) -> None:
        self.event = event
        self.path = path
        self.zxid = zxid


def answer_of_write(call: Call, result: Result) -> Answered:
    zxid, error, path, node, parts = result
    if error:
        return Answered(call, refusal(zxid, error), error)
    value = [_part(part) for part in parts] if call.op == Op.MULTI else _value(call.op, path, node)
    return Answered(call, reply_of(call.request, call.op, zxid, value), 0)


def _part(part: SubResult) -> tuple[int, Any]:
    op, error, path, node = part
    if error or op == Op.ERROR:
        return Op.ERROR, error
    return op, _value(op, path, node)


def _value(op: int, path: str | None, node: Node | None) -> Any:
    if node is None:
        return None
    return (path, stat_of(node)) if op in _CREATES else stat_of(node)


def answer_of_read(call: Call, zxid: int, answer: Answer) -> Answered:
    error, value = answer
    if error:
        return Answered(call, refusal(zxid, error), error)
    if call.op == Op.GET_DATA:
        value = (value[0], stat_of(value))
    elif call.op == Op.GET_ACL:
        value = (value[0], stat_of(value[1]))
    elif call.op == Op.EXISTS:
        value = stat_of(value)
    elif call.op == Op.GET_CHILDREN2:
        value = (value[0], stat_of(value[1]))
    return Answered(call, reply_of(call.request, call.op, zxid, value), 0)


def answer_of_sync(call: Call, zxid: int) -> Answered:
    return Answered(call, reply_of(call.request, call.op, zxid, call.request.path), 0)
