"""Singular and plural forms for messages."""

from __future__ import annotations


def noun(number: int, one: str, many: str = "") -> str:
    """Return the noun in the number's form: 1 run, 2 runs, 0 runs."""
    return one if number == 1 else many or f"{one}s"


def counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {noun(number, one, many)}"
