"""The syntax of the file: Java's properties.

`key=value`, `key: value` or `key value`; `#` and `!` begin a comment; a backslash at the end of a line goes on
in the next one, and before a letter it escapes that. A line says where its key stands, so that whoever
complains about a value can say where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

_BLANKS: Final = " \t\f"
_SEPARATORS: Final = "=:"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@frozen
class Entry:
    key: str
    value: str
    line: int
    """Where it begins, counted from 1."""
    last: int
    """Where it ends."""


class MalformedEscape(ValueError):
    """The text is not repeated: it may be part of a password."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}: four hexadecimal digits follow \\u")
        self.line = line


def parse(text: str) -> list[Entry]:
    """In the order of the file; who is written twice is here twice."""
    return [_entry(line, first, last) for first, last, line in _logical_lines(text)]


def decode(raw: bytes) -> str:
    """As UTF-8; what is none is Latin-1, which is all that the original reads."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, int, str]]:
    held, started, number = "", 0, 0
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = line.lstrip(_BLANKS)
        if not started and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        held += line[:-1] if goes_on else line
        started = started or number
        if not goes_on:
            yield started, number, held
            held, started = "", 0
    if started and held:
        yield started, number, held


def _entry(line: str, number: int, last: int) -> Entry:
    at = 0
    while at < len(line) and line[at] not in _BLANKS and line[at] not in _SEPARATORS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] and rest[0] in _SEPARATORS:
        rest = rest[1:].lstrip(_BLANKS)
    # The original trims both, though a properties file could say otherwise.
    return Entry(_unescaped(line[:at], number).strip(), _unescaped(rest, number).strip(), number, last)


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
            continue
        letter = text[at + 1 : at + 2]
        at += 2
        if letter == "u":
            digits = text[at : at + 4]
            if len(digits) < 4 or digits.strip("0123456789abcdefABCDEF"):
                raise MalformedEscape(line)
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(letter, letter))
    return "".join(out)
