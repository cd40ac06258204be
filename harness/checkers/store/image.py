"""A read shows the tree at one zxid: the zxid in the reply, and never a part of a multi.

A reply without a zxid must show the tree at some zxid that is not below what the session has seen already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import fields_dict

from harness.checkers.broken import Broken
from harness.checkers.store.case import READS, Call, Case, by_call, parts_of, shown_by
from harness.checkers.store.model import UNKNOWN, Node, granted, of_the_system
from harness.history import Change, Reply, Request, Response, Stat, WatchFired

INVARIANT: Final = "a read shows the state of its zxid"
ATOMIC: Final = "no read sees a part of a multi"
OPEN, ANY_USER = "open", "any user"


def check(case: Case) -> Iterator[Broken]:
    floors, last = _floors(case), case.replay.last
    for call in case.calls.all:
        if call.reply is None:
            continue
        if call.reply.zxid > last:
            what = f"the reply shows zxid {call.reply.zxid:#x}, but the last committed zxid is {last:#x}"
            yield by_call(INVARIANT, call, what)
            continue
        if call.write:
            continue
        requests, replies = parts_of(call.request), call.answers
        if len(requests) != len(replies):
            if not call.reply.error:
                yield by_call(INVARIANT, call, f"the multi has {len(requests)} reads, but {len(replies)} replies")
            continue
        for request, reply in zip(requests, replies, strict=True):
            if request.op in READS and reply.error in ("", "NO_NODE", "NO_AUTH") and not of_the_system(request.path):
                yield from _read(case, call, request, reply, floors)


def _read(case: Case, call: Call, request: Request, reply: Reply, floors: dict[int, int]) -> Iterator[Broken]:
    replay, path = case.replay, request.path
    zxid = call.zxid
    if zxid:
        wrong = difference(request, reply, replay.node(path, zxid))
        if wrong:
            yield _explained(case, call, request, reply, wrong)
        return
    floor = floors[call.response_place]
    nodes = [replay.node(path, floor), *(node for since, node in replay.lives(path) if since > floor)]
    wrongs = [difference(request, reply, node) for node in nodes]
    if all(wrongs):
        yield by_call(INVARIANT, call, f"the reply fits no state from zxid {floor:#x} on: {wrongs[0]}")


def _floors(case: Case) -> dict[int, int]:
    """Return the largest zxid that the session had seen before each reply, by the reply's index in the history."""
    seen: dict[int, int] = {}
    floors = {}
    for place, event in enumerate(case.history.events):
        if isinstance(event, Response | WatchFired):
            floors[place] = before = seen.get(event.session, 0)
            seen[event.session] = max(before, shown_by(event))
    return floors


def difference(request: Request, reply: Reply, node: Node | None) -> str:
    """Return the mistake in this reply to a read of this node, or ""."""
    if node is None:
        return "" if reply.error == "NO_NODE" else f"{request.path} does not exist"
    if reply.error == "NO_NODE":
        return f"{request.path} exists"
    if node.acl != UNKNOWN:
        allowed = granted(node.acl, "ra" if request.op == "getacl" else "r", request.user)
        if allowed == bool(reply.error):
            decides = "allows" if allowed else "forbids"
            user = request.user or ANY_USER
            return f"the ACL of {request.path} is {node.acl or OPEN}, which {decides} {user} to read it"
    if reply.error:
        return ""
    if request.op == "getacl" and UNKNOWN not in (reply.acl, node.acl) and reply.acl != node.acl:
        return f"the ACL of {request.path} is {node.acl or OPEN}, not {reply.acl or OPEN}"
    if request.op == "get" and reply.data != node.data:
        return f"{request.path} holds {node.data!r:.60}, not {reply.data!r:.60}"
    if request.op == "children" and sorted(reply.children or ()) != sorted(node.children):
        return f"the children of {request.path} are {sorted(node.children)}, not {sorted(reply.children or ())}"
    stat = reply.stat
    if stat is None:
        return ""
    right = node.stat()
    if stat == right:
        return ""
    name = next(name for name in fields_dict(Stat) if getattr(stat, name) != getattr(right, name))
    return f"the {name} of {request.path} is {getattr(right, name)}, not {getattr(stat, name)}"


def _explained(case: Case, call: Call, request: Request, reply: Reply, wrong: str) -> Broken:
    replay, path, zxid = case.replay, request.path, call.zxid
    since = replay.since(path, zxid)
    evidence: list[Change] = list(case.changes_at(since))
    what = f"the reply shows zxid {zxid:#x}, where {wrong}"
    for multi, states in replay.within.items():
        final = replay.node(path, multi)
        for where, node in states:
            if where == path and node != final and not difference(request, reply, node):
                what += f"; the reply shows a state within the multi of zxid {multi:#x}"
                return by_call(ATOMIC, call, what, *case.changes_at(multi))
    for made, node in replay.lives(path):
        if not difference(request, reply, node):
            age = "an older state" if made < since else "a later state"
            what += f"; the reply shows {age}, of zxid {made:#x}"
            evidence += case.changes_at(made)
            break
    return by_call(INVARIANT, call, what, *evidence)
