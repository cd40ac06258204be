"""The process of a broker, independent of the program that runs in it, and the state that outlives it.

A kill takes effect at one instant: the streams of the process break, and only then are its tasks cancelled. While it is
paused, nothing reaches it or leaves it, and none of its tasks runs.
"""

from __future__ import annotations

from abc import abstractmethod
from random import Random
from typing import Any, Final

from harness.checkers.oracle_state import Violation
from harness.checkers.service import NoCrash
from harness.worlds.stack.controller.session import Candidate, StoreClient
from harness.worlds.stack.scheduler import OWNER
from kraft_controller.core.names import BrokerId
from zab.net.wakeup import Wakeup

CLIENTS_FROM, CONTROL_FROM = 1_000, 2_000
"""The first places of brokers in the network: as clients of the store, and for commands of controllers."""
PAUSE_S: Final = 0.05


def host_of(broker: int) -> str:
    return f"b{broker}"


class BrokerProcess:
    def __init__(self, world: Any, number: int) -> None:
        self.world = world
        self.id = BrokerId(number)
        self.random = Random(f"{world.script.seed}/broker/{number}")
        self.store_client = StoreClient(world, world.recorder, CLIENTS_FROM + number)
        self.life = 0
        self.now: Any | None = None
        self.paused = False
        self._unreachable = self._commands_held = False
        self._wanted = self._begun = False
        self._wakeup = Wakeup()

    @abstractmethod
    def make_life(self) -> Any: ...

    def excuses(self, error: Exception) -> bool:
        """Return whether the process may end with this error."""
        return False

    def lost(self, life: Any) -> None:
        """Clean up further after the end of a process, before its streams break."""

    @property
    def up(self) -> bool:
        return self.now is not None and not self.now.ending

    @property
    def candidate(self) -> Candidate | None:
        return None if self.now is None else self.now.candidate

    @property
    def places(self) -> tuple[int, ...]:
        """Return all its places in the network."""
        return self.store_client.place.id, self._control

    @property
    def _control(self) -> int:
        return -(CONTROL_FROM + self.id)

    # -- its lives -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process unless it runs. If it is about to end, the next one starts after that."""
        if self.up:
            return
        self._wanted = True
        self._wakeup.ring()
        if not self._begun:
            self._begun = True
            self.world.spawn(self._live)

    async def _live(self) -> None:
        OWNER.set(self)
        while True:
            while not self._wanted:
                await self._wakeup.wait()
            self._wanted = False
            self.life += 1
            self.store_client.come_back()
            life = self.now = self.make_life()
            try:
                with life.scope:
                    await life.run()
            except Exception as error:
                if not life.killed and not self.excuses(error):
                    self.world.violated(Violation(NoCrash.invariant, f"broker {self.id} ended with {error!r}"))
            self._tear_down(life)

    def _tear_down(self, life: Any) -> None:
        if not life.control.dead:
            self.lost(life)
            life.control.dead = life.ending = life.killed = True
            self.paused = False
            self.world.freezer.thaw(self)
            for place in (self.store_client.place, life.control):
                self.world.network.crashed(place)
            if self.now is life:
                self.now = None

    def die(self) -> None:
        """Kill the process. Its session expires after its timeout."""
        life = self.now
        if life is not None and not life.killed:
            self.world.record(0, f"broker {self.id}", 0, "is killed")
            self._tear_down(life)
            life.scope.cancel()

    def end(self) -> None:
        """Stop the process in good order: it closes its session if it can."""
        life = self.now
        if life is not None and not life.ending:
            self.world.record(0, f"broker {self.id}", 0, "is stopped")
            life.ending = True
            self.resume()
            life.scope.cancel()

    # -- faults ----------------------------------------------------------------------------------------

    def pause(self) -> bool:
        if not self.up or self.paused:
            return False
        self.paused = True
        for place in self.places:
            self.world.network.pause(place)
        self.world.freezer.freeze(self)
        return True

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            for place in self.places:
                self.world.network.resume(place)
            self.world.freezer.thaw(self)

    def lose_store(self) -> bool:
        return self.up and self.store_client.vanish()

    def find_store(self) -> None:
        self.store_client.come_back()

    @property
    def unreachable(self) -> bool:
        """Return whether a fault holds back its replies to controllers, and perhaps their commands to it."""
        return self._unreachable

    @unreachable.setter
    def unreachable(self, unreachable: bool) -> None:
        if unreachable is self._unreachable:
            return
        self._unreachable = unreachable
        network = self.world.network
        if unreachable:
            self._commands_held = self.random.random() < 0.5
        for other in self.world.brokers:
            if other != self.id:
                shut = network.clog if unreachable else network.unclog
                shut(self._control, -(CONTROL_FROM + other))
                if self._commands_held:
                    shut(-(CONTROL_FROM + other), self._control)
