"""The simulator of brokers that are clients of a store, one of which is the controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from harness.checkers import ALL, Checker
from harness.checkers.controller.facts import Fact
from harness.faults import Script
from harness.outcome import Outcome
from harness.worlds.controller.administration import topic_ids
from harness.worlds.controller.settled import acting_controller, with_controllers_judged
from harness.worlds.cores.controller.nodes import NodesClient
from harness.worlds.cores.controller.write_strikes import WriteStrikes
from harness.worlds.cores.store.simulator import StoreSimulator


class ControllerSimulator(StoreSimulator):
    broker_type: ClassVar[Any]

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.facts: list[Fact] = []
        self.new_id = topic_ids()
        self.strikes = WriteStrikes()
        self.session_ms = 6 * script.knobs.tick_ms
        super().__init__(script, trace=trace, checkers=checkers)
        self.brokers: dict[int, Any] = {
            number: self.broker_type(self, number) for number in range(1, script.brokers + 1)
        }

    def _prepare(self) -> None:
        super()._prepare()
        for broker in self.brokers.values():
            self.push(50_000 + int(broker.random.random() * 100_000), self._start_broker, broker, None)

    def _heal(self, _: object, __: object) -> None:
        self.strikes.disarm()
        super()._heal(_, __)

    @staticmethod
    def _start_broker(broker: Any, _: None) -> None:
        broker.start()

    def start_later(self, broker: Any, wait_ms: int) -> None:
        self.push(self.now + wait_ms * 1_000, self._start_broker, broker, None)

    def new_client(self, on_watch_event: Callable[[str], None], on_session_event: Callable[[str], None]) -> NodesClient:
        number = max(self.workload.clients, default=0) + 1
        client = self.workload.clients[number] = NodesClient(self, number, on_watch_event, on_session_event)
        return client

    def controller(self) -> Any:
        return acting_controller(self.brokers.values())

    def fact(self, fact: Fact) -> None:
        if not self.over:
            self.facts.append(fact)

    def outcome(self) -> Outcome:
        return with_controllers_judged(super().outcome(), self.facts)
