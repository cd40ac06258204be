"""Controllers: one per epoch, fenced by the next one, and obeyed by the processes that its commands are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.controller.case import Case, Written
from harness.checkers.controller.facts import Obeyed, Registered, Reigns
from kraft_controller.wire import znodes

ONE: Final = "one controller per epoch"


def one_per_epoch(case: Case) -> Iterator[Broken]:
    made: dict[int, int] = {}
    for write in case.writes:
        if write.path != znodes.CONTROLLER_EPOCH or write.kind == "delete":
            continue
        epoch = znodes.read_controller_epoch(write.data)
        if write.kind == "set":
            if epoch != write.epoch + 1:
                yield Broken(ONE, f"{case.who(write.session)} made epoch {epoch} out of {write.epoch}")
            made[epoch] = write.session
    rulers: dict[int, int] = {}
    for fact in case.facts:
        if isinstance(fact, Reigns):
            if made.get(fact.epoch) != fact.session:
                yield Broken(ONE, f"broker {fact.broker} acts in epoch {fact.epoch}, which it has not made")
            if rulers.setdefault(fact.epoch, fact.broker) != fact.broker:
                yield Broken(
                    ONE, f"brokers {rulers[fact.epoch]} and {fact.broker} act as controllers of epoch {fact.epoch}"
                )
        elif isinstance(fact, Obeyed) and rulers.get(fact.epoch) != fact.controller:
            yield Broken(ONE, f"broker {fact.broker} obeyed {fact.controller} in epoch {fact.epoch}, not its own")


FENCED: Final = "no write of a fenced controller takes effect"
_REQUESTS: Final = (znodes.DELETE_TOPICS + "/", znodes.REASSIGN, znodes.PREFERRED)


def fenced(case: Case) -> Iterator[Broken]:
    for write in case.writes:
        if write.session in case.brokers and _is_a_controllers(case, write) and write.session != write.ruler:
            yield Broken(
                FENCED,
                f"{case.who(write.session)} did {write.kind} {write.path}, when {case.who(write.ruler)} had been"
                f" elected with epoch {write.epoch}",
            )
    for write, where, state, _ in case.states():
        if write.decides and state.controller_epoch != write.epoch:
            what = f"{where}: a decision of epoch {state.controller_epoch} was written in epoch {write.epoch}"
            yield Broken(FENCED, what)


def _is_a_controllers(case: Case, write: Written) -> bool:
    path = write.path
    if write.where is not None:
        return write.decides
    if path.startswith(znodes.TOPICS + "/"):
        return True
    if write.kind == "delete":
        return path.startswith((*_REQUESTS, znodes.ISR_CHANGES + "/", znodes.LOG_DIR_EVENTS + "/"))
    return path == znodes.REASSIGN


LIVES: Final = "a broker ignores commands for its former process"
NEWEST: Final = "a broker ignores commands of an older controller"


def obedience(case: Case) -> Iterator[Broken]:
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
