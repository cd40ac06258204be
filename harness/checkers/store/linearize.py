"""The calls of the store's clients, as operations for the check of linearizability.

A write takes effect between its request and its reply. A plain read may show an old state, but none older than the last
write or `sync` of its session, so its interval begins with the request of that call. With these intervals every correct
history is linearizable.

A write without a reply is an operation if and only if it was committed. Changes by the servers themselves (they close a
session or delete a container) may take effect at any time.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from harness.checkers.linear import UNKNOWN, Operation
from harness.checkers.linear import History as Operations
from harness.checkers.linear.history import Value
from harness.checkers.store.case import Call, Case, parts_of
from harness.checkers.store.model import BY_NODES, LATER, SYSTEM, of_the_system
from harness.checkers.store.replay import Group
from harness.history import Change, Reply, Request

_JUDGED = ("create", "set", "delete", "check", "get", "exists", "children")


def operations(case: Case) -> Operations:
    made = [op for calls in case.calls.of.values() for op in _of_session(calls)]
    claimed = {call.group.zxid for call in case.calls.all if call.group is not None}
    for group in case.replay.groups.values():
        if group.zxid not in claimed:
            made += _of_servers(group)
    return Operations(tuple(_in_lanes(sorted(made, key=lambda op: (op.call, op.id)))))


def _of_session(calls: list[Call]) -> Iterator[Operation]:
    since = 0
    for call in calls:
        op = _operation(call, since)
        if op is not None:
            yield op
        if (call.write and call.reply is not None and call.reply.zxid) or (call.request.op == "sync" and call.done):
            since = call.invoke.at


def _operation(call: Call, since: int) -> Operation | None:
    request, reply = call.request, call.reply
    requests = parts_of(request)
    if not requests or any(part.op not in _JUDGED or of_the_system(part.path) for part in requests):
        return None
    if any(not part.path.startswith("/") for part in requests):
        return None
    begin = call.invoke.at if call.write else since
    client = f"client {call.invoke.client}"
    if reply is None:
        if call.group is None:
            return None  # the call was never carried out
        parts = _as_committed(requests, call.group)
        kind, key, value = parts[0] if request.op != "multi" else ("multi", "", tuple(parts))
        return Operation(call.invoke.call, client, kind, key, value, UNKNOWN, begin, None, call.group.zxid)
    assert call.response is not None
    answers = call.answers
    parts = [(_kind(part, answer), part.path, _value(part)) for part, answer in zip(requests, answers, strict=False)]
    # The log has the versions for replies without a stat.
    versions = {} if call.group is None else {change.part: change.version for change in call.group.changes}
    if request.op == "multi":
        errors = [part.error for part in answers]
        if len(answers) != len(requests) or any(each not in (*BY_NODES, LATER) for each in errors):
            return None
        refused = call.write and any(errors)
        result: Value = tuple(
            (answer.error or None) if refused else _answer(part, answer, versions.get(place, 0))
            for place, (part, answer) in enumerate(zip(requests, answers, strict=True))
        )
        kind, key, value = "multi", "", tuple(parts)
    else:
        if reply.error not in BY_NODES:
            return None
        kind, key, value = parts[0]
        result = _answer(request, reply, versions.get(0, 0))
    zxid = call.zxid or None
    return Operation(call.invoke.call, client, kind, key, value, result, begin, call.response.at, zxid)


def _kind(request: Request, reply: Reply) -> str:
    """Return the operation's kind. A read without a recorded stat has a weaker kind, which compares no version."""
    if reply.stat is None and request.op in ("get", "exists"):
        return "data" if request.op == "get" else "there"
    return request.op


def _value(request: Request) -> Value:
    match request.op:
        case "create":
            return _text(request.data), request.mode
        case "set":
            return _text(request.data), request.version
        case "delete" | "check":
            return request.version
        case _:
            return None


def _answer(request: Request, reply: Reply, version: int) -> Value:
    if reply.error:
        return reply.error
    stat = reply.stat
    match request.op:
        case "create":
            return reply.path
        case "set":
            return version if stat is None else stat.version
        case "exists":
            return True if stat is None else stat.version
        case "get":
            return _text(reply.data) if stat is None else (_text(reply.data), stat.version)
        case "children":
            names = (name for name in reply.children or () if f"{request.path.rstrip('/')}/{name}" != SYSTEM)
            return tuple(sorted(names))
        case _:
            return None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _as_committed(requests: tuple[Request, ...], group: Group) -> list[tuple[str, str, Value]]:
    """Return the parts of a write without a reply. Only the log has the names of its sequential nodes."""
    names = {change.part: change.path for change in group.changes if change.kind == "create"}
    return [
        (part.op, names.get(place, part.path), _value(evolve(part, mode=part.mode.replace("sequential", "").strip())))
        for place, part in enumerate(requests)
    ]


def _of_servers(group: Group) -> Iterator[Operation]:
    gone = tuple(path for change in group.changes for path in change.gone)
    if gone:
        yield Operation(-group.zxid, "servers", "close", "", gone, UNKNOWN, 0, None, group.zxid)
    writes = tuple(
        _part(change) for change in group.writes if change.kind != "setacl" and not of_the_system(change.path)
    )
    if writes:
        yield Operation(-group.zxid, "servers", "multi", "", writes, UNKNOWN, 0, None, group.zxid)


def _part(change: Change) -> Value:
    match change.kind:
        case "create":
            return "create", change.path, (_text(change.data), "ephemeral" if change.owner else "")
        case "set":
            return "set", change.path, (_text(change.data), -1)
        case _:
            return "delete", change.path, -1


def _in_lanes(ordered: list[Operation]) -> Iterator[Operation]:
    """Split a client with several outstanding requests into several clients."""
    lanes: dict[str, list[Operation]] = {}
    for op in ordered:
        mine = lanes.setdefault(op.client, [])
        lane = next((number for number, last in enumerate(mine) if last.before(op)), len(mine))
        mine[lane : lane + 1] = [op]
        yield evolve(op, client=op.client + (f", lane {lane + 1}" if lane else ""))
