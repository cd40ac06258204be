"""Trio's order of tasks, made a function of a seed. It is private to Trio, so it is touched here and nowhere else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from trio._core import _run

_SWITCH: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"
_CHANCE: Final = "_r"


class StrangeTrio(Exception):
    """This version of Trio orders its tasks in a way that is not known here: no run would repeat."""


@contextmanager
def ordered_by(seed: str) -> Iterator[None]:
    """A `trio.run` in this block runs its tasks in an order that only depends on `seed` and on what they do."""
    inside: Any = _run
    chance = getattr(inside, _CHANCE, None)
    switch = getattr(inside, _SWITCH, None)
    if not isinstance(chance, random.Random) or not isinstance(switch, bool):
        raise StrangeTrio(f"trio has no {_CHANCE} and {_SWITCH} any more: see how its run loop orders a batch now")
    before = chance.getstate()
    chance.seed(seed)
    setattr(inside, _SWITCH, True)
    try:
        yield
    finally:
        setattr(inside, _SWITCH, switch)
        chance.setstate(before)
