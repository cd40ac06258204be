"""A world of cores that replicate the store, with brokers for clients, of which one is the controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.checkers import ALL, Checker
from harness.checkers.controller.facts import Fact
from harness.faults import Script
from harness.outcome import Outcome
from harness.worlds.controller.administration import topic_ids
from harness.worlds.controller.settled import acting_controller, with_controllers_judged
from harness.worlds.cores.controller.broker import Broker
from harness.worlds.cores.controller.liveness import ControllerLiveness
from harness.worlds.cores.controller.nodes import NodesClient
from harness.worlds.cores.controller.workload import ControllerWorkload
from harness.worlds.cores.store.world import StoreWorld


class ControllerWorld(StoreWorld):
    workload: ControllerWorkload

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.facts: list[Fact] = []
        self.new_id = topic_ids()
        self.session_ms = 6 * script.knobs.tick_ms
        super().__init__(script, trace=trace, checkers=checkers)
        self.brokers = {number: self.make_broker(number) for number in range(1, script.brokers + 1)}

    def make_broker(self, number: int) -> Broker:
        return Broker(self, number)

    def make_workload(self) -> ControllerWorkload:
        return ControllerWorkload(self)

    def make_liveness(self) -> ControllerLiveness:
        return ControllerLiveness(self)

    def _prepare(self) -> None:
        super()._prepare()
        for broker in self.brokers.values():
            self.push(50_000 + int(broker.random.random() * 100_000), self._start_broker, broker, None)

    @staticmethod
    def _start_broker(broker: Broker, _: None) -> None:
        broker.start()

    def start_later(self, broker: Broker, wait_ms: int) -> None:
        self.push(self.now + wait_ms * 1_000, self._start_broker, broker, None)

    # -- clients -----------------------------------------------------------------------------------------

    def new_client(self, fired: Callable[[str], None], became: Callable[[str], None]) -> NodesClient:
        number = max(self.workload.clients, default=0) + 1
        client = self.workload.clients[number] = NodesClient(self, number, fired, became)
        return client

    def controller(self) -> Broker | None:
        return acting_controller(self.brokers.values())

    # -- the end -----------------------------------------------------------------------------------------

    def fact(self, fact: Fact) -> None:
        if not self.over:
            self.facts.append(fact)

    def outcome(self) -> Outcome:
        return with_controllers_judged(super().outcome(), self.facts)
