"""What a controller wants to change when another one has been elected does not change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.controller.case import Broken, Case, Written
from kraft_controller.wire import znodes

PROMISE: Final = "no write of a fenced controller takes effect"
_REQUESTS: Final = (znodes.DELETE_TOPICS + "/", znodes.REASSIGN, znodes.PREFERRED)


def check(case: Case) -> Iterator[Broken]:
    for write in case.writes:
        if write.session in case.brokers and _is_a_controllers(case, write) and write.session != write.ruler:
            yield Broken(
                PROMISE,
                f"{case.who(write.session)} did {write.kind} {write.path}, when {case.who(write.ruler)} had been"
                f" elected with epoch {write.epoch}",
            )
    for write, where, state, _ in case.states():
        if write.decides and state.controller_epoch != write.epoch:
            what = f"{where}: a decision of epoch {state.controller_epoch} was written in epoch {write.epoch}"
            yield Broken(PROMISE, what)


def _is_a_controllers(case: Case, write: Written) -> bool:
    path = write.path
    if write.where is not None:
        return write.decides
    if path.startswith(znodes.TOPICS + "/"):
        return True
    if write.kind == "delete":
        return path.startswith((*_REQUESTS, znodes.ISR_CHANGES + "/", znodes.LOG_DIR_EVENTS + "/"))
    return path == znodes.REASSIGN
