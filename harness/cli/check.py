"""Judge a stored history: of the store, or of brokers.

Of the store: what it promises its clients, and whether everything happened one at a time. Of brokers: whether records
are where they were acknowledged, once, in order and for ever, and whether consumers saw them so.

The file has one line for each thing that clients saw and that servers decided; `run --history` of a script with clients
writes such files. Exit 0: legal. 1: a promise was broken, or the budget did not suffice to tell. 2: that is no history.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.checkers.linear import HistoryError as BadOperations
from harness.checkers.linear import Illegal, Legal, Undecided
from harness.checkers.linear.decide import BUDGET
from harness.checkers.records.as_json import is_of_brokers
from harness.checkers.store import Broken, Verdict, judge
from harness.cli import check_records
from harness.cli.common import HELD, HISTORY_BYTES_MAX, VIOLATED, Misuse, positive, text_of
from harness.history import History
from harness.history_json import loads
from harness.json_lines import HistoryError, to_json


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the history; - is stdin")
    parser.add_argument(
        "--budget",
        type=positive,
        default=BUDGET,
        metavar="STEPS",
        help=f"of the search for an order (default {BUDGET})",
    )
    parser.add_argument("--order", action="store_true", help="print the order that proves a legal history")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def act(arguments: argparse.Namespace) -> int:
    text = text_of(Path(arguments.file), HISTORY_BYTES_MAX)
    if is_of_brokers(text):
        return check_records.act(arguments, text)
    history = _read(arguments.file, text)
    try:
        verdict = judge(history, arguments.budget)
    except BadOperations as error:  # times that contradict each other, calls with one number
        raise Misuse(f"{arguments.file}: {error}") from error
    if arguments.json:
        print(json.dumps(as_json(verdict)))
    else:
        _print(verdict, order=arguments.order)
    return HELD if verdict.held else VIOLATED


def _read(name: str, text: str) -> History:
    try:
        return loads(text)
    except HistoryError as error:
        raise Misuse(f"{name}: {error}") from error
    except RecursionError as error:
        raise Misuse(f"{name}: requests within requests within requests; a history is flat") from error


def _print(verdict: Verdict, *, order: bool) -> None:
    for each in verdict.store.broken:
        print(f"BROKEN  {each}")
        for record in each.evidence:
            print(f"        {json.dumps(to_json(record))}")
    if not verdict.store.broken:
        print(verdict)
    if order and isinstance(verdict.linear, Legal):
        print("order:", *verdict.linear.order)


def as_json(verdict: Verdict) -> dict[str, object]:
    made: dict[str, object] = {
        "held": verdict.held,
        "undecided": verdict.undecided,
        "promise": verdict.promise,
        "what": verdict.what,
        "calls": verdict.store.calls,
        "changes": verdict.store.changes,
        "broken": [_broken(each) for each in verdict.store.broken],
    }
    match verdict.linear:
        case Legal(order=order, by=by, steps=steps):
            made |= {"by": by, "steps": steps, "order": list(order)}
        case Illegal(core=core, by=by, steps=steps, minimal=minimal):
            made |= {"by": by, "steps": steps, "core": [str(op) for op in core], "minimal": minimal}
        case Undecided(spent=spent, open=still):
            made |= {"steps": spent, "open": list(still)}
        case None:
            pass
    return made


def _broken(each: Broken) -> dict[str, object]:
    return {
        "promise": each.promise,
        "what": each.what,
        "at": each.at,
        "session": each.session,
        "call": each.call,
        "zxid": each.zxid,
        "evidence": [to_json(record) for record in each.evidence],
    }
