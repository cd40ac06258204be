"""Every acknowledged write was committed; no write was committed twice, or without a request.

A call without an answer is carried out at most once. What was committed for a session that asked for nothing like
it was done twice, or by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.store.broken import Broken, hexed
from harness.checkers.store.calls import Call, made_by
from harness.checkers.store.case import Case, broken
from harness.checkers.store.model import DECIDED

KEPT: Final = "acknowledged writes are committed"
ONCE: Final = "no request is executed twice, and none unasked"


def kept(case: Case) -> Iterator[Broken]:
    owner: dict[int, Call] = {}
    for call in case.calls.all:
        if not call.write or call.reply is None:
            continue
        if not call.done:
            if call.group is None and call.reply.error in DECIDED and call.reply.zxid:
                what = (
                    f"it was refused ({call.reply.error}) at zxid {hexed(call.reply.zxid)}, which is no refusal of it"
                )
                yield broken(KEPT, call, what, *case.changes_at(call.reply.zxid))
            continue
        if call.request.op == "multi" and not call.request.parts:
            continue  # nothing to do leaves nothing behind
        zxid = call.reply.zxid
        if call.group is None:
            group = case.replay.groups.get(zxid)
            if group is None:
                what = f"it was acknowledged with zxid {hexed(zxid)}, under which nothing was committed"
            elif zxid in owner or group.session == call.asked.session:
                what = f"it was acknowledged with zxid {hexed(zxid)}, which belongs to another call"
            else:
                what = f"it was acknowledged with zxid {hexed(zxid)}, which was committed for another session"
            yield broken(KEPT, call, what, *case.changes_at(zxid), zxid=zxid)
        else:
            owner[call.group.zxid] = call


def once(case: Case) -> Iterator[Broken]:
    for group in case.calls.unclaimed:
        calls = case.calls.of[group.session]
        same = [call for call in calls if made_by(call.request, group)]
        if same:
            call = same[0]
            other = f" at zxid {hexed(call.group.zxid)}" if call.group is not None else ""
            fate = f"carried out{other} and" if call.group is not None else "refused, and yet"
            what = f"it was {fate} committed at zxid {hexed(group.zxid)}"
            yield broken(ONCE, call, what, *group.changes, zxid=group.zxid)
        else:
            what = (
                f"client {calls[0].asked.client}, session {group.session:#x}: zxid {hexed(group.zxid)} changed"
                f" {group.writes[0].path} for it, and it never asked for that"
            )
            yield Broken(ONCE, what, 0, group.session, 0, group.zxid, group.changes)
