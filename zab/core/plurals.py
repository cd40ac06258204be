"""Singular and plural forms for messages."""

from __future__ import annotations


def noun(number: int, one: str, many: str = "") -> str:
    """Return the form of the noun that goes with the number: `run` for 1, `runs` for any other number."""
    return one if number == 1 else many or f"{one}s"


def counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {noun(number, one, many)}"
