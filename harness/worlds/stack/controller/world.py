"""A world of whole servers of the store, with controllers around them as they are shipped."""

from __future__ import annotations

from collections.abc import Sequence

from harness.checkers import ALL, Checker
from harness.checkers.controller.facts import Fact
from harness.faults import Script
from harness.outcome import Outcome
from harness.worlds.controller.people import topic_ids
from harness.worlds.controller.ruling import ruling, with_rulers
from harness.worlds.stack.controller.broker import Broker
from harness.worlds.stack.controller.liveness import ControllerLiveness
from harness.worlds.stack.controller.observed_controller import listening
from harness.worlds.stack.controller.workload import ControllerWorkload
from harness.worlds.stack.store.world import StoreWorld


class ControllerWorld(StoreWorld):
    workload: ControllerWorkload

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.facts: list[Fact] = []
        self.new_id = topic_ids()
        self.session_ms = 6 * script.knobs.tick_ms
        super().__init__(script, trace=trace, checkers=checkers)
        self.brokers = {number: Broker(self, number) for number in range(1, script.brokers + 1)}
        for broker in self.brokers.values():
            self.add(broker.store_client)

    def make_workload(self) -> ControllerWorkload:
        return ControllerWorkload(self)

    def make_liveness(self) -> ControllerLiveness:
        return ControllerLiveness(self)

    def run(self) -> Outcome:
        with listening(self):
            return super().run()

    def push_script(self) -> None:
        super().push_script()
        for broker in self.brokers.values():
            self.push(50_000 + int(broker.random.random() * 100_000), self._start_broker, broker, None)

    @staticmethod
    def _start_broker(broker: Broker, _: None) -> None:
        broker.start()

    def start_later(self, broker: Broker, wait_ms: int) -> None:
        self.push(self.now + wait_ms * 1_000, self._start_broker, broker, None)

    def controller(self) -> Broker | None:
        return ruling(self.brokers.values())

    # -- the end -----------------------------------------------------------------------------------------

    def fact(self, fact: Fact) -> None:
        if not self.over:
            self.facts.append(fact)

    def outcome(self) -> Outcome:
        return with_rulers(super().outcome(), self.facts)
