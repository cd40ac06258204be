"""Controllers: one per epoch, fenced by the next one. Brokers apply only the newest controller's commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.controller.case import Case, Written
from harness.checkers.controller.facts import BecameController, CommandApplied, Registered
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
                yield Broken(ONE, f"{case.name(write.session)} sets controller epoch {epoch} after {write.epoch}")
            made[epoch] = write.session
    elected: dict[int, int] = {}
    for fact in case.facts:
        if isinstance(fact, BecameController):
            if made.get(fact.epoch) != fact.session:
                yield Broken(ONE, f"broker {fact.broker} acts in epoch {fact.epoch}, which it did not begin")
            if elected.setdefault(fact.epoch, fact.broker) != fact.broker:
                yield Broken(
                    ONE, f"brokers {elected[fact.epoch]} and {fact.broker} act as controllers of epoch {fact.epoch}"
                )
        elif isinstance(fact, CommandApplied) and elected.get(fact.epoch) != fact.controller:
            what = f"broker {fact.broker} applies a command of broker {fact.controller} in epoch {fact.epoch}"
            yield Broken(ONE, f"{what}, which has another controller")


FENCED: Final = "no write of a fenced controller takes effect"
_REQUESTS: Final = (znodes.DELETE_TOPICS + "/", znodes.REASSIGN, znodes.PREFERRED)


def fenced(case: Case) -> Iterator[Broken]:
    for write in case.writes:
        if write.session in case.brokers and _is_a_controllers(case, write) and write.session != write.controller:
            yield Broken(
                FENCED,
                f"{case.name(write.session)} writes {write.path} ({write.kind}), but {case.name(write.controller)} is"
                f" the controller, with epoch {write.epoch}",
            )
    for write, where, state, _ in case.states():
        if write.decides and state.controller_epoch != write.epoch:
            what = f"{where}: a decision of epoch {state.controller_epoch} is written in epoch {write.epoch}"
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
        if not isinstance(fact, CommandApplied):
            continue
        key = (fact.broker, fact.life)
        if lives.get((fact.broker, fact.meant), fact.life) < fact.life:
            what = f"process {fact.life} of broker {fact.broker} applies a command for its former process"
            yield Broken(LIVES, f"{what} with broker epoch {fact.meant}")
        if fact.epoch < newest.get(key, fact.epoch):
            what = f"broker {fact.broker} applies a command of controller epoch {fact.epoch}"
            yield Broken(NEWEST, f"{what} after one of epoch {newest[key]}")
        newest[key] = max(newest.get(key, fact.epoch), fact.epoch)
