"""A simulated cluster of store servers and of controllers, both as shipped."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import zab
from harness.budgets import SHUT_DOWN
from harness.checkers import ALL, Checker
from harness.checkers.oracle_state import Violation
from harness.checkers.service import NoCrash
from harness.faults import Depart, Script
from harness.outcome import Outcome
from harness.worlds.controller.settled import ControllerCluster
from harness.worlds.cores.controller.workload import ControllerWorkload as CoreWorkload
from harness.worlds.cores.controller.world import ControllerLiveness as CoreLiveness
from harness.worlds.stack.controller.broker import Broker
from harness.worlds.stack.controller.process import BrokerProcess
from harness.worlds.stack.controller.session import StoreClient
from harness.worlds.stack.simulation import redirected_log
from harness.worlds.stack.store.world import StoreLiveness, StoreWorkload, StoreWorld
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.runtime.store_session import StoreSession

ADMINISTRATOR: Final = 900
SESSION_MS: Final = 4_000
ERROR_NOTES: Final = ("illegal_transition", "damaged")
"""The notes of controllers that always mean a bug."""


class ControllerWorkload(StoreWorkload, CoreWorkload):
    def __init__(self, world: ControllerWorld) -> None:
        super().__init__(world)
        self._administrator = StoreClient(world, world.recorder, ADMINISTRATOR)

    def _ask(self, work: Any) -> None:
        """Perform administrative work once: it is not repeated if its outcome is unknown."""
        if self._administrator.alive is None:
            self.clients[ADMINISTRATOR] = self._administrator
            self._administrator.begin(SESSION_MS)
        self.world.spawn(self._do, self._administrator.alive, work)

    @staticmethod
    async def _do(session: zab.Session, work: StoreRequests[Any]) -> None:
        try:
            await StoreSession(session).run(work)
        except zab.ZabError:
            pass

    def _depart(self, op: Depart) -> None:
        broker = self._target(op)
        if broker is not None and broker.now is not None:
            self.world.spawn(self._leave_and_return, broker, broker.now, op.down_ms)

    async def _leave_and_return(self, broker: BrokerProcess, life: Any, down_ms: int) -> None:
        await life.leave()
        if broker.now is life:
            self.world.counted(SHUT_DOWN)
            broker.end()
            self.world.start_later(broker, down_ms)


class ControllerLiveness(StoreLiveness, CoreLiveness):
    """The check of the simulator of cores, with the store servers and the brokers of this world."""


class ControllerWorld(ControllerCluster, StoreWorld):
    workload_type: ClassVar[Any] = ControllerWorkload
    liveness_type: ClassVar[Any] = ControllerLiveness

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        super().__init__(script, trace=trace, checkers=checkers)
        for broker in self.brokers.values():
            self.workload.clients[broker.store_client.id] = broker.store_client

    def push_script(self) -> None:
        super().push_script()
        self.start_brokers()

    def make_broker(self, number: int) -> BrokerProcess:
        return Broker(self, number)

    def run(self) -> Outcome:
        with redirected_log("kraft_controller", logging.INFO, self._controller_logged):
            return super().run()

    def _controller_logged(self, record: logging.LogRecord) -> None:
        """Record the notes of controllers, and report exceptions and the notes of `ERROR_NOTES`."""
        words = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            self.violated(Violation(NoCrash.invariant, f"a controller logs {words}: {record.exc_info[1]!r}"))
        if record.msg != "%s %s" or not isinstance(record.args, tuple):
            return
        event = str(record.args[0])
        self.counted(f"controller {event}")
        self.record(0, "controller", 0, words)
        if event in ERROR_NOTES:
            self.violated(Violation(NoCrash.invariant, f"a controller logs {words}"))
