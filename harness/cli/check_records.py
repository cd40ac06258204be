"""A history of brokers' clients, for `zab-harness check`."""

from __future__ import annotations

import argparse
import json

from attrs import asdict

from harness.checkers.records import HistoryError, Verdict, judge, loads
from harness.cli.common import HELD, VIOLATED, Misuse
from harness.json_lines import to_json


def act(arguments: argparse.Namespace, text: str) -> int:
    try:
        verdict = judge(loads(text))
    except HistoryError as error:
        raise Misuse(f"{arguments.file}: {error}") from error
    if arguments.json:
        print(json.dumps(as_json(verdict)))
    else:
        _print(verdict, order=arguments.order)
    return HELD if verdict.held else VIOLATED


def _print(verdict: Verdict, *, order: bool) -> None:
    for each in verdict.broken:
        print(f"BROKEN  {each}")
        for event in each.evidence:
            print(f"        {json.dumps(to_json(event))}")
    if verdict.held:
        counts = verdict.counts
        print(verdict)
        print(f"{counts.unread} acknowledged and not read, {counts.repeated} written twice by who may")
        print(f"the longest that a consumer was behind: {counts.lag_us_max / 1e6:.3f} s")
    if order:
        for partition, values in verdict.orders:
            print(f"{partition}:", *(f"{offset} {value}" for offset, value in values), sep="\n  ")


def as_json(verdict: Verdict) -> dict[str, object]:
    return {
        "held": verdict.held,
        "promise": verdict.promise,
        "what": verdict.broken[0].what if verdict.broken else "",
        "counts": asdict(verdict.counts),
        "broken": [
            {"promise": each.promise, "what": each.what, "evidence": [to_json(event) for event in each.evidence]}
            for each in verdict.broken
        ],
        "orders": {partition: list(values) for partition, values in verdict.orders},
    }
