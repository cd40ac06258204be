"""The style of this project's docstrings: paragraphs, examples, and tables of arguments without a frame.

joining  servers to add; a line that begins further to the right
         continues the text of its row
members  one row may have several names, with commas in between
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from textwrap import dedent, indent
from typing import Final, TypeAlias

_NAMES: Final = r"(?:\.\.\.|\*{0,2}\w+)(?:, \w+)*"
_ROW: Final = re.compile(rf"({_NAMES})(?: {{2,}}(?=\S)|$)")
_LONG_NAME: Final = re.compile(rf"({_NAMES}) (?=\S)")


@dataclass(frozen=True)
class Row:
    """One row of a table: the names as they are written, and their text."""

    names: tuple[str, ...]
    text: str

    def full_names(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the names; one that is written as a suffix, such as `_max` after `timeout_min`, in full."""
        return tuple(self._full(name, set(known)) for name in self.names)

    def _full(self, name: str, known: set[str]) -> str:
        stem = self.names[0]
        while name not in known and name.startswith("_") and "_" in stem:
            stem = stem.rpartition("_")[0]
            if stem + name in known:
                return stem + name
        return name


Part: TypeAlias = str | list[Row]


def parts(docstring: str) -> list[Part]:
    """Return the text as Markdown and the tables of a docstring, in order. Its indentation must be removed already."""
    found: list[Part] = []
    for indented, blocks in groupby(re.split(r"\n(?:[ \t]*\n)+", docstring.rstrip()), _is_example):
        text = dedent("\n\n".join(blocks))
        if indented:
            found.append(f"```{_language(text)}\n{text}\n```")
        else:
            found += (_table(dedent(block)) or block for block in text.split("\n\n"))
    return found


def _is_example(block: str) -> bool:
    return block.startswith("    ") and not _table(dedent(block))


def markdown(docstring: str) -> str:
    """Return a docstring as Markdown; a table becomes a list."""
    lines = [
        part if isinstance(part, str) else "\n".join(f"- `{', '.join(row.names)}`: {row.text}" for row in part)
        for part in parts(docstring)
    ]
    return "\n\n".join(lines)


def _table(block: str) -> list[Row]:
    """Return the rows of a table, none if the block is something else."""
    lines = block.split("\n")
    starts = [match for line in lines if not line.startswith(" ") and (match := _ROW.match(line))]
    columns = [match.end() for match in starts if match.end() > match.end(1)]
    continued = any(line.startswith(" ") for line in lines)
    if not starts or not _ROW.match(lines[0]) or not (columns or continued):
        return []
    column = max(columns, key=columns.count) if columns else 0
    rows: list[Row] = []
    for line in lines:
        if line.startswith(" "):
            rows[-1] = Row(rows[-1].names, f"{rows[-1].text} {line.strip()}".strip())
            continue
        match = _ROW.match(line) or _LONG_NAME.match(line)
        if not match or (match.re is _LONG_NAME and match.end() < column):
            return []
        rows.append(Row(tuple(match[1].split(", ")), line[match.end() :]))
    return rows


def _language(text: str) -> str:
    try:
        ast.parse("async def _():\n" + indent(text, "    "))
    except SyntaxError:
        return "text"
    return "python"
