"""The tables as data: which columns a row has, of which type, and what they mean. Readers and writers ask here."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from attrs import frozen

from harness.history_rows import COLUMNS

VERSION: Final = 2
"""Of all tables. It stands in every file; a file of another version is not read as if it were of this one."""

OUTCOMES: Final = ("held", "violated", "undecided", "error")
"""error: the harness itself failed, and says how. It is a row like any other, and never counts as held."""

_STRIKES: Final = "array<struct<kind:string,phase:string,times:bigint>>"
_OUTAGES: Final = "array<struct<at_ms:bigint,took_ms:bigint,after:string>>"
_RECOVERIES: Final = "array<struct<kind:string,at_ms:bigint,leader_ms:bigint,write_ms:bigint,sessions_ms:bigint>>"
_COUNTS: Final = "map<string,bigint>"

_STRUCTS: Final[dict[str, Any]] = {
    _STRIKES: pa.struct([("kind", pa.string()), ("phase", pa.string()), ("times", pa.int64())]),
    _OUTAGES: pa.struct([("at_ms", pa.int64()), ("took_ms", pa.int64()), ("after", pa.string())]),
    _RECOVERIES: pa.struct(
        [("kind", pa.string()), *((name, pa.int64()) for name in ("at_ms", "leader_ms", "write_ms", "sessions_ms"))]
    ),
}
_ARROW: Final[dict[str, Any]] = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    _COUNTS: pa.map_(pa.string(), pa.int64()),
    **{ddl: pa.list_(struct) for ddl, struct in _STRUCTS.items()},
}


@frozen
class Column:
    name: str
    kind: str
    """As Spark writes it."""
    about: str
    needed: bool = True
    """Whether a row without it is a bad one."""


@frozen
class Table:
    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {column.kind}" for column in self.columns)

    def arrow(self, **metadata: str) -> Any:
        """Its schema, with this version and whatever else is to be found in a file without reading its rows."""
        fields = [pa.field(column.name, _ARROW[column.kind]) for column in self.columns]
        return pa.schema(fields, {"version": str(VERSION), "table": self.name, **metadata})


RUNS: Final = Table(
    "runs",
    "one row for each run",
    (
        Column("seed", "bigint", "the run is drawn from it"),
        Column("world", "string", "where it was run"),
        Column("machine", "string", "what was replicated"),
        Column("voters", "int", ""),
        Column("observers", "int", ""),
        Column("outcome", "string", "held, violated, undecided or error"),
        Column("promise", "string", "the promise that was broken", needed=False),
        Column("what", "string", "how it was broken, what the error was, or what it cost not to decide"),
        Column("at_ms", "bigint", "virtual time at its end"),
        Column("faults", _COUNTS, "how many faults of each kind its script has"),
        Column(
            "strikes", _STRIKES, "the faults that struck, and the phase of the ensemble, or of brokers, at that moment"
        ),
        Column("outages", _OUTAGES, "when nobody served, for how long, and the last fault before"),
        Column(
            "recoveries",
            _RECOVERIES,
            "each fault, when it was over, and how long it then took until a quorum served, a write was acknowledged,"
            " and clients had their sessions and watches again; null: nothing had been interrupted, or it never came",
        ),
        Column("recovered_ms", "bigint", "from the healing of everything to equal servers"),
        Column("events", "bigint", "turns of the simulation"),
        Column("simulated_ms", "bigint", ""),
        Column("committed", "bigint", "transactions"),
        Column("acknowledged", "bigint", "transactions that a client was told of"),
        Column("elections", "bigint", "epochs that were established"),
        Column("messages", "bigint", "words that left a server for another"),
        Column("operations", "bigint", "what the script has clients do"),
        Column("counts", _COUNTS, "how often each situation occurred"),
        Column("behaviour", "string", "what kind of run it was, for counting kinds"),
        Column("result_hash", "string", "of everything above: equal for equal runs"),
        Column("trace_hash", "string", "of every act; of runs whose acts were recorded", needed=False),
        Column("stored", "bigint", "how many rows of it the tables of events and of histories have"),
        Column("script", "string", "as JSON; of runs that did not hold", needed=False),
        Column("core_seconds", "double", "processor time it took to simulate and to check"),
    ),
)
EVENTS: Final = Table(
    "events",
    "what servers did in the failures, and in a sample of the others",
    (
        Column("seed", "bigint", "of the run"),
        Column("number", "int", "its place in the run"),
        Column("at_us", "bigint", "virtual time"),
        Column("server", "int", "who did it"),
        Column("verb", "string", "what it did"),
        Column("other", "int", "which other server was concerned; 0: none"),
        Column("what", "string", "with what, in a few words"),
    ),
)
HISTORIES: Final = Table(
    "histories",
    "what clients saw and what the servers decided, of the same runs: the rows of `harness.history_rows`",
    (
        Column("seed", "bigint", "of the run"),
        *(
            Column(name, {int: "bigint", str: "string"}[kind], "", needed=not may_be_missing)
            for name, (kind, may_be_missing) in COLUMNS.items()
            if name != "run"
        ),
    ),
)
REPEATS: Final = Table(
    "repeats",
    "runs that were done once more, by another task",
    (
        Column("seed", "bigint", "of the run"),
        Column("result_hash", "string", "what it should be is in the table of runs"),
        Column("trace_hash", "string", "likewise", needed=False),
        Column("core_seconds", "double", ""),
    ),
)
STORED: Final = (RUNS, EVENTS, HISTORIES, REPEATS)
