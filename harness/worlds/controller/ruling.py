"""What worlds with controllers have in common, whatever they are built of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from attrs import evolve

from harness.checkers.controller import judged
from harness.checkers.controller.facts import Fact
from harness.outcome import Outcome


class Rules(Protocol):
    @property
    def up(self) -> bool: ...
    @property
    def candidate(self) -> Any: ...


class Hindered(Protocol):
    unheard: bool

    @property
    def up(self) -> bool: ...
    def go_on(self) -> None: ...
    def find_store(self) -> None: ...


Ruler = TypeVar("Ruler", bound=Rules)
Broker = TypeVar("Broker", bound=Hindered)


def ruling(brokers: Iterable[Ruler]) -> Ruler | None:
    """Of several that believe to be the controller, the one of the newest epoch."""
    found: tuple[int, Ruler] | None = None
    for broker in brokers:
        term = broker.candidate.term if broker.up and broker.candidate is not None else None
        if term is not None and (found is None or term.context.epoch > found[0]):
            found = term.context.epoch, broker
    return None if found is None else found[1]


def with_rulers(outcome: Outcome, facts: Sequence[Fact]) -> Outcome:
    """What became of topics and commands is judged when it is over, and only if nothing else was wrong."""
    if not outcome.held:
        return outcome
    assert outcome.history is not None
    broken = judged(outcome.history, tuple(facts))
    return outcome if broken is None else evolve(outcome, promise=broken.promise, what=broken.what)


def unhinder(brokers: Iterable[Broker], start_later: Callable[[Broker, int], None]) -> None:
    """From now on nothing happens to them any more."""
    for broker in brokers:
        broker.unheard = False
        broker.go_on()
        broker.find_store()
        if not broker.up:
            start_later(broker, 1)
