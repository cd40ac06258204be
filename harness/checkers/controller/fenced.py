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
        state, before = write.state if write.kind == "set" else None, write.state_before
        decided = state is not None and before is not None and _decided(write)
        if state is not None and decided and state.controller_epoch != write.epoch:
            yield Broken(
                PROMISE,
                f"{write.where}: a decision of epoch {state.controller_epoch} was written in epoch {write.epoch}",
            )


def _decided(write: Written) -> bool:
    """Leaders write ISRs, too, and nothing else of a state."""
    state, before = write.state, write.state_before
    assert state is not None
    return before is None or (state.leader, state.leader_epoch) != (before.leader, before.leader_epoch)


def _is_a_controllers(case: Case, write: Written) -> bool:
    path = write.path
    if write.where is not None:
        return write.kind != "set" or _decided(write)
    if path.startswith(znodes.TOPICS + "/"):
        return True
    if write.kind == "delete":
        return path.startswith((*_REQUESTS, znodes.ISR_CHANGES + "/", znodes.LOG_DIR_EVENTS + "/"))
    return path == znodes.REASSIGN
