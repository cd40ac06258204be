"""Writes and their transactions: each acknowledged write was committed once, and its reply shows its effect.

The zxid of a reply is the zxid of a transaction of the same session. The transaction makes the requested change, and
the reply shows the tree at that zxid. An error reply must be the right one for the state before the transaction. A
multi is carried out as a whole or not at all, and a call without a reply at most once. A transaction that no call of
its session explains was executed twice, or without a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.store.case import WRITES, Call, Case, by_call, made_by, parts_of
from harness.checkers.store.model import DECIDED, LATER, REFUSALS, UNKNOWN, of_the_system, parent_of
from harness.checkers.store.replay import Group
from harness.history import Change, Reply, Request

SHOWN: Final = "the reply to a write shows its effect"
REFUSED: Final = "every error reply is right"
ATOMIC: Final = "a multi is atomic"
KEPT: Final = "acknowledged writes are committed"
ONCE: Final = "no request is executed twice, and none unasked"


def replies(case: Case) -> Iterator[Broken]:
    for call in case.calls.all:
        if call.group is None:
            continue
        yield from _check_reply(case, call, call.group)
        if call.request.parts or call.request.op != "multi":
            yield from _check_result(case, call, call.group)


# -- the reply and the transaction ---------------------------------------------------------------------


def _check_reply(case: Case, call: Call, group: Group) -> Iterator[Broken]:
    reply = call.reply
    if reply is None:
        return
    if not call.done:
        if group.writes:
            what = f"it was refused ({_errors(reply)}), but zxid {group.zxid:#x} contains a change of it"
            yield by_call(ATOMIC if call.request.op == "multi" else SHOWN, call, what, *group.changes)
        return
    if all(change.kind == "error" for change in group.changes):
        yield by_call(SHOWN, call, f"it was acknowledged, but zxid {group.zxid:#x} is a refusal", *group.changes)
        return
    multi = call.request.op == "multi"
    if not made_by(call.request, group):
        what = f"it was acknowledged, but zxid {group.zxid:#x} contains another change"
        yield by_call(ATOMIC if multi else SHOWN, call, what, *group.changes)
        return
    requests, replies = parts_of(call.request), call.answers
    if len(replies) != len(requests):
        what = f"the multi has {len(requests)} parts, but {len(replies)} replies"
        yield by_call(ATOMIC, call, what, *group.changes)
        return
    by_part = {change.part: change for change in group.changes}
    for part, (request, answer) in enumerate(zip(requests, replies, strict=True)):
        change = by_part.get(part)
        if change is not None:
            wrong = _part(case, request, answer, change)
            if wrong:
                yield by_call(SHOWN, call, wrong, change)


def _part(case: Case, request: Request, answer: Reply, change: Change) -> str:
    if request.op == "create" and answer.path != change.path:
        return f"it created {change.path}, but the reply has {answer.path}"
    node = case.replay.after.get((change.zxid, change.part))
    if answer.stat is None or node is None:
        return ""
    right = node.stat()
    return "" if answer.stat == right else f"the reply has {answer.stat}, but {right} is correct"


def _errors(reply: Reply) -> str:
    return reply.error or ", ".join(part.error or "done" for part in reply.parts)


# -- the transaction and the tree ----------------------------------------------------------------------


def _check_result(case: Case, call: Call, group: Group) -> Iterator[Broken]:
    """Check that the request had to be carried out, or refused with this error."""
    requests = parts_of(call.request)
    if any(request.op not in WRITES for request in requests):
        return  # reads have no transaction
    if any(of_the_system(request.path) or not request.path.startswith("/") for request in requests):
        return
    right = case.replay.before(group.zxid).refusals(requests, group.session)
    reply = call.reply
    if reply is None:
        given = ["" for _ in requests] if group.writes else right
    else:
        given = [part.error for part in call.answers] or [reply.error] * len(requests)
    if given == right or any(error not in (*DECIDED, LATER) for error in given):
        return
    if any(error in REFUSALS for error in given) and _unknown_acls(case, requests, group):
        return
    if call.request.op == "multi" and reply is not None and reply.error and not reply.parts and any(right):
        return  # the error is only in the header, which does not say which part is wrong
    now, then = _listed(given), _listed(right)
    what = f"at zxid {group.zxid:#x} the result must be {then}, but is {now}"
    yield by_call(REFUSED, call, what, *group.changes)


def _unknown_acls(case: Case, requests: tuple[Request, ...], group: Group) -> bool:
    """Return whether an unknown ACL is involved, so that refusals cannot be checked."""
    before = case.replay.before(group.zxid)
    nodes = [before.get(path) for request in requests for path in (request.path, parent_of(request.path))]
    return UNKNOWN in [request.acl for request in requests] + [node.acl for node in nodes if node is not None]


def _listed(errors: list[str]) -> str:
    return ", ".join(error or "done" for error in errors)


# -- writes and transactions ---------------------------------------------------------------------------


def committed(case: Case) -> Iterator[Broken]:
    owner: dict[int, Call] = {}
    for call in case.calls.all:
        if not call.write or call.reply is None:
            continue
        if not call.done:
            if call.group is None and call.reply.error in DECIDED and call.reply.zxid:
                what = f"it was refused ({call.reply.error}) at zxid {call.reply.zxid:#x}, which is another transaction"
                yield by_call(KEPT, call, what, *case.changes_at(call.reply.zxid))
            continue
        if call.request.op == "multi" and not call.request.parts:
            continue  # an empty multi has no transaction
        zxid = call.reply.zxid
        if call.group is None:
            group = case.replay.groups.get(zxid)
            if group is None:
                why = "which was never committed"
            elif zxid in owner or group.session == call.invoke.session:
                why = "which belongs to another call"
            else:
                why = "which was committed for another session"
            what = f"it was acknowledged with zxid {zxid:#x}, {why}"
            yield by_call(KEPT, call, what, *case.changes_at(zxid), zxid=zxid)
        else:
            owner[call.group.zxid] = call


def once(case: Case) -> Iterator[Broken]:
    for group in case.calls.unclaimed:
        calls = case.calls.of[group.session]
        same = [call for call in calls if made_by(call.request, group)]
        if same:
            call = same[0]
            other = f" at zxid {call.group.zxid:#x}" if call.group is not None else ""
            fate = f"carried out{other}" if call.group is not None else "refused"
            what = f"it was {fate}, but is committed at zxid {group.zxid:#x} as well"
            yield by_call(ONCE, call, what, *group.changes, zxid=group.zxid)
        else:
            what = (
                f"client {calls[0].invoke.client}, session {group.session:#x}: zxid {group.zxid:#x} changed"
                f" {group.writes[0].path}, but the session never requested that"
            )
            yield Broken(ONCE, what, group.changes, session=group.session, zxid=group.zxid)
