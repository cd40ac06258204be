"""Decide whether a figure is worse than the stored one by more than the noise. Nothing here measures."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from attrs import asdict, frozen


class Method(Enum):
    """
    INSTRUCTIONS  that one operation takes, counted by valgrind: the same on a crowded machine, within a per mille or so
    CPU           that one operation takes, relative to a loop that is never changed: noisier, but needs nothing
    """

    INSTRUCTIONS = "instructions"
    CPU = "cpu"


TOLERANCE: Final = {Method.INSTRUCTIONS: 0.02, Method.CPU: 0.15}


class Word(Enum):
    SAME = "as stored"
    WORSE = "WARNING: worse than stored"
    BETTER = "better than stored: `python -m bench gate --store` keeps it"
    NEW = "nothing is stored for this interpreter: `python -m bench gate --store` keeps it"


@frozen
class Figure:
    """`interpreter`: figures of different ones are not compared."""

    work: str
    method: str
    interpreter: str
    figure: float


@frozen
class Verdict:
    now: Figure
    stored: float | None

    @property
    def change(self) -> float | None:
        """A tenth more is 0.1."""
        return None if self.stored is None else self.now.figure / self.stored - 1

    @property
    def word(self) -> Word:
        change, tolerance = self.change, TOLERANCE[Method(self.now.method)]
        if change is None:
            return Word.NEW
        return Word.WORSE if change > tolerance else Word.BETTER if change < -tolerance else Word.SAME


def interpreter() -> str:
    """Return the build of the interpreter: an optimized one takes other instructions for the same work."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimized = "optimized" if "--enable-optimizations" in arguments else "plain"
    return f"{platform.python_implementation()} {platform.python_version()} {platform.machine()} {optimized}"


def judge(now: Sequence[Figure], stored: Sequence[Figure]) -> list[Verdict]:
    known = {_key(each): each.figure for each in stored}
    return [Verdict(each, known.get(_key(each))) for each in now]


def merged(now: Sequence[Figure], stored: Sequence[Figure]) -> list[Figure]:
    """Return the figures to store: new ones replace old ones, and those of other interpreters stay."""
    figures = {_key(each): each for each in (*stored, *now)}
    return [figures[key] for key in sorted(figures)]


def _key(figure: Figure) -> tuple[str, str, str]:
    return figure.method, figure.interpreter, figure.work


def to_document(figures: Sequence[Figure]) -> dict[str, Any]:
    return {"benchmark": "gate", "figures": [asdict(each) for each in figures]}


def from_document(document: Mapping[str, Any]) -> list[Figure]:
    return [Figure(**each) for each in document["figures"]]
