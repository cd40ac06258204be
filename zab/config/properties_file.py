"""The syntax of Java's properties files.

`key=value`, `key: value` or `key value`. `#` and `!` at the beginning of a line begin a comment. A backslash at the end
of a line continues the line; anywhere else it begins an escape: `\\uXXXX`, or one character. Each entry has the
numbers of its first and last line, for messages about its value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

_BLANKS: Final = " \t\f"
_SEPARATORS: Final = "=:"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@frozen
class PropertiesEntry:
    key: str
    value: str
    line: int
    """The number of its first line, counted from 1."""
    last: int
    """The number of its last line."""


class MalformedEscape(ValueError):
    """`\\u` without four hexadecimal digits. The message does not quote the text: it may be part of a password."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}: four hexadecimal digits must follow \\u")
        self.line = line


def parse(text: str, malformed: list[int] | None = None) -> list[PropertiesEntry]:
    """Return all entries in the order of the file, repeated keys included.

    An entry with a wrong escape is left out, and the number of its first line is appended to `malformed`. Without
    `malformed`, raise `MalformedEscape` for the first wrong escape.
    """
    entries = []
    for first, last, line in _logical_lines(text):
        try:
            entries.append(_entry(line, first, last))
        except MalformedEscape:
            if malformed is None:
                raise
            malformed.append(first)
    return entries


def decode(raw: bytes) -> str:
    """Decode UTF-8, or Latin-1 if the file is not valid UTF-8. Java reads Latin-1 only."""
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


def _entry(line: str, number: int, last: int) -> PropertiesEntry:
    at = 0
    while at < len(line) and line[at] not in _BLANKS and line[at] not in _SEPARATORS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] and rest[0] in _SEPARATORS:
        rest = rest[1:].lstrip(_BLANKS)
    # ZooKeeper trims keys and values, and Kafka trims values, although Java's properties keep escaped blanks.
    return PropertiesEntry(_unescaped(line[:at], number).strip(), _unescaped(rest, number).strip(), number, last)


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
