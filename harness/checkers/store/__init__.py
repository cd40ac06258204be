"""Invariants of the store as its clients see it, checked by the clients' histories and the committed changes.

    verdict = judge(history)
    if not verdict.valid:
        print(verdict)

`check` checks the invariants alone, `judge` linearizability as well. Each invariant is a function over a `Case`. A
violation names the client, the call, the zxid and the expected value.
"""

from __future__ import annotations

from harness.checkers.broken import Broken
from harness.checkers.store.case import Case
from harness.checkers.store.judge import ALL, LINEARIZABLE, InvariantVerdict, Verdict, check_invariants, judge
from harness.checkers.store.silence import ended_early
from harness.history import History


def check(history: History) -> InvariantVerdict:
    return check_invariants(Case.of(history))


__all__ = ["ALL", "LINEARIZABLE", "Broken", "InvariantVerdict", "Verdict", "check", "ended_early", "judge"]
