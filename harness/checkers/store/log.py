"""The committed changes by themselves: each is possible in the state before it, and sequence numbers ascend.

All other checkers compare with the tree that the changes produce. If the changes contradict each other, a server has
applied a transaction that no leader may prepare. A sequence number is the number of children that the parent has had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.store.case import Case, by_change, parts_of
from harness.checkers.store.model import parent_of
from harness.history import Change

FOLLOWS: Final = "each transaction follows from the state before it"


def possible(case: Case) -> Iterator[Broken]:
    for change, problem in case.replay.problems:
        what = f"the change of zxid {change.zxid:#x}, part {change.part}, is impossible: {problem}"
        yield by_change(FOLLOWS, change, what)


NUMBERED: Final = "sequence numbers are unique and ascend"


def numbered(case: Case) -> Iterator[Broken]:
    sequential = set()
    for call in case.calls.all:
        if call.group is not None:
            for part, request in enumerate(parts_of(call.request)):
                if request.op == "create" and "sequential" in request.mode:
                    sequential.add((call.group.zxid, part))
    # "/" contains /zookeeper from the start; no transaction creates it.
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
    made = f"{change.path}, created at zxid {change.zxid:#x}"
    if before is not None and (not digits.isdecimal() or int(digits) <= int(before.path[-10:])):
        yield by_change(NUMBERED, change, f"{made}, does not ascend from {before.path}", before)
    else:
        yield by_change(NUMBERED, change, f"{made}, needs the number {had}: its parent has had {had} children")
