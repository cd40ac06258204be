"""After the last fault: the store as always, brokers that all serve, and partitions in sync with all their replicas.

Then something is written to each of them, and everything is read from beginning to end.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from harness.checkers.records.history import ALL
from harness.checkers.transactions import Read
from harness.worlds.brokers.consumer import PAUSE_S
from harness.worlds.brokers.reader import insist, look_at_all, read_all
from harness.worlds.brokers.transactions import CommittedReader
from harness.worlds.controller.ruling import unhinder
from harness.worlds.controller.settling import ROUNDS_MS
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.stack.brokers.workload import PATIENCE_S
from harness.worlds.stack.store.liveness import StoreLiveness
from replica.runtime.network.broker_client import Client

if TYPE_CHECKING:
    from harness.worlds.stack.brokers.world import BrokersWorld

LAST = 9_000


class BrokersLiveness(StoreLiveness):
    def __init__(self, world: BrokersWorld) -> None:
        super().__init__(world)
        self._world_of_brokers = world
        self._waits_for = ["brokers"]
        self._reading = False
        self.bound_ms += 2 * ROUNDS_MS + 8 * world.session_ms + int(3_000 * PATIENCE_S)

    def begin(self) -> None:
        world = self._world_of_brokers
        for broker in world.full_brokers():
            broker.mend()
        unhinder(world.full_brokers(), world.start_later)
        super().begin()

    def _unequal(self, leader: CoreServer) -> str | None:
        missing = super()._unequal(leader) or self._apart()
        if missing is not None:
            return missing
        world = self._world_of_brokers
        if not self._reading:
            self._reading = True
            world.records.settled()
            world.workload.person(self._read)
        return None if world.records.complete and self._waits_for == ["nothing"] else self._waits_for[0]

    def _apart(self) -> str | None:
        """As each of them knows it."""
        world = self._world_of_brokers
        brokers = world.full_brokers()
        for broker in brokers:
            program = broker.program
            parts = None if program is None or not program.started.is_set() else program.parts
            if not broker.up or parts is None or parts.membership.session() is None:
                return f"broker {broker.id} does not serve"
            if len(parts.metadata_cache.brokers) != len(brokers):
                return f"broker {broker.id} knows of {sorted(parts.metadata_cache.brokers)}"
            if parts.membership.acting_controller() not in world.brokers:
                return f"broker {broker.id} knows no controller"
            for topic in parts.metadata_cache.topics.values():
                for number, role in topic.partitions.items():
                    if role.state.leader not in world.brokers or set(role.state.isr) != set(role.assignment.target):
                        return f"to broker {broker.id}, {topic.name}-{number} is {role.state}"
        return None

    async def _read(self, client: Client) -> None:
        world = self._world_of_brokers
        workload = world.workload
        partitions = list(workload.written)
        for number, where in enumerate(partitions):
            workload.producer(LAST + number, where, ALL).give(1)
        for producer in workload.producers.values():
            self._waits_for[0] = f"what was sent to {producer.where} is not answered"
            await producer.answered()
        await read_all(world.records, client, partitions, LAST + len(partitions), self._waits_for)
        await look_at_all(workload.consumers.values(), self._waits_for)
        await self._read_committed(client)
        self._waits_for[0] = "nothing"

    async def _read_committed(self, client: Client) -> None:
        """When every transaction has come to its end."""
        workload = self._world_of_brokers.workload
        journal = workload.journal
        for each in workload.transactors.values():
            self._waits_for[0] = f"a transaction of {each.name} has not come to its end"
            await each.rests()
            await each.close()
            if each.positions is not None:
                self._waits_for[0] = f"a transaction may move {each.positions.name}"
                await insist(partial(each.positions.look, stable=True))
        for where in workload.committed:
            self._waits_for[0] = f"a transaction is open in {where}"
            reads: list[Read] = []
            reader = CommittedReader(client, where, reads.append)
            end = await insist(reader.end)
            while reader.position < end:
                if not await reader.poll():
                    await trio.sleep(PAUSE_S)
            journal.final[str(where)] = tuple(seen for read in reads for seen in read.seen)
        journal.complete = True
