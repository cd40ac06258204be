"""Convert the outcome of a run to rows of the stored tables."""

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
from harness.spark.schema import RunRow, Small
from harness.trace import Trace, brief

Row = dict[str, Any]

MEASURED: Final = ("result_hash", "core_seconds", "trace_hash", "stored", "script")
"""The columns in which equal runs may differ."""
_SAME: Final = (
    "invariant", "what", "at_ms", "strikes", "outages", "recoveries", "recovered_ms", "events", "simulated_ms",
    "committed", "acknowledged", "elections", "messages",
)  # fmt: skip
"""The columns that are attributes of the outcome."""


def run_row(outcome: Outcome, *, world: str, core_seconds: float) -> Row:
    counts = dict(outcome.counts)
    kind = behaviour(_situations(outcome.script, counts), outcome.elections, len(outcome.outages))
    values = {name: getattr(outcome, name) for name in _SAME} | {"counts": counts, "behaviour": kind}
    state = "valid" if outcome.valid else "unknown" if outcome.unknown else "invalid"
    return _row(outcome.script, world, state, core_seconds, outcome.trace, **values)


def error_row(script: Script, error: BaseException, *, world: str, core_seconds: float) -> Row:
    """Return the row of a run in which the harness itself failed."""
    return _row(script, world, "error", core_seconds, None, what=described(error))


def _row(script: Script, world: str, outcome: str, core_seconds: float, trace: Trace | None, **values: Any) -> Row:
    row = asdict(
        RunRow(
            seed=script.seed,
            world=world,
            machine=script.machine,
            voters=Small(script.voters),
            observers=Small(script.observers),
            outcome=outcome,
            faults=dict(sorted(Counter(type(fault).__name__ for fault in script.faults).items())),
            operations=len(script.ops),
            trace_hash=None if trace is None else trace.hash(),
            script=None if outcome == "valid" else json.dumps(to_json(script)),
            core_seconds=core_seconds,
            **values,
        ),
        value_serializer=lambda _, __, value: list(value) if isinstance(value, tuple) else value,
    )
    return row | {"result_hash": result_hash(row)}


def result_hash(row: Row) -> str:
    known = {key: value for key, value in row.items() if key not in MEASURED}
    return blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8).hexdigest()


def _situations(script: Script, counts: dict[str, int]) -> dict[str, int]:
    """Return the coverage probes. Other counters are left out, because with them no two runs would be of one kind."""
    names = {probe.name for probe in OF_PARTITIONS} if script.machine == "partitions" else None
    probes = {name: times for name, times in counts.items() if name.startswith(PREFIX)}
    return {name: times for name, times in probes.items() if names is None or name.removeprefix(PREFIX) in names}


def behaviour(counts: dict[str, int], elections: int, outages: int) -> str:
    """Return the kind of a run: its situations, and the orders of magnitude of its elections and outages."""
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
