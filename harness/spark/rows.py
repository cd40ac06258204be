"""From what became of a run to the rows that are stored of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

from attrs import asdict

from harness.exceptions import described
from harness.faults import Script
from harness.history import History
from harness.history_rows import to_rows
from harness.outcome import Outcome
from harness.probes import OF_PARTITIONS, PREFIX
from harness.scripts import to_json
from harness.trace import Trace, brief

Row = dict[str, Any]

MEASURED: Final = ("result_hash", "core_seconds", "trace_hash", "stored", "script")
"""What may differ between two equal runs: how long they took, and how much was written down of them."""


def run_row(outcome: Outcome, *, world: str, core_seconds: float, stored: int = 0) -> Row:
    script = outcome.script
    counts = dict(outcome.counts)
    row = _blank(script, world)
    row |= {
        "outcome": "held" if outcome.held else "undecided" if outcome.undecided else "violated",
        "promise": outcome.promise,
        "what": outcome.what,
        "at_ms": outcome.at_ms,
        "strikes": [asdict(strike) for strike in outcome.strikes],
        "outages": [asdict(outage) for outage in outcome.outages],
        "recoveries": [asdict(recovery) for recovery in outcome.recoveries],
        "recovered_ms": outcome.recovered_ms,
        "events": outcome.events,
        "simulated_ms": outcome.simulated_ms,
        "committed": outcome.committed,
        "acknowledged": outcome.acknowledged,
        "elections": outcome.elections,
        "messages": outcome.messages,
        "counts": counts,
        "behaviour": behaviour(_situations(script, counts), outcome.elections, len(outcome.outages)),
    }
    return _finished(row, script, outcome.trace, core_seconds, stored)


def error_row(script: Script, error: BaseException, *, world: str, core_seconds: float) -> Row:
    """The harness itself failed: what it said, and where."""
    row = _blank(script, world)
    row |= {"outcome": "error", "what": described(error)}
    return _finished(row, script, None, core_seconds, 0)


def _blank(script: Script, world: str) -> Row:
    zeros = ("at_ms", "recovered_ms", "events", "simulated_ms", "committed", "acknowledged", "elections", "messages")
    return {
        "seed": script.seed,
        "world": world,
        "machine": script.machine,
        "voters": script.voters,
        "observers": script.observers,
        "promise": None,
        **dict.fromkeys(zeros, 0),
        "faults": dict(sorted(Counter(type(fault).__name__ for fault in script.faults).items())),
        "strikes": [],
        "outages": [],
        "recoveries": [],
        "operations": len(script.ops),
        "counts": {},
        "behaviour": "",
    }


def _finished(row: Row, script: Script, trace: Trace | None, core_seconds: float, stored: int) -> Row:
    row["result_hash"] = result_hash(row)
    row["trace_hash"] = None if trace is None else trace.hash()
    row["stored"] = stored
    row["script"] = None if row["outcome"] == "held" else json.dumps(to_json(script))
    row["core_seconds"] = core_seconds
    return row


def result_hash(row: Row) -> str:
    known = {key: value for key, value in row.items() if key not in MEASURED}
    return blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8).hexdigest()


def _situations(script: Script, counts: dict[str, int]) -> dict[str, int]:
    """Those that must occur in a campaign. Which faults hit is the script's doing, and with all that is counted
    besides no two runs would be alike.
    """
    names = {probe.name for probe in OF_PARTITIONS} if script.machine == "partitions" else None
    points = {name: times for name, times in counts.items() if name.startswith(PREFIX)}
    return {name: times for name, times in points.items() if names is None or name.removeprefix(PREFIX) in names}


def behaviour(counts: dict[str, int], elections: int, outages: int) -> str:
    """Which situations there were at all, and roughly how often somebody else led and nobody served.

    Two runs with the same word for it are of one kind: the discovery curve counts kinds.
    """
    seen = blake2b("/".join(sorted(counts)).encode(), digest_size=6).hexdigest()
    return f"{seen} {elections.bit_length()} {outages.bit_length()}"


def act_rows(seed: int, trace: Trace) -> Iterator[Row]:
    for number, (at, server, verb, other, what) in enumerate(trace.acts):
        yield {
            "seed": seed,
            "number": number,
            "at_us": at,
            "server": server,
            "verb": verb,
            "other": other,
            "what": brief(what),
        }


def history_rows(seed: int, history: History) -> Iterator[Row]:
    for row in to_rows(history, str(seed)):
        made: Row = {"seed": seed, **row}
        del made["run"]
        yield made
