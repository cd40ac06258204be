"""The requests and replies of a `History` as ZooKeeper's protocol has them: operations, fields, values, errors.

All worlds use these tables: a step of a script is the same request everywhere, and an answer of a server the same
reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import evolve

from harness.faults import Step
from harness.history import Reply, Request, Stat
from harness.lists import acl_of, words_of
from zab.store.error_codes import ErrorCode
from zab.store.operations import CreateFlag, Fields, Op
from zab.store.server_watches import EventType, WatchKind, WatchMode
from zab.store.znode import Stat as NodeStat

TTL_MS: Final = 250
"""The time to live of a node with mode `ttl`. It is short, so that most such nodes expire during the run."""

MODES: Final = {
    "": (Op.CREATE2, CreateFlag.PERSISTENT),
    "sequential": (Op.CREATE2, CreateFlag.PERSISTENT_SEQUENTIAL),
    "ephemeral": (Op.CREATE2, CreateFlag.EPHEMERAL),
    "ephemeral sequential": (Op.CREATE2, CreateFlag.EPHEMERAL_SEQUENTIAL),
    "container": (Op.CREATE_CONTAINER, CreateFlag.CONTAINER),
    "ttl": (Op.CREATE_TTL, CreateFlag.PERSISTENT_TTL),
}
_MODE: Final = {int(flag): mode for mode, (_, flag) in MODES.items()}
EVENTS: Final = {
    EventType.CREATED: "created",
    EventType.DELETED: "deleted",
    EventType.DATA_CHANGED: "data",
    EventType.CHILDREN_CHANGED: "children",
}
"""The names of events in `WatchFired`."""

_CREATES: Final = frozenset({Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL})
_ROLLED_BACK: Final = (ErrorCode.OK, ErrorCode.RUNTIME_INCONSISTENCY)
"""The codes of the parts of a failed multi that did not fail themselves."""


# -- requests ------------------------------------------------------------------------------------------


def request_of(steps: Sequence[Step], number: int) -> Request:
    """Return the request of one `Ask`. The data contains `number` and is padded to its size."""
    if len(steps) == 1:
        return _request(steps[0], f"{number}".encode())
    parts = tuple(_request(step, f"{number}.{part}".encode()) for part, step in enumerate(steps))
    return Request("multi", parts=parts)


def _request(step: Step, data: bytes) -> Request:
    carries = data.ljust(step.size, b".") if step.op in ("create", "set") else None
    if carries is not None and step.limits:
        carries = f"{step.limits};asked=".encode() + data  # a server ignores unknown quotas
    return Request(step.op, step.path, carries, step.version, step.mode, step.watch, acl=step.acl)


def asked_by(request: Request, user: str) -> Request:
    """Return the request as a client sends it that has authenticated as this user."""
    if not user:
        return request
    return evolve(request, user=user, parts=tuple(evolve(part, user=user) for part in request.parts))


def operation_of(request: Request) -> tuple[Op, Fields]:
    """Return the operation and its fields. A lone check is a multi with one part: the protocol has no other form."""
    path, watch = request.path, request.watch
    match request.op:
        case "create":
            op, flags = MODES[request.mode]
            fields: Fields = (path, request.data, acl_of(request.acl), int(flags))
            return op, ((*fields, TTL_MS) if op == Op.CREATE_TTL else fields)
        case "set":
            return Op.SET_DATA, (path, request.data, request.version)
        case "delete":
            return Op.DELETE, (path, request.version)
        case "get" | "exists" | "children":
            return _READS[request.op], (path, bool(watch))
        case "setacl":
            return Op.SET_ACL, (path, acl_of(request.acl), request.version)
        case "getacl":
            return Op.GET_ACL, (path,)
        case "sync":
            return Op.SYNC, (path or "/",)
        case "check":
            return Op.MULTI, ((Op.CHECK, (path, request.version)),)
        case "watch":
            return Op.ADD_WATCH, (path, int(WatchMode.RECURSIVE if watch == "recursive" else WatchMode.PERSISTENT))
        case "unwatch":
            # "once" is in scripts older than the words "data" and "children".
            return Op.REMOVE_WATCHES, (path, int(_KINDS.get("data" if watch == "once" else watch, WatchKind.ANY)))
        case "multi":
            return Op.MULTI, tuple(
                (Op.CHECK, (part.path, part.version)) if part.op == "check" else operation_of(part)
                for part in request.parts
            )
        case _:
            raise AssertionError(f"unknown operation: {request.op}")


def request_from(op: int, fields: Fields) -> Request | None:
    """Return the request that a client sends by itself, the inverse of `operation_of`; None if histories omit it."""
    match Op(op):
        case Op.CREATE | Op.CREATE2 | Op.CREATE_CONTAINER | Op.CREATE_TTL:
            return Request("create", fields[0], fields[1], mode=_MODE[int(fields[3])], acl=words_of(fields[2]))
        case Op.SET_DATA:
            return Request("set", *fields)
        case Op.DELETE | Op.CHECK:
            return Request("delete" if op == Op.DELETE else "check", fields[0], version=fields[1])
        case Op.GET_DATA | Op.EXISTS | Op.GET_CHILDREN | Op.GET_CHILDREN2:
            return Request(_READ[Op(op)], fields[0], watch="once" if fields[1] else "")
        case Op.SET_ACL:
            return Request("setacl", fields[0], version=fields[2], acl=words_of(fields[1]))
        case Op.GET_ACL:
            return Request("getacl", fields[0])
        case Op.SYNC:
            return Request("sync", fields[0])
        case Op.ADD_WATCH:
            return Request("watch", fields[0], watch=_STAYS[fields[1]])
        case Op.REMOVE_WATCHES:
            return Request("unwatch", fields[0], watch=_KIND[WatchKind(fields[1])])
        case Op.MULTI | Op.MULTI_READ:
            parts = [request_from(*part) for part in fields]
            return Request("multi", parts=tuple(part for part in parts if part is not None))
        case _:
            return None


_READS: Final = {"get": Op.GET_DATA, "exists": Op.EXISTS, "children": Op.GET_CHILDREN2}
_READ: Final = {op: read for read, op in _READS.items()} | {Op.GET_CHILDREN: "children"}
_STAYS: Final = {int(WatchMode.PERSISTENT): "persistent", int(WatchMode.RECURSIVE): "recursive"}
_KINDS: Final = {
    "": WatchKind.ANY, "data": WatchKind.DATA, "children": WatchKind.CHILDREN,
    "persistent": WatchKind.PERSISTENT, "recursive": WatchKind.RECURSIVE,
}  # fmt: skip
_KIND: Final = {kind: watch for watch, kind in _KINDS.items()}


# -- replies -------------------------------------------------------------------------------------------


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def refusal(zxid: int, code: int) -> Reply:
    return Reply(error_name(code), zxid)


def reply_of(request: Request, op: int, zxid: int, value: Any) -> Reply:
    """Return the reply to a request that was carried out, or to a multi."""
    if op not in (Op.MULTI, Op.MULTI_READ):
        return _done(op, zxid, value)
    parts = tuple(refusal(zxid, part) if kind == Op.ERROR else _done(kind, zxid, part) for kind, part in value)
    if op == Op.MULTI_READ:
        return Reply(zxid=zxid, parts=parts)
    code = next((part for kind, part in value if kind == Op.ERROR and part not in _ROLLED_BACK), ErrorCode.OK)
    error = "" if code == ErrorCode.OK else error_name(code)
    return Reply(error, zxid) if request.op == "check" else Reply(error, zxid, parts=parts)


def _done(op: int, zxid: int, value: Any) -> Reply:
    if op in _CREATES:
        path, stat = value
        return Reply(zxid=zxid, path=path, stat=None if stat is None else stat_of(stat))
    if op in (Op.CREATE, Op.SYNC):
        return Reply(zxid=zxid, path=value)
    if op in (Op.SET_DATA, Op.SET_ACL, Op.EXISTS):
        return Reply(zxid=zxid, stat=stat_of(value))
    if op == Op.GET_DATA:
        data, stat = value
        return Reply(zxid=zxid, data=data, stat=stat_of(stat))
    if op == Op.GET_ACL:
        acl, stat = value
        return Reply(zxid=zxid, stat=stat_of(stat), acl=words_of(acl))
    if op == Op.GET_CHILDREN:
        return Reply(zxid=zxid, children=tuple(sorted(value)))
    if op == Op.GET_CHILDREN2:
        names, stat = value
        return Reply(zxid=zxid, children=tuple(sorted(names)), stat=stat_of(stat))
    return Reply(zxid=zxid)


def stat_of(stat: NodeStat) -> Stat:
    """Convert a stat. The times are left out: no invariant is about them."""
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.version,
        stat.cversion,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
    )
