"""Each epoch of controllers has one, and each controller counts one further than the one before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.controller.case import Broken, Case
from harness.checkers.controller.facts import Obeyed, Reigns
from kraft_controller.wire import znodes

PROMISE: Final = "one controller per epoch"


def check(case: Case) -> Iterator[Broken]:
    made: dict[int, int] = {}
    for write in case.writes:
        if write.path != znodes.CONTROLLER_EPOCH or write.kind == "delete":
            continue
        epoch = znodes.read_controller_epoch(write.data)
        if write.kind == "set":
            if epoch != write.epoch + 1:
                yield Broken(PROMISE, f"{case.who(write.session)} made epoch {epoch} out of {write.epoch}")
            made[epoch] = write.session
    rulers: dict[int, int] = {}
    for fact in case.facts:
        if isinstance(fact, Reigns):
            if made.get(fact.epoch) != fact.session:
                yield Broken(PROMISE, f"broker {fact.broker} acts in epoch {fact.epoch}, which it has not made")
            if rulers.setdefault(fact.epoch, fact.broker) != fact.broker:
                yield Broken(
                    PROMISE, f"brokers {rulers[fact.epoch]} and {fact.broker} act as controllers of epoch {fact.epoch}"
                )
        elif isinstance(fact, Obeyed) and rulers.get(fact.epoch) != fact.controller:
            yield Broken(PROMISE, f"broker {fact.broker} obeyed {fact.controller} in epoch {fact.epoch}, not its own")
