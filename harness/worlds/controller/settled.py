"""The end of a run with controllers: brokers are healed, the cluster settles, and its history is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from attrs import evolve

from harness.checkers.controller import judged
from harness.checkers.controller.facts import Fact
from harness.checkers.controller.settled import APART, UNFINISHED, Data, apart, unfinished
from harness.outcome import Outcome
from harness.worlds.controller.replicas import Replicas
from kraft_controller.core.names import BrokerId

ROUNDS_MS: Final = 3_000
"""The time for the work that continues after healing: sessions expire, reassignments end, followers catch up."""
Apart: TypeAlias = Callable[[Data, Mapping[str, int]], str | None]
"""Returns how a broker differs from the nodes, given their data and versions; None if all agree."""


class HasCandidate(Protocol):
    @property
    def up(self) -> bool: ...
    @property
    def candidate(self) -> Any: ...


class FaultyBroker(Protocol):
    unreachable: bool

    @property
    def up(self) -> bool: ...
    def resume(self) -> None: ...
    def find_store(self) -> None: ...


C = TypeVar("C", bound=HasCandidate)
H = TypeVar("H", bound=FaultyBroker)


def acting_controller(brokers: Iterable[C]) -> C | None:
    """Return the broker that considers itself the controller; of several, the one of the newest epoch."""
    found: tuple[int, C] | None = None
    for broker in brokers:
        term = broker.candidate.term if broker.up and broker.candidate is not None else None
        if term is not None and (found is None or term.context.epoch > found[0]):
            found = term.context.epoch, broker
    return None if found is None else found[1]


def end_broker_faults(brokers: Iterable[H], start_later: Callable[[H, int], None]) -> None:
    """End all faults of these brokers, and start those that are down."""
    for broker in brokers:
        broker.unreachable = False
        broker.resume()
        broker.find_store()
        if not broker.up:
            start_later(broker, 1)


def unsettled(nodes: Mapping[str, Any], replicas: Mapping[BrokerId, Replicas], brokers: int) -> tuple[str, str] | None:
    """Return the invariant that does not hold yet, and why. `nodes` are those of a leader of the store."""
    return unsettled_by(nodes, lambda data, versions: apart(data, versions, replicas, brokers))


def unsettled_by(nodes: Mapping[str, Any], apart: Apart) -> tuple[str, str] | None:
    """Return the same as `unsettled`, with `apart` as the rule for the agreement of brokers and nodes."""
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
