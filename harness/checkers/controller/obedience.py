"""A broker obeys what was meant for this life of it, and of several controllers the newest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.controller.case import Broken, Case
from harness.checkers.controller.facts import Obeyed, Registered

LIVES: Final = "a broker ignores commands for its former process"
NEWEST: Final = "a broker ignores commands of an older controller"


def check(case: Case) -> Iterator[Broken]:
    lives = {(fact.broker, fact.made): fact.life for fact in case.facts if isinstance(fact, Registered)}
    newest: dict[tuple[int, int], int] = {}
    for fact in case.facts:
        if not isinstance(fact, Obeyed):
            continue
        key = (fact.broker, fact.life)
        if lives.get((fact.broker, fact.meant), fact.life) < fact.life:
            yield Broken(LIVES, f"broker {fact.broker}, life {fact.life}, did what was meant for {fact.meant:#x}")
        if fact.epoch < newest.get(key, fact.epoch):
            yield Broken(NEWEST, f"broker {fact.broker} obeyed epoch {fact.epoch} behind epoch {newest[key]}")
        newest[key] = max(newest.get(key, fact.epoch), fact.epoch)
