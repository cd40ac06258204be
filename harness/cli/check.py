"""The command `check`: histories of the store's clients, and of brokers' clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from attrs import asdict

from harness.checkers import records
from harness.checkers.linear import Illegal, Legal, Unknown
from harness.checkers.linear.decide import BUDGET
from harness.checkers.records.as_json import is_of_brokers
from harness.checkers.store import Verdict, judge
from harness.cli import options
from harness.cli.common import HISTORY_BYTES_MAX, text_of
from harness.cli.root import INVALID, VALID, command
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
    try:
        if is_of_brokers(text):
            of_brokers = records.judge(records.loads(text))
            return _end(arguments, of_brokers, _records_as_json, _records_in_words)
        return _end(arguments, judge(loads(text), arguments.budget), as_json, _in_words)
    except HistoryError as error:  # also contradictory times, or two calls with one number
        raise Misused(f"{arguments.file}: {error}") from error


V = TypeVar("V", Verdict, records.Verdict)


def _end(
    arguments: Arguments, verdict: V, as_json: Callable[[V], object], in_words: Callable[[V, bool], Iterator[str]]
) -> int:
    print(json.dumps(as_json(verdict)) if arguments.json else "\n".join(in_words(verdict, arguments.order)))
    return VALID if verdict.valid else INVALID


def _broken_in_words(broken: Iterable[Any]) -> Iterator[str]:
    for each in broken:
        yield f"BROKEN  {each}"
        yield from (f"        {json.dumps(to_json(record))}" for record in each.evidence)


def _broken_as_json(broken: Iterable[Any], *names: str) -> list[dict[str, object]]:
    return [
        {name: getattr(each, name) for name in names} | {"evidence": [to_json(record) for record in each.evidence]}
        for each in broken
    ]


# -- the store -------------------------------------------------------------------------------------------


def _in_words(verdict: Verdict, order: bool) -> Iterator[str]:
    yield from _broken_in_words(verdict.store.broken)
    if not verdict.store.broken:
        yield str(verdict)
    if order and isinstance(verdict.linear, Legal):
        yield " ".join(["order:", *map(str, verdict.linear.order)])


def as_json(verdict: Verdict) -> dict[str, object]:
    made: dict[str, object] = {
        "valid": verdict.valid,
        "unknown": verdict.unknown,
        "invariant": verdict.invariant,
        "what": verdict.what,
        "calls": verdict.store.calls,
        "changes": verdict.store.changes,
        "broken": _broken_as_json(verdict.store.broken, "invariant", "what", "at", "session", "call", "zxid"),
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


# -- brokers ---------------------------------------------------------------------------------------------


def _records_in_words(verdict: records.Verdict, order: bool) -> Iterator[str]:
    yield from _broken_in_words(verdict.broken)
    if verdict.valid:
        counts = verdict.counts
        yield str(verdict)
        yield f"{counts.unread} acknowledged and not read, {counts.repeated} of producers without idempotence repeated"
        yield f"the greatest lag of a consumer: {counts.lag_us_max / 1e6:.3f} s"
    if order:
        for partition, values in verdict.orders:
            yield "\n  ".join([f"{partition}:", *(f"{offset} {value}" for offset, value in values)])


def _records_as_json(verdict: records.Verdict) -> dict[str, object]:
    return {
        "valid": verdict.valid,
        "invariant": verdict.invariant,
        "what": verdict.broken[0].what if verdict.broken else "",
        "counts": asdict(verdict.counts),
        "broken": _broken_as_json(verdict.broken, "invariant", "what"),
        "orders": {partition: list(values) for partition, values in verdict.orders},
    }
