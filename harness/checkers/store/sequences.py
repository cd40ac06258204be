"""The numbers of sequential nodes ascend under each parent, and none is given twice.

More than that: the number says how many children the parent had had before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.store.broken import Broken, hexed
from harness.checkers.store.calls import parts_of
from harness.checkers.store.case import Case
from harness.checkers.store.model import parent_of
from harness.history import Change

PROMISE: Final = "sequence numbers are unique and ascend"


def check(case: Case) -> Iterator[Broken]:
    sequential = set()
    for call in case.calls.all:
        if call.group is not None:
            for part, request in enumerate(parts_of(call.request)):
                if request.op == "create" and "sequential" in request.mode:
                    sequential.add((call.group.zxid, part))
    # "/" begins with /zookeeper in it, which nobody has created.
    had: dict[str, int] = {}
    last: dict[str, Change] = {}
    for change in case.history.changes:
        if change.kind != "create":
            continue
        parent = parent_of(change.path)
        had[change.path] = 0
        last.pop(change.path, None)
        if (change.zxid, change.part) in sequential:
            yield from _number(change, had.get(parent, 0), last.get(parent))
            last[parent] = change
        had[parent] = had.get(parent, 0) + 1


def _number(change: Change, had: int, before: Change | None) -> Iterator[Broken]:
    digits = change.path[-10:]
    if digits.isdecimal() and int(digits) == had:
        return
    if before is not None and (not digits.isdecimal() or int(digits) <= int(before.path[-10:])):
        what = f"{change.path}, created at zxid {hexed(change.zxid)}, comes behind {before.path}"
        yield Broken(PROMISE, what, 0, change.session, 0, change.zxid, (before, change))
    else:
        what = f"{change.path}, created at zxid {hexed(change.zxid)}: its parent had had {had} children"
        yield Broken(PROMISE, what, 0, change.session, 0, change.zxid, (change,))
