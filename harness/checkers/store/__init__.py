"""The promises of the store to its clients, checked by the clients' histories and the committed changes.

    verdict = judge(history)
    if not verdict.held:
        print(verdict)

`check` judges the promises alone, `judge` linearizability as well. Each promise is a function over a `Case`, and says
where it was broken, for whom, and what should have been.
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
