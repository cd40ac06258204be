"""A typed line: its words, and among them options."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from attrs import field, frozen


class Misused(Exception):
    """A command was not typed as it must be. The text says how."""


def split(line: str) -> list[str]:
    """As a shell does: words between blanks, quotes around what holds blanks."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise Misused(f"{line!r}: {str(error).lower()}") from None


@frozen
class Typed:
    """What a command was given: options anywhere among the words, in any order."""

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
            raise Misused(f"{option} takes a number, not {text!r}") from None


def typed(words: Sequence[str], flags: str, options: Sequence[str], least: int, most: int) -> Typed:
    """`flags` stand alone, each a letter; `options` take a value. Behind `--` everything is a word.

    A negative number is a word: data may be one.
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
                raise Misused(f"{word} takes a value")
            values.setdefault(word, []).append(value)
        elif len(word) > 1 and word[0] == "-" and word[1].isalpha():
            unknown = [letter for letter in word[1:] if letter not in flags]
            if unknown:
                raise Misused(f"there is no option -{unknown[0]}")
            set_flags.update(word[1:])
        else:
            rest.append(word)
    if not least <= len(rest) <= most:
        raise Misused("too few words" if len(rest) < least else f"{rest[most]!r} is one word too many")
    return Typed(tuple(rest), frozenset(set_flags), values)
