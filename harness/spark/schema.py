"""The stored tables. Their columns, for Parquet and for Spark, are derived from the attrs classes of their rows."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Final, NewType, get_args, get_origin, get_type_hints

import attrs
import pyarrow as pa
from attrs import field, frozen

from harness.availability import Outage, Strike
from harness.history_rows import COLUMNS
from harness.outcome import Recovery

VERSION: Final = 2
"""The version of all tables. It is written into each file, and a file of another version is refused."""

OUTCOMES: Final = ("valid", "invalid", "unknown", "error")
"""The outcomes of a run. `error` means that the harness itself failed; such a row never counts as valid."""

Small = NewType("Small", int)
"""An integer of 32 bits; others have 64."""
_SCALARS: Final[dict[Any, tuple[str, Any]]] = {
    int: ("bigint", pa.int64()),
    Small: ("int", pa.int32()),
    float: ("double", pa.float64()),
    str: ("string", pa.string()),
}


@frozen(kw_only=True)
class RunRow:
    """A run. Equal runs have equal values, except for those after `result_hash`."""

    seed: int
    world: str
    machine: str
    voters: Small
    observers: Small
    outcome: str
    invariant: str | None = None
    """The invariant that was violated."""
    what: str = ""
    """The violation, the error, or the cost of an unknown run."""
    at_ms: int = 0
    faults: dict[str, int]
    """The faults of the script, by kind."""
    strikes: tuple[Strike, ...] = ()
    outages: tuple[Outage, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    recovered_ms: int = 0
    """The time from the end of all faults until all servers are equal."""
    events: int = 0
    simulated_ms: int = 0
    committed: int = 0
    acknowledged: int = 0
    elections: int = 0
    """The number of established epochs."""
    messages: int = 0
    operations: int
    counts: dict[str, int] = field(factory=dict)
    """The counters of the run, by name."""
    behaviour: str = ""
    """The kind of the run, for counting kinds."""
    result_hash: str = ""
    trace_hash: str | None = None
    """The hash of all events, if they were recorded."""
    stored: int = 0
    """The number of its rows in the tables of events and of histories."""
    script: str | None = None
    """The script as JSON; None for valid runs."""
    core_seconds: float = 0.0


@frozen
class EventRow:
    """An event of a server, in a run that is not valid or is in the sample."""

    seed: int
    number: Small
    at_us: int
    server: Small
    verb: str
    other: Small
    """The other server that takes part; 0: none."""
    what: str


@frozen
class RepeatRow:
    """The result of a run that another task repeated."""

    seed: int
    result_hash: str
    trace_hash: str | None
    core_seconds: float


@frozen
class Column:
    name: str
    kind: str
    """The type in Spark's DDL."""
    arrow: Any
    needed: bool = True
    """True if a row without this column is invalid."""


@frozen
class Table:
    name: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {column.kind}" for column in self.columns)

    def arrow(self, **metadata: str) -> Any:
        """Return the schema. Its metadata, such as the version, can be read without the rows of a file."""
        fields = [pa.field(column.name, column.arrow) for column in self.columns]
        return pa.schema(fields, {"version": str(VERSION), "table": self.name, **metadata})


def _types(annotation: Any) -> tuple[str, Any]:
    """Return the type of a field for Spark and for Arrow."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if get_origin(annotation) is UnionType:
        return _types(next(each for each in get_args(annotation) if each is not NoneType))
    if get_origin(annotation) is dict:
        return "map<string,bigint>", pa.map_(pa.string(), pa.int64())
    parts = [(column.name, column.kind, column.arrow) for column in columns_of(get_args(annotation)[0])]
    struct = ",".join(f"{name}:{kind}" for name, kind, _ in parts)
    return f"array<struct<{struct}>>", pa.list_(pa.struct([(name, arrow) for name, _, arrow in parts]))


def columns_of(row: type) -> tuple[Column, ...]:
    hints = get_type_hints(row)
    names = [each.name for each in attrs.fields(row)]
    return tuple(Column(name, *_types(hints[name]), NoneType not in get_args(hints[name])) for name in names)


RUNS: Final = Table("runs", columns_of(RunRow))
EVENTS: Final = Table("events", columns_of(EventRow))
HISTORIES: Final = Table(
    "histories",
    (
        Column("seed", *_types(int)),
        *(Column(name, *_types(kind), not missing) for name, (kind, missing) in COLUMNS.items() if name != "run"),
    ),
)
"""The histories of clients and the decisions of servers: the rows of `harness.history_rows`."""
REPEATS: Final = Table("repeats", columns_of(RepeatRow))
STORED: Final = (RUNS, EVENTS, HISTORIES, REPEATS)
