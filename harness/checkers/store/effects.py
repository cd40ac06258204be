"""The reply to a write shows its effect, and an error is one that the tree demanded.

The reply bears the zxid of a transaction of that session; that transaction is what was asked for; its answer is
made from the tree as it was then; and what was refused had to be refused there. A multi does all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.store.broken import Broken, hexed
from harness.checkers.store.calls import Call, made_by, parts_of
from harness.checkers.store.case import Case, broken
from harness.checkers.store.lists import REFUSALS, UNKNOWN
from harness.checkers.store.model import DECIDED, LATER, of_the_system, parent_of
from harness.checkers.store.replay import Group
from harness.history import Change, Reply, Request

PROMISE: Final = "the reply to a write shows its effect"
REFUSED: Final = "every error reply is right"
ATOMIC: Final = "a multi is atomic"


def check(case: Case) -> Iterator[Broken]:
    for call in case.calls.all:
        if call.group is None:
            continue
        yield from _answer(case, call, call.group)
        if call.request.parts or call.request.op != "multi":
            yield from _decision(case, call, call.group)


# -- the answer and the transaction --------------------------------------------------------------------


def _answer(case: Case, call: Call, group: Group) -> Iterator[Broken]:
    reply = call.reply
    if reply is None:
        return
    if not call.done:
        if group.writes:
            what = f"it was refused ({_errors(reply)}), but zxid {hexed(group.zxid)} changed something for it"
            yield broken(ATOMIC if call.request.op == "multi" else PROMISE, call, what, *group.changes)
        return
    if group.refused:
        yield broken(PROMISE, call, f"it was done, but zxid {hexed(group.zxid)} is a refusal", *group.changes)
        return
    multi = call.request.op == "multi"
    if not made_by(call.request, group):
        what = f"it was done, but what was committed at zxid {hexed(group.zxid)} is something else"
        yield broken(ATOMIC if multi else PROMISE, call, what, *group.changes)
        return
    replies = reply.parts if multi else (reply,)
    requests = parts_of(call.request)
    if len(replies) != len(requests):
        yield broken(ATOMIC, call, f"it has {len(requests)} parts and {len(replies)} answers", *group.changes)
        return
    by_part = {change.part: change for change in group.changes}
    for part, (request, answer) in enumerate(zip(requests, replies, strict=True)):
        change = by_part.get(part)
        if change is not None:
            wrong = _part(case, request, answer, change)
            if wrong:
                yield broken(PROMISE, call, wrong, change)


def _part(case: Case, request: Request, answer: Reply, change: Change) -> str:
    if request.op == "create" and answer.path != change.path:
        return f"it created {change.path}, and was told {answer.path}"
    node = case.replay.after.get((change.zxid, change.part))
    if answer.stat is None or node is None:
        return ""
    right = node.stat()
    return "" if answer.stat == right else f"it was told {answer.stat}, and {right} is true"


def _errors(reply: Reply) -> str:
    return reply.error or ", ".join(part.error or "done" for part in reply.parts)


# -- the decision and the tree -------------------------------------------------------------------------


def _decision(case: Case, call: Call, group: Group) -> Iterator[Broken]:
    """Check that the request had to be carried out, or refused with this error."""
    requests = parts_of(call.request)
    if any(request.op not in ("create", "set", "delete", "check", "setacl") for request in requests):
        return  # nothing that belongs into one multi
    if any(of_the_system(request.path) or not request.path.startswith("/") for request in requests):
        return
    right = case.replay.before(group.zxid).refusals(requests, group.session)
    reply = call.reply
    if reply is None:
        given = ["" for _ in requests] if group.writes else right
    elif call.request.op != "multi":
        given = [reply.error]
    else:
        given = [part.error for part in reply.parts] if reply.parts else [reply.error] * len(requests)
    if given == right or any(error not in (*DECIDED, LATER) for error in given):
        return
    if any(error in REFUSALS for error in given) and _by_unknown_lists(case, requests, group):
        return
    if call.request.op == "multi" and reply is not None and reply.error and not reply.parts and any(right):
        return  # told in the header only: which part it was is not said
    now, then = _listed(given), _listed(right)
    what = f"at zxid {hexed(group.zxid)} the answer must be {then}, and was {now}"
    yield broken(REFUSED, call, what, *group.changes)


def _by_unknown_lists(case: Case, requests: tuple[Request, ...], group: Group) -> bool:
    """Return whether an ACL that has no words took part: its refusals are not judged."""
    before = case.replay.before(group.zxid)
    nodes = [before.get(path) for request in requests for path in (request.path, parent_of(request.path))]
    return UNKNOWN in [request.acl for request in requests] + [node.acl for node in nodes if node is not None]


def _listed(errors: list[str]) -> str:
    return ", ".join(error or "done" for error in errors)
