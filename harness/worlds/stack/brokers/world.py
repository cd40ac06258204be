"""A simulated cluster of brokers and store servers, all as shipped, with its workload, faults and liveness check."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

from attrs import evolve

from harness import faults
from harness.checkers import ALL, Checker
from harness.checkers.oracle_state import Violation
from harness.checkers.service import NoCrash
from harness.faults import Op, Script
from harness.outcome import Outcome
from harness.recoveries import of_brokers
from harness.worlds.brokers.consumer import look_up_positions, read_all
from harness.worlds.brokers.recorder import Recorder
from harness.worlds.brokers.verdict import Loss, partitions_with_losses, with_records, with_transactions
from harness.worlds.brokers.workload import LAST, BrokerClients
from harness.worlds.controller.settled import ROUNDS_MS, end_broker_faults
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.stack.brokers.broker import DATA_FROM, PORT, Broker
from harness.worlds.stack.brokers.environment import PROCESS, Threads, arranged, use_sockets
from harness.worlds.stack.controller.process import CONTROL_FROM, host_of
from harness.worlds.stack.controller.world import ControllerWorkload, ControllerWorld
from harness.worlds.stack.simulation import redirected_log
from harness.worlds.stack.store.client import ClientPlace
from harness.worlds.stack.store.world import StoreLiveness, StoreWorld
from replica.runtime.environment import Environment
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import ClientSettings
from zab.net.memory_network import MemoryNetwork, StreamOwner

CLIENTS_FROM: Final = 4_000
"""The first place of broker clients in the network."""
REQUEST_S: Final = 1.0
PATIENCE_S: Final = 10.0
SETTINGS: Final = ClientSettings(client_id="zab-harness", request_s=REQUEST_S, patience_s=PATIENCE_S)
Way = tuple[int, int]


class BrokerClientPlace(ClientPlace):
    """The place of a client of brokers in the network."""

    def __init__(self, net: MemoryNetwork, number: int) -> None:
        super().__init__(number)
        self.net = net

    def party(self, host: str) -> StreamOwner:
        return self


class BrokersWorkload(ControllerWorkload):
    """Performs the operations and the faults of brokers."""

    def __init__(self, world: BrokersWorld) -> None:
        super().__init__(world)
        self._places = count(CLIENTS_FROM)
        self.broker_clients = BrokerClients(self, world.records, world.script, PATIENCE_S)

    def perform(self, op: Op, _: object) -> None:
        if not self.broker_clients.perform(op):
            super().perform(op, _)

    def new_client(self) -> Client:
        brokers = range(1, self.world.script.brokers + 1)
        return Client([(host_of(broker), PORT) for broker in brokers], SETTINGS)

    def start(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act` in a task with a place of its own in the network."""
        place = BrokerClientPlace(self.world.network, next(self._places))
        self.world.spawn(self._run_at, place, act)

    @staticmethod
    async def _run_at(place: BrokerClientPlace, act: Callable[[], Awaitable[None]]) -> None:
        PROCESS.set(place)
        await act()

    # -- faults of processes and disks -----------------------------------------------------------------

    def _lose_power(self, op: faults.LosePower) -> None:
        if (broker := self._target(op)) is not None:
            broker.lose_power(op.loss)
            self.world.start_later(broker, op.down_ms)

    def _wipe(self, op: faults.WipeBroker) -> None:
        if (broker := self._target(op)) is not None:
            world = self.world
            broker.lose_disk()
            world.losses.append(Loss(world.ghost.canon[-1], broker.id))
            world.start_later(broker, op.down_ms)

    def _break_disk(self, op: faults.BreakDisk) -> None:
        if (broker := self._target(op)) is not None:
            broker.break_disk(op.error, op.nth)
            self._undo(op.down_ms, partial(self._mend, broker))

    def _mend(self, broker: Broker) -> None:
        broker.mend()
        if not broker.up:
            self.world.start_later(broker, 1)

    # -- faults of the network -------------------------------------------------------------------------

    def _shut(self, ways: list[Way], for_ms: int) -> None:
        for way in ways:
            self.world.network.block(*way)
        self._undo(for_ms, partial(self._open, ways))

    def _open(self, ways: list[Way]) -> None:
        for way in ways:
            self.world.network.unblock(*way)

    def _cut(self, op: faults.CutBroker) -> None:
        """Cut a broker off from all other brokers and from all clients so far."""
        if (broker := self._target(op)) is not None:
            known = range(CLIENTS_FROM, next(self._places))
            others = [-each for each in known] + [each.place for each in self.world.brokers.values()]
            self._shut(_both(broker.place, others), op.for_ms)

    def _part(self, op: faults.PartBrokers) -> None:
        world = self.world
        one, other = ((number - 1) % world.script.brokers + 1 for number in (op.broker, op.other))
        if one != other:
            self._hit(op)
            ways = [way for base in (DATA_FROM, CONTROL_FROM) for way in _both(-(base + one), [-(base + other)])]
            self._shut(ways, op.for_ms)

    def _delete(self, _: faults.DeleteTopic) -> None:
        """Do not delete the topic: a topic of the same name would reuse its offsets, which would hide losses."""
        self.world.counted("topic not deleted")

    def _ignore(self, _: faults.Replication) -> None:
        """Do nothing: the brokers were configured before the run."""

    PERFORM: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **ControllerWorkload.PERFORM,
        faults.LosePower: _lose_power,
        faults.Blackout: ControllerWorkload._blackout,
        faults.WipeBroker: _wipe,
        faults.BreakDisk: _break_disk,
        faults.CutBroker: _cut,
        faults.PartBrokers: _part,
        faults.Replication: _ignore,
    }


def _both(one: int, others: list[int]) -> list[Way]:
    return [way for other in others if other != one for way in ((one, other), (other, one))]


class BrokersLiveness(StoreLiveness):
    """Waits after the last fault until the store has settled, all brokers serve, and all replicas are in sync.

    Then it writes one value to each partition, and reads every partition from beginning to end.
    """

    def __init__(self, world: BrokersWorld) -> None:
        super().__init__(world)
        self._waits_for = ["brokers"]
        self._reading = False
        self.bound_ms += 2 * ROUNDS_MS + 8 * world.session_ms + int(3_000 * PATIENCE_S)

    def begin(self) -> None:
        for broker in self.world.brokers.values():
            broker.mend()
        end_broker_faults(self.world)
        super().begin()

    def _unequal(self, leader: CoreServer) -> str | None:
        missing = super()._unequal(leader) or self._out_of_sync()
        if missing is not None:
            return missing
        world = self.world
        if not self._reading:
            self._reading = True
            world.records.settled()
            world.workload.start(self._read)
        return None if world.records.complete and self._waits_for == ["nothing"] else self._waits_for[0]

    def _out_of_sync(self) -> str | None:
        """Return a broker that is not ready or lacks metadata, or a partition that is not in sync."""
        brokers = self.world.brokers
        for broker in brokers.values():
            program = broker.program
            parts = None if program is None or not program.started.is_set() else program.parts
            if not broker.up or parts is None or parts.membership.session() is None:
                return f"broker {broker.id} does not serve"
            if len(parts.metadata_cache.brokers) != len(brokers):
                return f"broker {broker.id} has only brokers {sorted(parts.metadata_cache.brokers)} in its metadata"
            if parts.membership.acting_controller() not in brokers:
                return f"broker {broker.id} has no controller"
            for topic in parts.metadata_cache.topics.values():
                for number, role in topic.partitions.items():
                    if role.state.leader not in brokers or set(role.state.isr) != set(role.assignment.target):
                        return f"broker {broker.id} has {topic.name}-{number} in the state {role.state}"
        return None

    async def _read(self) -> None:
        world, waits_for = self.world, self._waits_for
        clients = world.workload.broker_clients
        client, partitions = world.workload.new_client(), list(clients.written)
        await clients.write_last(partitions, waits_for)
        await read_all(world.records, client, partitions, LAST + len(partitions), waits_for)
        await look_up_positions(clients.consumers.values(), waits_for)
        await clients.read_committed(client, waits_for)
        waits_for[0] = "nothing"


class BrokersWorld(ControllerWorld):
    workload_type: ClassVar[Any] = BrokersWorkload
    liveness_type: ClassVar[Any] = BrokersLiveness

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.records = Recorder(lambda: self.now, self.saw)
        self.losses: list[Loss] = []
        self.replication = next((op for op in script.ops if isinstance(op, faults.Replication)), faults.Replication(0))
        self._folder = tempfile.TemporaryDirectory(prefix="zab-brokers-")
        timing = script.timing
        self._machine_random = Random(f"{script.seed}/machine")
        """Shared by the threads of all brokers and by `os.urandom`."""
        threads = Threads(self._machine_random, (timing.fsync_us_min, timing.fsync_us_max))
        self._environment = Environment(threads.run, draw=Random(f"{script.seed}/jitter").random)
        """The environment of all brokers, except for their disks."""
        super().__init__(script, trace=trace, checkers=checkers)

    def make_broker(self, number: int) -> Broker:
        return Broker(self, number, Path(self._folder.name), self.replication, self._environment)

    def run(self) -> Outcome:
        with (
            self._folder,
            redirected_log("replica", logging.INFO, self._broker_logged),
            arranged(self._machine_random),
        ):
            return super().run()

    async def _main(self) -> None:
        use_sockets()
        await super()._main()

    def _broker_logged(self, record: logging.LogRecord) -> None:
        """Count the log records of brokers, and report exceptions in them."""
        if self.over:
            return
        words = record.getMessage()
        self.counted(f"broker logs {words.partition(' ')[0]}")
        self.record(0, "broker", 0, words)
        if record.exc_info and record.exc_info[1] is not None:
            self.violated(Violation(NoCrash.invariant, f"a broker logs {words}: {record.exc_info[1]!r}"))

    def outcome(self) -> Outcome:
        """Judge the history of the store's clients, and then that of the brokers' clients."""
        made = StoreWorld.outcome(self)
        assert made.history is not None
        gone = partitions_with_losses(made.history, self.losses)
        made = with_records(made, self.records, gone)
        if not gone:
            made = with_transactions(made, self.workload.broker_clients.journal)
        brokers = of_brokers(
            self.availability.broker_hits, self.records.acknowledged_at(), self.liveness.began or self.now
        )
        return evolve(made, recoveries=(*made.recoveries, *brokers))
