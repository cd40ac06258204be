"""The end of a run with controllers: brokers are healed, the cluster settles, and its history is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve

from harness.checkers.controller import judged
from harness.checkers.controller.facts import Fact
from harness.checkers.controller.settled import APART, UNFINISHED, Data, unfinished
from harness.outcome import Outcome

ROUNDS_MS: Final = 3_000
"""The time for the work that continues after healing: sessions expire, reassignments end, followers catch up."""
Apart: TypeAlias = Callable[[Data, Mapping[str, int]], str | None]
"""Returns how a broker differs from the nodes, given their data and versions; None if all agree."""


def acting_controller(brokers: Iterable[Any]) -> Any:
    """Return the broker that considers itself the controller; of several, the one of the newest epoch."""
    candidates = [(broker, broker.candidate) for broker in brokers if broker.up]
    terms = [(candidate.term.context.epoch, broker) for broker, candidate in candidates if candidate and candidate.term]
    return max(terms, key=lambda each: int(each[0]), default=(0, None))[1]


def end_broker_faults(world: Any) -> None:
    """End all faults of brokers, and start those that are down."""
    for broker in world.brokers.values():
        broker.unreachable = False
        broker.resume()
        broker.find_store()
        if not broker.up:
            world.start_later(broker, 1)


def unsettled(nodes: Mapping[str, Any], apart: Apart) -> tuple[str, str] | None:
    """Return the invariant that does not hold yet, and why. `nodes` are those of a leader of the store."""
    data = {path: node[0] for path, node in nodes.items()}
    missing = unfinished(data)
    if missing is not None:
        return UNFINISHED, missing
    missing = apart(data, {path: node[6] for path, node in nodes.items()})
    return None if missing is None else (APART, missing)


def with_controllers_judged(outcome: Outcome, facts: Sequence[Fact]) -> Outcome:
    """Judge topics and commands, unless the run has another violation."""
    if not outcome.valid:
        return outcome
    assert outcome.history is not None
    broken = judged(outcome.history, tuple(facts))
    return outcome if broken is None else evolve(outcome, invariant=broken.invariant, what=broken.what)
