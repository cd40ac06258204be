"""A line of the shell: its words and options."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from attrs import field, frozen


class BadLine(Exception):
    """A command cannot be run as it was given. The message tells why."""


def split(line: str) -> list[str]:
    """Split into words as a Unix shell does, with quotes around words that contain blanks."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadLine(f"{line!r}: {str(error).lower()}") from None


@frozen
class ParsedLine:
    """The words and options of a command; options may be anywhere, in any order."""

    words: tuple[str, ...]
    flags: frozenset[str] = frozenset()
    values: dict[str, list[str]] = field(factory=dict)

    def has(self, flag: str) -> bool:
        return flag in self.flags

    def value(self, option: str) -> str | None:
        found = self.values.get(option)
        return found[-1] if found else None

    def number(self, option: str, base: int = 10) -> int | None:
        text = self.value(option)
        if text is None:
            return None
        try:
            return int(text, base)
        except ValueError:
            raise BadLine(f"{option} takes a number, not {text!r}") from None


def parse_words(words: Sequence[str], flags: str, options: Sequence[str], least: int, most: int) -> ParsedLine:
    """Separate words from options. After `--`, all are words.

    `flags` are the letters of options without a value, like `-s`; each of `options` takes a value. A negative number
    is a word, because data may be one. Raise `BadLine` at an unknown option, an option without its value, fewer words
    than `least`, or more than `most`.
    """
    rest: list[str] = []
    set_flags: set[str] = set()
    values: dict[str, list[str]] = {}
    given = iter(words)
    for word in given:
        if word == "--":
            rest += given
        elif word in options:
            value = next(given, None)
            if value is None:
                raise BadLine(f"{word} takes a value")
            values.setdefault(word, []).append(value)
        elif len(word) > 1 and word[0] == "-" and word[1].isalpha():
            unknown = [letter for letter in word[1:] if letter not in flags]
            if unknown:
                raise BadLine(f"there is no option -{unknown[0]}")
            set_flags.update(word[1:])
        else:
            rest.append(word)
    if not least <= len(rest) <= most:
        raise BadLine("too few arguments" if len(rest) < least else f"unexpected argument {rest[most]!r}")
    return ParsedLine(tuple(rest), frozenset(set_flags), values)
