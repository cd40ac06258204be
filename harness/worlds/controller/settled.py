"""What the simulated clusters with controllers share: the brokers, and the end of a run: it settles, and is judged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve

from harness.checkers import ALL, Checker
from harness.checkers.controller import judged
from harness.checkers.controller.facts import Fact
from harness.checkers.controller.settled import APART, UNFINISHED, Data, unfinished
from harness.faults import Script
from harness.outcome import Outcome
from harness.worlds.common import Common
from harness.worlds.controller.administration import topic_ids

ROUNDS_MS: Final = 3_000
"""The time for the work that continues after healing: sessions expire, reassignments end, followers catch up."""
Apart: TypeAlias = Callable[[Data, Mapping[str, int]], str | None]
"""Returns how a broker differs from the nodes, given their data and versions; None if all agree."""


class ControllerCluster(Common):
    """A simulated cluster with brokers, one of which is the controller."""

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.facts: list[Fact] = []
        self.new_id = topic_ids()
        self.session_ms = 6 * script.knobs.tick_ms
        super().__init__(script, trace=trace, checkers=checkers)
        self.brokers = {number: self.make_broker(number) for number in range(1, script.brokers + 1)}

    @abstractmethod
    def make_broker(self, number: int) -> Any: ...

    def start_brokers(self) -> None:
        for broker in self.brokers.values():
            self.push(50_000 + int(broker.random.random() * 100_000), self._start_broker, broker, None)

    @staticmethod
    def _start_broker(broker: Any, _: None) -> None:
        broker.start()

    def start_later(self, broker: Any, wait_ms: int) -> None:
        self.push(self.now + wait_ms * 1_000, self._start_broker, broker, None)

    def controller(self) -> Any:
        """Return the broker that considers itself the controller; of several, the one of the newest epoch."""
        candidates = [(broker, broker.candidate) for broker in self.brokers.values() if broker.up]
        terms = [(found.term.context.epoch, broker) for broker, found in candidates if found and found.term]
        return max(terms, key=lambda each: int(each[0]), default=(0, None))[1]

    def fact(self, fact: Fact) -> None:
        if not self.over:
            self.facts.append(fact)

    def outcome(self) -> Outcome:
        """Judge topics and commands, unless the run has another violation."""
        outcome = super().outcome()
        if not outcome.valid:
            return outcome
        assert outcome.history is not None
        broken = judged(outcome.history, tuple(self.facts))
        return outcome if broken is None else evolve(outcome, invariant=broken.invariant, what=broken.what)


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
