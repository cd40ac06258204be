"""Check a stored history again from its rows, with other code than the checkers of the run.

A judge takes the rows in their order and a budget of steps. If the budget does not suffice, the verdict is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from harness.checkers import linear, store
from harness.history_rows import from_rows
from harness.json_lines import HistoryError

Row = Mapping[str, Any]
Budget = int


@frozen
class Verdict:
    """The result of checking a stored history again."""

    verdict: str
    """valid, invalid or unknown"""
    invariant: str | None
    what: str
    steps: int


Judge = Callable[[Iterable[Row], Budget], Verdict]

ORDER: Final = "total order, read again"
APPLIES: Final = "applies"
FORGETS: Final = ("crashes", "restores", "stops", "starts")
"""After these events a server may apply transactions again, or continue elsewhere."""
VERBS: Final = (APPLIES, *FORGETS)
_SPAN: Final = re.compile(r"(\d{1,20})/(\d{1,20})(?:\.\.(\d{1,20})/(\d{1,20}))?")


def delivered_in_order(rows: Iterable[Row], budget: Budget) -> Verdict:
    """Check that every server applies transactions in the order of zxids, and that all servers have the same order.

    Each transaction has the same predecessor at every server that applied both. So no server skips a transaction that
    another one applies, and none applies a transaction in another place.
    """
    before: dict[tuple[int, int], tuple[int, int]] = {}
    at: dict[int, tuple[int, int] | None] = {}
    steps = 0
    for row in rows:
        server = row["server"]
        if row["verb"] != APPLIES:
            at[server] = None
            continue
        found = _SPAN.fullmatch(row["what"])
        if found is None:
            return Verdict("unknown", None, f"row {row['number']}: {row['what']!r} is not a zxid", steps)
        first = (int(found[1]), int(found[2]))
        last = first if found[3] is None else (int(found[3]), int(found[4]))
        steps += last[1] - first[1] + 1
        if steps > budget:
            return Verdict("unknown", None, f"more than {budget} steps", steps)
        previous = at.get(server)
        for counter in range(first[1], last[1] + 1):
            this = (first[0], counter)
            if previous is not None:
                if this <= previous:
                    return _broken(row, f"applies {_show(this)} after {_show(previous)}", steps)
                known = before.setdefault(this, previous)
                if known != previous:
                    words = f"applies {_show(this)} after {_show(previous)}, but another one after {_show(known)}"
                    return _broken(row, words, steps)
            previous = this
        at[server] = previous
    return Verdict("valid", None, "", steps)


def as_clients_saw_it(rows: Iterable[Row], budget: Budget) -> Verdict:
    """Check every invariant of the store's clients, and linearizability."""
    given: list[Any] = [{"run": str(row["seed"]), **row} for row in rows]
    try:
        verdict = store.judge(from_rows(given), budget)
    except HistoryError as error:
        return Verdict("unknown", None, f"invalid history rows: {error}", 0)
    steps = verdict.store.calls + verdict.store.changes
    match verdict.linear:
        case linear.Unknown(spent=spent):
            return Verdict("unknown", None, str(verdict.linear), steps + spent)
        case linear.Legal(steps=searched) | linear.Illegal(steps=searched):
            steps += searched
        case None:
            pass
    return Verdict("valid" if verdict.valid else "invalid", verdict.invariant, verdict.what, steps)


def _broken(row: Row, what: str, steps: int) -> Verdict:
    return Verdict("invalid", ORDER, f"server {row['server']} at row {row['number']} {what}", steps)


def _show(zxid: tuple[int, int]) -> str:
    return f"{zxid[0]}/{zxid[1]}"
