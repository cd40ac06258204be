"""The operations of clients, from the call to the return, or without a return.

All methods use this class, so it is the one place that refuses invalid histories. Otherwise a contradiction in a
history would look like a bug of the store, or hide one.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final, TypeAlias

import attrs
from attrs import frozen

from harness.json_lines import HistoryError

VERSION: Final = 1
DEPTH_MAX: Final = 8
"""The limit of nested tuples in a value. No model needs deeper ones, and they could exhaust the stack of the reader."""


class Unknown(Enum):
    """The result of an operation without a reply: it took effect after its call, may still do so, or never does."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN

Value: TypeAlias = "bool | int | str | tuple[Value, ...] | None"
"""A value that operations write, read and return. `True` and 1 are the same value, as in Python."""


@frozen
class Operation:
    """A call of a client. Times are integers of any unit and origin. A return and a call at the same instant
    overlap."""

    id: int
    client: str
    kind: str
    key: str
    value: Value
    result: Value | Unknown
    call: int
    ret: int | None
    zxid: int | None = None
    """The zxid of a write, or of the state that a read shows. None: unknown."""

    @property
    def known(self) -> bool:
        return self.ret is not None

    def before(self, other: Operation) -> bool:
        return self.ret is not None and self.ret < other.call

    def __str__(self) -> str:
        what = f"{self.kind} {self.key}" + ("" if self.value is None else f" {self.value!r}")
        answer = "no reply" if self.result is UNKNOWN else f"-> {self.result!r}"
        until = "..." if self.ret is None else str(self.ret)
        at = "" if self.zxid is None else f"  zxid {self.zxid:#x}"
        return f"#{self.id} {self.client}  [{self.call}, {until}]  {what} {answer}{at}"


@frozen
class History:
    """A valid history. The constructor raises HistoryError for an invalid one."""

    operations: tuple[Operation, ...]

    def __attrs_post_init__(self) -> None:
        check(self.operations)

    def __str__(self) -> str:
        return "\n".join(str(op) for op in sorted(self.operations, key=lambda op: (op.call, op.id)))


def check(operations: tuple[Operation, ...]) -> None:
    """Refuse a history in which a client has two open operations, or an operation after one that never returned.

    A client that continues after a lost reply, or has several requests in flight, must be recorded as several clients:
    its operations overlap, and the checker must not assume an order among them.
    """
    places: dict[int, int] = {}
    last: dict[str, Operation] = {}
    for place, op in sorted(enumerate(operations), key=lambda item: (item[1].call, item[0])):
        where = f"operations[{place}] (#{op.id})"
        if op.id in places:
            raise HistoryError(f"{where}.id: operations[{places[op.id]}] has the same id; ids must be unique")
        places[op.id] = place
        if (op.result is UNKNOWN) != (op.ret is None):
            raise HistoryError(f"{where}: an operation must have both a result and a return, or neither")
        if op.ret is not None and op.ret < op.call:
            raise HistoryError(f"{where}.ret: {op.ret} is before its call at {op.call}")
        if op.zxid is not None and op.zxid < 0:
            raise HistoryError(f"{where}.zxid: {op.zxid} is negative")
        before = last.get(op.client)
        if before is not None and not before.before(op):
            ended = "never returned" if before.ret is None else f"returned at {before.ret}"
            raise HistoryError(
                f"{where}.call: client {op.client!r} calls at {op.call}, but its #{before.id} {ended};"
                " record overlapping operations under another client"
            )
        last[op.client] = op


# -- JSON ----------------------------------------------------------------------------------------------


def dumps(history: History) -> str:
    """Return the history as JSON, one operation per line, so that stored histories can be compared."""
    rows = []
    for op in history.operations:
        row = attrs.asdict(op)
        if op.result is UNKNOWN:
            del row["result"]
        rows.append("  " + json.dumps(row))
    return f'{{"version": {VERSION}, "operations": [\n' + ",\n".join(rows) + "\n]}\n"


def loads(text: str) -> History:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise HistoryError(f"line {error.lineno}, column {error.colno}: invalid JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:  # too deep, or a number of thousands of digits
        raise HistoryError(f"history: {error}") from error
    if not isinstance(data, dict):
        raise HistoryError(f"history: expected an object, not {type(data).__name__}")
    if data.get("version") != VERSION:
        raise HistoryError(f"history.version: expected {VERSION}, not {data.get('version')!r}")
    rows = data.get("operations")
    if not isinstance(rows, list):
        raise HistoryError(f"history.operations: expected a list, not {type(rows).__name__}")
    for name in data:
        if name not in ("version", "operations"):
            raise HistoryError(f"history.{name}: unknown; a history has version and operations")
    return History(tuple(_operation(row, f"operations[{place}]") for place, row in enumerate(rows)))


_FORM: Final[dict[str, tuple[type, ...]]] = {
    "id": (int,),
    "client": (str,),
    "kind": (str,),
    "key": (str,),
    "call": (int,),
    "ret": (int, type(None)),
    "zxid": (int, type(None)),
}
_NAMES: Final = tuple(field.name for field in attrs.fields(Operation))


def _operation(row: object, where: str) -> Operation:
    if not isinstance(row, dict):
        raise HistoryError(f"{where}: expected an object, not {type(row).__name__}")
    for name in row:
        if name not in _NAMES:
            raise HistoryError(f"{where}.{name}: unknown; an operation has {', '.join(_NAMES)}")
    made: dict[str, Any] = {"zxid": None, "ret": None, "value": None, "result": UNKNOWN}
    for name, value in row.items():
        kinds = _FORM.get(name)
        if kinds is None:
            made[name] = _value(value, f"{where}.{name}", 0)
        elif type(value) in kinds:
            made[name] = value
        else:
            raise HistoryError(f"{where}.{name}: expected {kinds[0].__name__}, not {value!r}")
    for name in _FORM:
        if name not in made:
            raise HistoryError(f"{where}.{name}: missing")
    return Operation(**made)


def _value(value: object, where: str, depth: int) -> Value:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list) and depth < DEPTH_MAX:
        return tuple(_value(item, f"{where}[{place}]", depth + 1) for place, item in enumerate(value))
    raise HistoryError(f"{where}: expected null, a boolean, an integer, a string or a list of these, not {value!r:.80}")
