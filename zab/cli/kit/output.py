"""Results on stdout, as tables for people or JSON for programs; progress and warnings on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

CELL_MAX: Final = 400
"""The largest number of characters of a cell on a terminal; a longer cell, like a list of many replicas, is cut."""
UNFOLDED: Final = 1_000_000
"""The width if stdout is not a terminal: scripts split the lines into columns, so no line is wrapped or cut."""


def show(as_json: bool, rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Print rows as a table, or as a JSON list, whose objects may have more fields than the table has columns."""
    rows = list(rows)
    if as_json:
        show_json(rows)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        cells = [cell(row.get(column)) for column in columns]
        table.add_row(*(Text(_shortened(each) if terminal else each) for each in cells))
    Console(width=None if terminal else UNFOLDED, highlight=False).print(table)


def show_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def say(as_json: bool, line: str, **fields: object) -> None:
    """Print one result: the line for people, or the fields as a JSON object."""
    if as_json:
        show_json(fields)
    else:
        print(line)


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def cell(value: object) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return str(value)


def _shortened(text: str) -> str:
    if len(text) <= CELL_MAX:
        return text
    return f"{text[: CELL_MAX // 2]}... ({len(text)} characters; --json shows all)"
