"""A broker as shipped, and its disk, which outlives its process.

When a process ends, its disk is copied before its tasks are cancelled. Writes of those tasks go to the old disk, which
is not used any more.
"""

from __future__ import annotations

import copy
import errno
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import trio
from attrs import evolve

import zab
from harness.faults import Replication
from harness.worlds.cores.partitions.disk import CALLS
from harness.worlds.stack.brokers.environment import PROCESS
from harness.worlds.stack.controller.process import (
    CONTROL_FROM,
    PAUSE_S,
    BrokerProcess,
    host_of,
)
from harness.worlds.stack.controller.session import Candidate
from harness.worlds.stack.scheduler import OWNER
from harness.worlds.stack.store.client import ClientPlace
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.controller import Pace
from kraft_controller.runtime.shutdown_request import ShutdownSettings
from replica.core.groups.group_settings import GroupSettings
from replica.core.partitions.log_config import LogConfig
from replica.core.replica_settings import ReplicaSettings as ReplicationSettings
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.runtime.broker import Broker as Program
from replica.runtime.configuration import broker_config
from replica.runtime.environment import Environment
from replica.storage.files import StorageFailure
from replica.storage.memory_directory import memory_directory
from zab.net.memory_network import MemoryNetwork, StreamOwner

DATA_FROM: Final = 3_000
PORT: Final = 9_092
NEVER: Final = 2**63 - 1
CONTROL_PORT: Final = 9_093
PACE: Final = Pace(balance_s=1.0, pause_s=0.05, pause_s_max=0.4)


def control_host_of(broker: int) -> str:
    return f"e{broker}"


class Life:
    """One process of a broker, from its start to its end."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.world = broker.world
        self.net: MemoryNetwork = broker.world.network
        self.scope = trio.CancelScope()
        self.control, self.data = ClientPlace(CONTROL_FROM + broker.id), ClientPlace(DATA_FROM + broker.id)
        self.killed = self.ending = False
        self.program: Program | None = None

    def party(self, host: str) -> StreamOwner:
        """Return the control place for commands and requests to controllers, and the data place for all other hosts."""
        return self.control if host.startswith("e") else self.data

    @property
    def candidate(self) -> Candidate | None:
        membership = None if self.program is None else self.program.parts.membership
        controller: Any = None if membership is None or membership.session() is None else membership.controller
        return None if controller is None else Candidate(self.world, controller)

    def _open(self) -> AbstractAsyncContextManager[zab.Session]:
        return self.broker.store_client.opened(self.world.session_ms, lambda: self.killed or self.world.over)

    async def run(self) -> None:
        """Run the broker. Restart it if it ends because the store cannot be reached at the start."""
        PROCESS.set(self)
        while True:
            self.program = Program(self.broker.config(), self._open, self.broker.environment)
            try:
                await self.program.run()
            except* zab.ZabError:
                pass
            await trio.sleep(PAUSE_S)

    async def leave(self) -> None:
        if self.program is not None and self.program.started.is_set():
            PROCESS.set(self)
            OWNER.set(self.broker)
            await self.program.leave()


class Broker(BrokerProcess):
    def __init__(
        self, world: Any, number: int, folder: Path, replication: Replication, environment: Environment
    ) -> None:
        super().__init__(world, number)
        self.files = memory_directory()
        self.environment = evolve(environment, open_directory=lambda path: self.files)
        self._breaks = False
        """True while its disk fails or has failed. The broker may end because of that."""
        self._folder = folder / f"broker{number}"
        self._replication = replication
        self._brokers = world.script.brokers
        world.network.places[control_host_of(number)] = -(CONTROL_FROM + number)
        world.network.places[host_of(number)] = self.place

    def make_life(self) -> Life:
        return Life(self)

    @property
    def place(self) -> int:
        """Return the place at which clients and other brokers connect."""
        return -(DATA_FROM + self.id)

    @property
    def places(self) -> tuple[int, ...]:
        return self.place, *super().places

    @property
    def program(self) -> Program | None:
        return self.now.program if isinstance(self.now, Life) else None

    def config(self) -> broker_config.BrokerConfig:
        replication = self._replication
        return broker_config.BrokerConfig(
            BrokerId(self.id),
            (self._folder,),
            listeners=(broker_config.Listener(broker_config.PLAINTEXT, host_of(self.id), PORT),),
            controller=broker_config.Listener(broker_config.CONTROLLER, control_host_of(self.id), CONTROL_PORT),
            session_timeout_ms=self.world.session_ms,
            auto_create=False,
            log=LogConfig(
                min_insync_replicas=replication.in_sync,
                flush_messages=1 if replication.durability == "each" else NEVER,
            ),
            replication=ReplicationSettings(
                min_insync=replication.in_sync,
                lag_time_max_ms=replication.lag_ms,
                fetch_wait_ms=50,
                sync_writes=replication.durability == "before",
            ),
            offsets=broker_config.OffsetsTopicSettings(2, min(3, self._brokers)),
            transactions_topic=broker_config.TransactionsTopicSettings(2, min(3, self._brokers), 2),
            transactions=TransactionSettings(abort_check_ms=200, write_ms=1_000, again_ms=100),
            groups=GroupSettings(group_initial_rebalance_delay_ms=0),
            leaving=ShutdownSettings(tries=5, pause_s=0.03, answer_s=0.3),
            pace=PACE,
        )

    def excuses(self, error: Exception) -> bool:
        return self._breaks and _of_disks(error)

    def lost(self, life: Any) -> None:
        assert isinstance(life, Life)
        life.data.dead = True
        self.files = copy.deepcopy(self.files)
        self._renew()
        self.world.network.crashed(life.data)

    # -- faults ----------------------------------------------------------------------------------------

    def lose_disk(self) -> None:
        """Kill the broker, and empty its disk."""
        self.die()
        self.files = memory_directory()

    def break_disk(self, error: str, nth: int) -> None:
        """Fail the nth call of a kind and all later ones. A broker without another disk ends because of that."""
        self._breaks = True
        self.files.fail(CALLS[error], nth - 1, errno.ENOSPC if error == "full" else errno.EIO)

    def mend(self) -> None:
        """End the fault of the disk. If a call has failed, kill the process: it does not use the disk again."""
        self.files.forgive()
        if self.files.errors.failed is not None:
            self.die()
            self.files.kill()
        self._breaks = False

    def lose_power(self, loss: str) -> None:
        """Kill the broker, and lose all writes that were not synced, or a part of them.

        Brokers with the durability `cache` lose nothing: if all of them lost unsynced writes together, acknowledged
        records would be lost without a bug.
        """
        self.die()
        if loss != "keep" and self._replication.durability != "cache":
            self.files.crash(self.random.randrange if loss == "tear" else None)
            self.files.forgive()

    def _renew(self) -> None:
        """Keep what this process has written, and end the faults, for the next process."""
        self.files.kill()
        self.files.forgive()


def _of_disks(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return all(map(_of_disks, error.exceptions))
    return isinstance(error, StorageFailure)
