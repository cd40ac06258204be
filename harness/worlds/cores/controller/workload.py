"""What the script has people ask, and what it does to brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from harness.faults import (
    Balance,
    BounceBroker,
    CancelMove,
    CreateTopic,
    DeleteTopic,
    Depart,
    ElectPreferred,
    GrowTopic,
    KillBroker,
    LoseController,
    LoseStore,
    Op,
    PauseBroker,
    Reassign,
    Resign,
)
from harness.worlds.controller import administration
from harness.worlds.cores.controller.nodes import Job, NodesClient
from harness.worlds.cores.store.workload import StoreWorkload
from kraft_controller.core import controller_events as events
from kraft_controller.core.controlled_shutdown import ControlledShutdown, shutdown_granted, shutdown_refused
from kraft_controller.core.event_queue import NotController
from kraft_controller.core.store_requests import Delete, Multi, StoreRequests
from kraft_controller.wire import znodes

if TYPE_CHECKING:
    from harness.worlds.cores.controller.broker import Broker
    from harness.worlds.cores.controller.world import ControllerWorld

FAREWELLS_MAX: Final = 5
"""So often a broker asks to be let go, before it goes."""
FAREWELL_US: Final = 30_000


class ControllerWorkload(StoreWorkload):
    def __init__(self, world: ControllerWorld) -> None:
        super().__init__(world)
        self.world = world
        self._person: NodesClient | None = None

    def perform(self, op: Op, _: object) -> None:
        act = self._OPS.get(type(op))
        if act is None:
            super().perform(op, _)
        else:
            act(self, op)

    # -- people ------------------------------------------------------------------------------------------

    def _ask(self, work: Any) -> None:
        """Once: who is told that it is not known what became of it does not try again."""
        if self._person is None:
            self._person = self.world.new_client(lambda path: None, lambda state: None)
        Job(self._person, self._later, work, lambda _: None, self._fell)

    def _later(self, wait_us: int, act: Callable[[], None]) -> None:
        self.world.push(self.world.now + wait_us, lambda *_: act(), None, None)

    @staticmethod
    def _fell(error: Exception) -> None:
        raise error

    def _create(self, op: CreateTopic) -> None:
        self._ask(administration.create_topic(op, self.world.script.brokers, self.world.new_id()))

    def _grow(self, op: GrowTopic) -> None:
        self._ask(administration.grow_topic(op))

    def _delete(self, op: DeleteTopic) -> None:
        self._ask(administration.delete_topic(op))

    def _reassign(self, op: Reassign) -> None:
        if op.way == "node":
            self._ask(administration.reassign(op, self.world.script.brokers))
        else:
            where = administration.where_of(op.topic, op.partition)
            self._call(
                events.AlterReassignmentsRequested({where: administration.wanted_by(op, self.world.script.brokers)})
            )

    def _cancel(self, op: CancelMove) -> None:
        self._call(events.AlterReassignmentsRequested({administration.where_of(op.topic, op.partition): None}))

    def _elect(self, op: ElectPreferred) -> None:
        if op.way == "node":
            self._ask(administration.elect_preferred(op))
        else:
            self._call(events.ElectLeadersRequested((administration.where_of(op.topic, op.partition),)))

    def _balance(self, _: Balance) -> None:
        controller = self.world.controller()
        if controller is not None and controller.candidate is not None:
            controller.candidate.note(events.AutoPreferredElection())

    def _call(self, event: events.Event, told: Callable[[Any], None] = lambda result: None) -> None:
        controller = self.world.controller()
        if controller is None or controller.candidate is None or controller.paused:
            told(None)
        else:
            controller.candidate.ask(event, told)

    def _resign(self, _: Resign) -> None:
        controller = self.world.controller()
        if controller is not None and controller.candidate is not None and not controller.paused:
            self._hit(Resign(0))
            if controller.random.random() < 0.5:
                controller.candidate.fail_term()
            else:
                self._ask(_remove_controller())

    # -- brokers -----------------------------------------------------------------------------------------

    def _who(self, op: Any) -> Broker | None:
        """A number beyond the last begins again at the first."""
        if op.broker:
            found: Broker | None = self.world.brokers[(op.broker - 1) % self.world.script.brokers + 1]
        else:
            found = self.world.controller()
        if found is None or not found.up:
            return None
        self._hit(op)
        return found

    def _hit(self, op: Any) -> None:
        kind = type(op).__name__
        self.world.counted(f"hit {kind}")
        lasts_ms = getattr(op, "for_ms", 0) + getattr(op, "down_ms", 0)
        self.world.availability.struck_beside(kind, self._phase(), lasts_ms)

    def _phase(self) -> str:
        """How brokers were when something struck them."""
        return "no controller" if self.world.controller() is None else "under a controller"

    def _kill(self, op: KillBroker) -> None:
        if (broker := self._who(op)) is not None:
            broker.die()
            self.world.start_later(broker, op.down_ms)

    def _bounce(self, op: BounceBroker) -> None:
        if (broker := self._who(op)) is not None:
            broker.end()
            self.world.start_later(broker, 1)

    def _depart(self, op: Depart) -> None:
        if (broker := self._who(op)) is not None:
            self._ask_to_leave(broker, broker.life, op, ControlledShutdown(broker.id, FAREWELLS_MAX))

    def _ask_to_leave(self, broker: Broker, life: int, op: Depart, shutdown: ControlledShutdown) -> None:
        if not broker.up or broker.life != life:
            return
        request = shutdown.request(broker.epoch)

        def told(remaining: Any) -> None:
            refused = remaining is None
            answer = shutdown_refused(request, NotController()) if refused else shutdown_granted(request, remaining)
            shutdown.replied(answer)
            if shutdown.finished:
                broker.later(0, gone)
            else:
                broker.later(FAREWELL_US, lambda: self._ask_to_leave(broker, life, op, shutdown))

        def gone() -> None:
            broker.end()
            self.world.start_later(broker, op.down_ms)

        self._call(events.ControlledShutdownRequested(request.broker, request.epoch), told)

    def _pause(self, op: PauseBroker) -> None:
        broker = self._who(op)
        if broker is not None and broker.pause():
            self.world.push_fault_end(self.world.now + op.for_ms * 1_000, self._go_on, broker, broker.life)

    @staticmethod
    def _go_on(broker: Broker, life: int) -> None:
        if broker.life == life:
            broker.go_on()

    def _lose_store(self, op: LoseStore) -> None:
        broker = self._who(op)
        if broker is not None and broker.lose_store():
            self.world.push_fault_end(self.world.now + op.for_ms * 1_000, self._find_store, broker, broker.life)

    @staticmethod
    def _find_store(broker: Broker, life: int) -> None:
        if broker.life == life:
            broker.find_store()

    def _lose_controller(self, op: LoseController) -> None:
        broker = self._who(op)
        if broker is not None and not broker.unheard:
            broker.unheard = True
            self.world.push_fault_end(self.world.now + op.for_ms * 1_000, self._find_controller, broker, None)

    @staticmethod
    def _find_controller(broker: Broker, _: None) -> None:
        broker.unheard = False

    _OPS: Final[dict[type, Callable[[Any, Any], None]]] = {
        CreateTopic: _create,
        GrowTopic: _grow,
        DeleteTopic: _delete,
        Reassign: _reassign,
        CancelMove: _cancel,
        ElectPreferred: _elect,
        Balance: _balance,
        Resign: _resign,
        KillBroker: _kill,
        BounceBroker: _bounce,
        Depart: _depart,
        PauseBroker: _pause,
        LoseStore: _lose_store,
        LoseController: _lose_controller,
    }


def _remove_controller() -> StoreRequests[None]:
    """Delete `/controller` by hand: its owner may write until it notices."""
    yield [Multi((Delete(znodes.CONTROLLER),))]
