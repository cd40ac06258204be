"""A broker: what outlives its process, and the process. All that runs in that is as it is shipped.

A life that is dead does nothing any more, at one instant: its streams are broken, its disk is taken away from it, and
only then are its tasks cancelled. What they write in their end they write to nobody's disk.
"""

from __future__ import annotations

import copy
import errno
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

import zab
from harness.checkers.ghost import Violation
from harness.checkers.service import NoCrash
from harness.worlds.cores.partitions.disk import CALLS
from harness.worlds.disks import log_disk
from harness.worlds.stack.brokers.sockets import PROCESS
from harness.worlds.stack.controller.broker import EARS_FROM, PAUSE_S, Ear
from harness.worlds.stack.controller.broker import Broker as Facade
from harness.worlds.stack.controller.observed_controller import Candidate
from harness.worlds.stack.network import Net, Party
from harness.worlds.stack.scheduler import WHOSE
from harness.worlds.stack.store.client import ClientPlace
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.controller import Pace
from kraft_controller.runtime.shutdown_request import ShutdownSettings
from replica.core.groups.group_settings import GroupSettings
from replica.core.partitions.log_config import LogConfig
from replica.core.replica_settings import ReplicaSettings as ReplicationSettings
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.runtime.broker import Broker as Program
from replica.runtime.configuration.broker_config import (
    CONTROLLER,
    PLAINTEXT,
    BrokerConfig,
    Listener,
    OffsetsTopicSettings,
    TransactionsTopicSettings,
)
from replica.storage.files import StorageFailure

if TYPE_CHECKING:
    from harness.worlds.stack.brokers.world import BrokersWorld

DATA_FROM: Final = 3_000
PORT: Final = 9_092
NEVER: Final = 2**63 - 1
ORDERS_PORT: Final = 9_093
PACE: Final = Pace(balance_s=1.0, pause_s=0.05, pause_s_max=0.4)


def host_of(broker: int) -> str:
    return f"b{broker}"


def ear_of(broker: int) -> str:
    return f"e{broker}"


class Life:
    """One process."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.world = broker.brokers_world
        self.number = broker.life
        self.scope = trio.CancelScope()
        self.ear, self.data = Ear(broker.id), Ear(broker.id)
        self.data.id = -(DATA_FROM + broker.id)
        self.killed = self.ending = False
        self.program: Program | None = None

    @property
    def net(self) -> Net:
        return self.world.network

    def party(self, host: str) -> Party:
        """Orders and what is asked of controllers come from its ear, all else from where its clients find it."""
        return self.ear if host.startswith("e") else self.data

    @property
    def candidate(self) -> Candidate | None:
        membership = None if self.program is None else self.program.parts.membership
        controller: Any = None if membership is None or membership.session() is None else membership.controller
        return None if controller is None else Candidate(self.world, controller)

    def _open(self) -> AbstractAsyncContextManager[zab.Session]:
        return self.broker.store_client.opened(self.world.session_ms, lambda: self.killed or self.world.over)

    async def run(self) -> None:
        """A store that cannot be reached at the start ends it: then somebody starts it again."""
        PROCESS.set(self)
        while True:
            self.program = Program(self.broker.config(), self._open)
            try:
                await self.program.run()
            except* zab.ZabError:
                pass
            await trio.sleep(PAUSE_S)

    async def leave(self) -> None:
        if self.program is not None and self.program.started.is_set():
            PROCESS.set(self)
            WHOSE.set(self.broker)
            await self.program.leave()


class Broker(Facade):
    def __init__(self, world: BrokersWorld, number: int, folder: Path) -> None:
        super().__init__(world, number)
        self.brokers_world = world
        self.files = log_disk()
        self._breaks = False
        """Its disk fails, or has failed: it may end of that."""
        self._folder = folder / f"broker{number}"
        world.network.places[ear_of(number)] = -(EARS_FROM + number)
        world.network.places[host_of(number)] = self.place

    @property
    def place(self) -> int:
        return -(DATA_FROM + self.id)

    @property
    def program(self) -> Program | None:
        life: Any = self.now
        return None if life is None else life.program

    @property
    def directory(self) -> str:
        return str(self._folder)

    def config(self) -> BrokerConfig:
        replication = self.brokers_world.replication
        return BrokerConfig(
            BrokerId(self.id),
            (self._folder,),
            listeners=(Listener(PLAINTEXT, host_of(self.id), PORT),),
            controller=Listener(CONTROLLER, ear_of(self.id), ORDERS_PORT),
            session_timeout_ms=self.brokers_world.session_ms,
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
            offsets=OffsetsTopicSettings(2, min(3, self.brokers_world.script.brokers)),
            transactions_topic=TransactionsTopicSettings(2, min(3, self.brokers_world.script.brokers), 2),
            transactions=TransactionSettings(abort_check_ms=200, write_ms=1_000, again_ms=100),
            groups=GroupSettings(group_initial_rebalance_delay_ms=0),
            leaving=ShutdownSettings(tries=5, pause_s=0.03, answer_s=0.3),
            pace=PACE,
        )

    async def _live(self) -> None:
        WHOSE.set(self)
        while True:
            while not self._wanted:
                await self._bell.wait()
            self._wanted = False
            self.life += 1
            self.store_client.come_back()
            life: Any = Life(self)
            self.now = life
            try:
                with life.scope:
                    await life.run()
            except Exception as error:
                if not life.killed and not (self._breaks and _of_disks(error)):
                    self.world.violated(Violation(NoCrash.promise, f"broker {self.id} fell over {error!r}"))
            self._take_away(life)

    def _take_away(self, life: Any) -> None:
        if not life.ear.dead:
            life.data.dead = True
            self.files = copy.deepcopy(self.files)
            self._renew()
            self.world.network.crashed(life.data)
        super()._take_away(life)

    def lose_disk(self) -> None:
        """Its process is gone, and all that there was for it."""
        self.die()
        self.files = log_disk()
        self.brokers_world.lost(self)

    def break_disk(self, error: str, nth: int) -> None:
        """The nth call of a kind fails from now on, and every one after it. A broker that has no other disk ends."""
        self._breaks = True
        self.files.fail(CALLS[error], nth - 1, errno.ENOSPC if error == "full" else errno.EIO)

    def mend(self) -> None:
        """If it has failed, its process is of no use any more, whether or not it has noticed."""
        self.files.forgive()
        if self.files.errors.failed is not None:
            self.die()
            self.files.kill()
        self._breaks = False

    def lose_power(self, loss: str) -> None:
        """As if killed, and of what was not synced nothing is left, or a part.

        Where records become durable only by and by, nothing is lost: what all have in their caches may be gone with
        them, and nobody could tell that from a mistake.
        """
        self.die()
        if loss != "keep" and self.brokers_world.replication.durability != "cache":
            self.files.crash(self.random.randrange if loss == "tear" else None)
            self.files.forgive()

    def _renew(self) -> None:
        """The next process finds what this one has written, and calls that succeed."""
        self.files.kill()
        self.files.forgive()

    # -- what happens to it ------------------------------------------------------------------------------

    def pause(self) -> bool:
        paused = super().pause()
        if paused:
            self.world.network.stand_still(self.place)
        return paused

    def go_on(self) -> None:
        if self.paused:
            self.world.network.go_on(self.place)
        super().go_on()


def _of_disks(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return all(map(_of_disks, error.exceptions))
    return isinstance(error, StorageFailure)


class Person(ClientPlace):
    """Where a client of brokers stands in the network."""

    def __init__(self, world: BrokersWorld, number: int) -> None:
        super().__init__(number)
        self._world = world

    @property
    def net(self) -> Net:
        return self._world.network

    def party(self, host: str) -> Party:
        return self
