"""The committed changes make sense: each one is possible after those before it.

Everything else is held against the tree that the changes make. If they contradict themselves, a server has applied
something that no leader may have prepared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.store.broken import Broken, hexed
from harness.checkers.store.case import Case

PROMISE: Final = "each transaction follows from the state before it"


def check(case: Case) -> Iterator[Broken]:
    for problem in case.replay.problems:
        change = problem.change
        what = f"the change of zxid {hexed(change.zxid)}, part {change.part}, cannot be: {problem.what}"
        yield Broken(PROMISE, what, 0, change.session, 0, change.zxid, (change,))
