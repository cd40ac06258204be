"""The syntax of the file: Java's properties. `key=value`, `key: value`, comments, lines that go on in the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@frozen
class Entry:
    key: str
    value: str
    line: int
    """Where it begins, counted from 1."""


def parse(text: str) -> list[Entry]:
    """In the order of the file; who is written twice is here twice."""
    return [_entry(line, number) for number, line in _lines(text)]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    held, started = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.lstrip(_BLANKS)
        if not started and (not line or line[0] in "#!"):
            continue
        started = started or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            held += line[:-1]
            continue
        yield started, held + line
        held, started = "", 0
    if started:
        yield started, held


def _entry(line: str, number: int) -> Entry:
    at = 0
    while at < len(line) and line[at] not in _BLANKS + "=:":
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return Entry(_unescaped(line[:at]), _unescaped(rest).strip(), number)


def _unescaped(text: str) -> str:
    out, at = "", 0
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 1
            letter = _ESCAPES.get(text[at : at + 1], text[at : at + 1])
        out += letter
        at += 1
    return out
