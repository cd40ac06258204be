"""A run with real brokers on a store of real servers, and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from harness.faults import AllowUnclean, Script, WipeBroker
from harness.history import History
from harness.outcome import Outcome
from harness.worlds.brokers.consumer import look_up_positions, read_all
from harness.worlds.brokers.verdict import Loss, partitions_with_losses, with_records
from harness.worlds.brokers.workload import LAST
from harness.worlds.processes.addresses import Addresses
from harness.worlds.processes.brokers.broker import OFFSETS_PARTITIONS, Broker
from harness.worlds.processes.brokers.fleet import Fleet
from harness.worlds.processes.brokers.nemesis import LEAVE_S, LOST
from harness.worlds.processes.brokers.workload import BrokersWorkload
from harness.worlds.processes.cluster import Options
from harness.worlds.processes.run import LIVENESS, START_S, World
from harness.worlds.processes.server import ServerProcess
from harness.worlds.processes.verdict import WITHOUT_BEGINNING, outcome_of
from kraft_controller.core.names import TopicPartition

STEADY_S: Final = 0.3
DEPARTURES_S: Final = 300.0
"""The time limit for all restarts of brokers in good order, one after the other."""
MEMBERS_S: Final = 60.0
"""The time limit for all members of groups to leave after the script has ended."""


class BrokersWorld(World):
    workload: BrokersWorkload

    def __init__(self, script: Script, folder: Path, addresses: Addresses, options: Options | None = None) -> None:
        super().__init__(script, folder, addresses, options)
        self.fleet = Fleet(self, self._notified)
        self.workload = BrokersWorkload(self.fleet)
        self._stopping = False

    def processes(self) -> list[ServerProcess]:
        return [*self.servers.values(), *self.fleet.brokers.values()]

    def _on_ended(self, server: ServerProcess) -> None:
        if isinstance(server, Broker) and self.healed and not self._stopping:
            self.revive(server)  # it was leaving when the cluster was healed

    def _on_disk_failed(self, server: ServerProcess) -> None:
        if not isinstance(server, Broker):
            super()._on_disk_failed(server)
        elif not server.disk_fails:
            self.excused.discard(server)
            self.revive(server)

    @property
    def bound_s(self) -> float:
        return super().bound_s + 6 * self.fleet.session_ms / 1_000 + 2 * START_S * len(self.fleet.brokers)

    async def _open_proxies(self) -> None:
        await super()._open_proxies()
        await self.fleet.links.open(self._nursery)

    async def _settle(self, waits_for: list[str]) -> None:
        await self.fleet.in_sync(self.workload.broker_clients.partitions(), waits_for)

    async def _begin(self) -> None:
        await super()._begin()
        self.fleet.begin()
        self.options.tell(f"{len(self.fleet.brokers)} brokers start in {self.folder}")
        await self._within(self._settle, self.bound_s)

    async def _play(self) -> None:
        await super()._play()
        nemesis = self.workload.nemesis
        with trio.move_on_after(DEPARTURES_S):
            await self._write_while(lambda: nemesis.departing > 0)
        if nemesis.departing:
            self.violated(LIVENESS, f"{nemesis.departing} restarts of brokers are unfinished after {DEPARTURES_S:g} s")
            await trio.lowlevel.checkpoint()
        with trio.move_on_after(MEMBERS_S):  # the time of a member begins with its first record
            await self._write_while(lambda: any(not member.left.is_set() for member in self.workload.members))

    async def _write_while(self, holds: Callable[[], bool]) -> None:
        while holds():
            for producer in self.workload.broker_clients.producers.values():
                if not producer.open:
                    producer.enqueue(1)
            await trio.sleep(STEADY_S)

    async def _recover(self, waits_for: list[str]) -> None:
        await super()._recover(waits_for)
        await self._settle(waits_for)

    async def _read_back(self, waits_for: list[str]) -> None:
        await super()._read_back(waits_for)
        recorder, workload, clients = self.fleet.recorder, self.workload, self.workload.broker_clients
        recorder.settled()
        partitions = clients.partitions()
        await clients.write_last(partitions, waits_for)
        await workload.dismiss_members(waits_for)
        ends = await read_all(recorder, self.fleet.new_client(), partitions, LAST + len(partitions), waits_for)
        await workload.read_on(ends, waits_for)
        await look_up_positions([*clients.consumers.values(), *workload.group_position_readers()], waits_for)

    async def _details(self) -> str:
        return await self.workload.describe_members()

    async def _stop(self) -> None:
        """Stop the brokers first, while the store runs."""
        self._stopping = True
        await self.fleet.close_clients()
        self.network.heal()
        await self.end_all(list(self.fleet.brokers.values()), LEAVE_S)
        await super()._stop()


# -- the outcome ---------------------------------------------------------------------------------------------


def outcome_of_brokers(world: BrokersWorld) -> Outcome:
    """Judge a run whose servers and brokers have ended."""
    made = outcome_of(world, clients=False)
    assert made.history is not None
    whole = WITHOUT_BEGINNING not in dict(made.counts)
    return with_records(made, world.fleet.recorder, _lossy_partitions(world, made.history, whole=whole))


def _lossy_partitions(world: BrokersWorld, history: History, *, whole: bool) -> list[TopicPartition]:
    """Return the partitions that may have lost records, by the marks in the history of the store."""
    unclean = any(isinstance(op, AllowUnclean) for op in world.script.ops)
    if not whole and (unclean or any(isinstance(op, WipeBroker) for op in world.script.ops)):
        offsets = [TopicPartition("__consumer_offsets", number) for number in range(OFFSETS_PARTITIONS)]
        return [
            *world.workload.broker_clients.partitions(),
            *offsets,
        ]  # the marks may be missing, so any partition may have lost records
    losses = [
        Loss(change.zxid, int(change.data or b"0"))
        for change in history.changes
        if change.kind == "create" and change.path.startswith(LOST)
    ]
    return partitions_with_losses(history, losses) if losses or unclean else []
