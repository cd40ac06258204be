"""The command `check`: histories of the store's clients, and of brokers' clients."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import asdict

from harness.checkers import records
from harness.checkers.linear import Illegal, Legal, Unknown
from harness.checkers.linear.decide import BUDGET
from harness.checkers.records.as_json import is_of_brokers
from harness.checkers.store import Broken, Verdict, judge
from harness.cli import options
from harness.cli.common import HISTORY_BYTES_MAX, text_of
from harness.cli.root import INVALID, VALID, command
from harness.history import History
from harness.history_json import loads
from harness.json_lines import HistoryError, to_json
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments


@command(
    "check",
    options.argument("file", type=options.FILE),
    options.option(
        "--budget",
        "The most steps of the search for a legal order. A history that needs more is unknown: exit status 1.",
        options.POSITIVE,
        BUDGET,
        metavar="STEPS",
    ),
    options.flag("--order", "Print the order that proves a legal history."),
    options.json_output("Print the verdict as JSON."),
)
def check(arguments: Arguments) -> int:
    """Check a stored history of the store's clients, or of brokers' clients; - is stdin.

    A history of the store must be linearizable and keep every other invariant of sessions, watches and the like. In
    a history of brokers each acknowledged record must stay where it was acknowledged, once and in order, and consumers
    must read it so.

    The file has one line for each event at a client, and for each decision of the servers. `run --history FILE` of a
    script with clients writes such files. Exit status 0: valid; 1: invalid or unknown; 2: this is no history.
    """
    text = text_of(arguments.file, HISTORY_BYTES_MAX)
    return _check_brokers(arguments, text) if is_of_brokers(text) else _check_store(arguments, text)


# -- the store -------------------------------------------------------------------------------------------


def _check_store(arguments: Arguments, text: str) -> int:
    history = _read(arguments.file, text)
    try:
        verdict = judge(history, arguments.budget)
    except HistoryError as error:  # contradictory times, or two calls with one number
        raise Misused(f"{arguments.file}: {error}") from error
    if arguments.json:
        print(json.dumps(as_json(verdict)))
    else:
        _print(verdict, order=arguments.order)
    return VALID if verdict.valid else INVALID


def _read(name: Path, text: str) -> History:
    try:
        return loads(text)
    except HistoryError as error:
        raise Misused(f"{name}: {error}") from error
    except RecursionError as error:
        raise Misused(f"{name}: requests are nested too deeply for a history") from error


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
        "valid": verdict.valid,
        "unknown": verdict.unknown,
        "invariant": verdict.invariant,
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
        case Unknown(spent=spent, open=still):
            made |= {"steps": spent, "open": list(still)}
        case None:
            pass
    return made


def _broken(each: Broken) -> dict[str, object]:
    names = ("invariant", "what", "at", "session", "call", "zxid")
    return {name: getattr(each, name) for name in names} | {"evidence": [to_json(record) for record in each.evidence]}


# -- brokers ---------------------------------------------------------------------------------------------


def _check_brokers(arguments: Arguments, text: str) -> int:
    try:
        verdict = records.judge(records.loads(text))
    except HistoryError as error:
        raise Misused(f"{arguments.file}: {error}") from error
    if arguments.json:
        print(json.dumps(_records_as_json(verdict)))
    else:
        _print_records(verdict, order=arguments.order)
    return VALID if verdict.valid else INVALID


def _print_records(verdict: records.Verdict, *, order: bool) -> None:
    for each in verdict.broken:
        print(f"BROKEN  {each}")
        for event in each.evidence:
            print(f"        {json.dumps(to_json(event))}")
    if verdict.valid:
        counts = verdict.counts
        print(verdict)
        print(f"{counts.unread} acknowledged and not read, {counts.repeated} of producers without idempotence repeated")
        print(f"the greatest lag of a consumer: {counts.lag_us_max / 1e6:.3f} s")
    if order:
        for partition, values in verdict.orders:
            print(f"{partition}:", *(f"{offset} {value}" for offset, value in values), sep="\n  ")


def _records_as_json(verdict: records.Verdict) -> dict[str, object]:
    return {
        "valid": verdict.valid,
        "invariant": verdict.invariant,
        "what": verdict.broken[0].what if verdict.broken else "",
        "counts": asdict(verdict.counts),
        "broken": [
            {"invariant": each.invariant, "what": each.what, "evidence": [to_json(event) for event in each.evidence]}
            for each in verdict.broken
        ],
        "orders": {partition: list(values) for partition, values in verdict.orders},
    }
