"""What the script has people ask, and what it does to brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import zab
from harness.faults import Depart, Op
from harness.worlds.cores.controller.workload import ControllerWorkload as CoreWorkload
from harness.worlds.stack.controller.broker import Broker, Life
from harness.worlds.stack.controller.session import StoreClient
from harness.worlds.stack.store.world import StoreWorkload
from kraft_controller.core.store_requests import StoreRequests
from kraft_controller.runtime.store_session import StoreSession

if TYPE_CHECKING:
    from harness.worlds.stack.controller.world import ControllerWorld

PERSON: Final = 900
SESSION_MS: Final = 4_000


class ControllerWorkload(StoreWorkload, CoreWorkload):
    def __init__(self, world: ControllerWorld) -> None:
        same: Any = world
        super().__init__(same)
        self._stack = world
        self._at_desk = StoreClient(world, PERSON)
        self._people: zab.Session | None = None

    def perform(self, op: Op, _: object) -> None:
        if isinstance(op, Depart):
            self._depart(op)
        else:
            super().perform(op, _)

    # -- people ------------------------------------------------------------------------------------------

    def _ask(self, work: Any) -> None:
        """Once: who is told that it is not known what became of it does not try again."""
        if self._at_desk.alive is None:
            same: Any = self._at_desk
            self.clients[PERSON] = same
            self._at_desk.begin(SESSION_MS)
        self._stack.beside(self._do, self._at_desk.alive, work)

    @staticmethod
    async def _do(session: zab.Session, work: StoreRequests[Any]) -> None:
        try:
            await StoreSession(session).run(work)
        except zab.ZabError:
            pass

    # -- brokers -----------------------------------------------------------------------------------------

    def _depart(self, op: Depart) -> None:
        same: Any = self._who(op)
        broker: Broker | None = same
        if broker is not None and broker.now is not None:
            self._stack.beside(self._say_farewell, broker, broker.now, op.down_ms)

    async def _say_farewell(self, broker: Broker, life: Life, down_ms: int) -> None:
        await life.leave()
        if broker.now is life:
            broker.end()
            same: Any = broker
            self._stack.start_later(same, down_ms)
