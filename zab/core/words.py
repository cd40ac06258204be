"""Words for what people read."""

from __future__ import annotations


def noun(number: int, one: str, many: str = "") -> str:
    """What so many of them are called: one run, but two runs, or none."""
    return one if number == 1 else many or f"{one}s"


def counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {noun(number, one, many)}"
