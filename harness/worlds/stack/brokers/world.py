"""A world of whole brokers on a store of whole servers."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from harness.checkers import ALL, Checker
from harness.checkers.ghost import Violation
from harness.checkers.service import NoCrash
from harness.faults import Replication, Script
from harness.outcome import Outcome
from harness.recoveries import of_brokers
from harness.worlds.brokers.tape import Tape
from harness.worlds.brokers.undone import Loss, undone
from harness.worlds.brokers.verdict import with_records, with_transactions
from harness.worlds.stack.brokers.broker import Broker
from harness.worlds.stack.brokers.liveness import BrokersLiveness
from harness.worlds.stack.brokers.machine import arranged, use_sockets
from harness.worlds.stack.brokers.workload import BrokersWorkload
from harness.worlds.stack.controller.world import ControllerWorld
from harness.worlds.stack.store.world import StoreWorld
from zab.storage.disk import FolderDisk


class BrokersTape(Tape):
    """Of a world: when that is over, nothing is seen any more."""

    def __init__(self, world: BrokersWorld) -> None:
        super().__init__(lambda: world.now)
        self._world = world

    def add(self, event: Any) -> None:
        if not self._world.over:
            super().add(event)
            self._world.record(0, "client", event.client, event)


class BrokersWorld(ControllerWorld):
    workload: BrokersWorkload

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.records = BrokersTape(self)
        self.losses: list[Loss] = []
        self.replication = next((op for op in script.ops if isinstance(op, Replication)), Replication(0))
        super().__init__(script, trace=trace, checkers=checkers)

    def make_workload(self) -> BrokersWorkload:
        return BrokersWorkload(self)

    def make_liveness(self) -> BrokersLiveness:  # type: ignore[override]
        return BrokersLiveness(self)

    def full_brokers(self) -> list[Broker]:
        found: list[Any] = list(self.brokers.values())
        return found

    def lost(self, broker: Broker) -> None:
        """What its disk held."""
        self.losses.append(Loss(self.ghost.canon[-1], broker.id))

    # -- the run -----------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        timing = self.script.timing
        says = Says(self)
        logger = logging.getLogger("replica")
        level, propagates = logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(says)
        seed = str(self.script.seed)
        try:
            with tempfile.TemporaryDirectory(prefix="zab-brokers-") as folder:
                made: Any = {number: Broker(self, number, Path(folder)) for number in self.brokers}
                self.brokers = made
                for broker in self.full_brokers():
                    self.add(broker.store_client)
                with arranged(seed, (timing.fsync_us_min, timing.fsync_us_max), self._files):
                    return super().run()
        finally:
            logger.removeHandler(says)
            logger.propagate = propagates
            logger.setLevel(level)

    async def _main(self) -> None:
        use_sockets()
        await super()._main()

    def _files(self, directory: str) -> FolderDisk:
        return next(broker.files for broker in self.full_brokers() if broker.directory == directory)

    def outcome(self) -> Outcome:
        """What the store's clients saw is judged, and then what those of the brokers did."""
        made = StoreWorld.outcome(self)
        assert made.history is not None
        gone = undone(made.history, self.losses)
        made = with_records(made, self.records, gone)
        if not gone:
            made = with_transactions(made, self.workload.journal)
        brokers = of_brokers(self.availability.beside, self.records.acknowledged_at(), self.liveness.began or self.now)
        return evolve(made, recoveries=(*made.recoveries, *brokers))


class Says(logging.Handler):
    """What brokers write into their logs: that something should not be."""

    def __init__(self, world: BrokersWorld) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        if world.over:
            return
        words = record.getMessage()
        world.counted(f"broker says {words.partition(' ')[0]}")
        world.record(0, "broker", 0, words)
        if record.exc_info and record.exc_info[1] is not None:
            world.violated(Violation(NoCrash.promise, f"{words}: {record.exc_info[1]!r}"))
