"""Invariants of the store as its clients see it, checked by the clients' histories and the committed changes.

    verdict = judge(history)
    if not verdict.valid:
        print(verdict)

`check` judges the invariants alone, `judge` linearizability as well. Each invariant is a function over a `Case`. It
reports where it was violated, for which client, and what would have been right.
"""

from __future__ import annotations

from harness.checkers.broken import Broken
from harness.checkers.store.case import Case
from harness.checkers.store.judge import ALL, LINEARIZABLE, Kept, Verdict, judge, kept
from harness.checkers.store.silence import ended_early
from harness.history import History


def check(history: History) -> Kept:
    return kept(Case.of(history))


__all__ = ["ALL", "LINEARIZABLE", "Broken", "Kept", "Verdict", "check", "ended_early", "judge"]
