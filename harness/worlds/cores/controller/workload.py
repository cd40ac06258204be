"""The operations of a script that operators carry out, and its faults of brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from harness import faults
from harness.budgets import SHUT_DOWN
from harness.worlds.controller import administration
from harness.worlds.cores.controller.broker import Broker
from harness.worlds.cores.controller.nodes import Job, NodesClient
from harness.worlds.cores.controller.simulator import ControllerSimulator
from harness.worlds.cores.store.workload import StoreWorkload
from kraft_controller.core import controller_events as events
from kraft_controller.core.controlled_shutdown import ControlledShutdown, shutdown_granted, shutdown_refused
from kraft_controller.core.event_queue import NotController
from kraft_controller.core.store_requests import Delete, Multi, StoreRequests
from kraft_controller.wire import znodes

SHUTDOWN_REQUESTS_MAX: Final = 5
"""The requests for a controlled shutdown, after which a broker ends without it."""
SHUTDOWN_RETRY_US: Final = 30_000


class ControllerWorkload(StoreWorkload):
    world: ControllerSimulator
    _operator: NodesClient | None = None

    # -- operators ---------------------------------------------------------------------------------------

    def _ask(self, work: Any) -> None:
        """Carry out a procedure of an operator once, even if its outcome remains unknown."""
        if self._operator is None:
            self._operator = self.world.new_client(lambda path: None, lambda state: None)
        Job(self._operator, self._later, work, lambda _: None, self._fail)

    def _later(self, wait_us: int, act: Callable[[], None]) -> None:
        self.world.push(self.world.now + wait_us, lambda *_: act(), None, None)

    @staticmethod
    def _fail(error: Exception) -> None:
        raise error

    def _create(self, op: faults.CreateTopic) -> None:
        self._ask(administration.create_topic(op, self.world.script.brokers, self.world.new_id()))

    def _grow(self, op: faults.GrowTopic) -> None:
        self._ask(administration.grow_topic(op))

    def _delete(self, op: faults.DeleteTopic) -> None:
        self._ask(administration.delete_topic(op))

    def _reassign(self, op: faults.Reassign) -> None:
        if op.way == "node":
            self._ask(administration.reassign(op, self.world.script.brokers))
        else:
            where = administration.where_of(op.topic, op.partition)
            self._call(
                events.AlterReassignmentsRequested({where: administration.wanted_by(op, self.world.script.brokers)})
            )

    def _cancel(self, op: faults.CancelMove) -> None:
        self._call(events.AlterReassignmentsRequested({administration.where_of(op.topic, op.partition): None}))

    def _elect(self, op: faults.ElectPreferred) -> None:
        if op.way == "node":
            self._ask(administration.elect_preferred(op))
        else:
            self._call(events.ElectLeadersRequested((administration.where_of(op.topic, op.partition),)))

    def _balance(self, _: faults.Balance) -> None:
        controller = self.world.controller()
        if controller is not None and controller.candidate is not None:
            controller.candidate.note(events.AutoPreferredElection())

    def _call(self, event: events.Event, on_reply: Callable[[Any], None] = lambda result: None) -> None:
        """Send a request to the controller. `on_reply` receives the reply, or None after a refusal or without one."""
        controller = self.world.controller()
        if controller is None or controller.candidate is None or controller.paused:
            on_reply(None)
        else:
            controller.candidate.ask(event, on_reply)

    def _resign(self, _: faults.Resign) -> None:
        controller = self.world.controller()
        if controller is not None and controller.candidate is not None and not controller.paused:
            self._hit(faults.Resign(0))
            if controller.random.random() < 0.5:
                controller.candidate.fail_term()
            else:
                self._ask(_remove_controller())

    # -- brokers -----------------------------------------------------------------------------------------

    def _target(self, op: Any) -> Any:
        """Return the broker that an operation names, if it runs. Numbers beyond the last broker wrap around."""
        found: Broker | None = self._named(op) if op.broker else self.world.controller()
        if found is None or not found.up:
            return None
        self._hit(op)
        return found

    def _named(self, op: Any) -> Any:
        return self.world.brokers[(max(op.broker, 1) - 1) % self.world.script.brokers + 1]

    def _hit(self, op: Any) -> None:
        kind = type(op).__name__
        self.world.counted(f"hit {kind}")
        lasts_ms = getattr(op, "for_ms", 0) + getattr(op, "down_ms", 0)
        self.world.availability.struck_broker(kind, self._phase(), lasts_ms)

    def _phase(self) -> str:
        """Return the condition of the brokers at the moment of a fault."""
        return "no controller" if self.world.controller() is None else "under a controller"

    def _undo(self, wait_ms: int, undo: Callable[[], None], broker: Broker | None = None) -> None:
        """Undo a fault after a delay, unless all faults end before, or the given broker restarts before."""
        life = 0 if broker is None else broker.life

        def end(_: None, __: None) -> None:
            if broker is None or broker.life == life:
                undo()

        self.world.push_fault_end(self.world.now + wait_ms * 1_000, end, None, None)

    def _kill(self, op: faults.KillBroker) -> None:
        if (broker := self._target(op)) is not None:
            broker.die()
            self.world.start_later(broker, op.down_ms)

    def _blackout(self, op: faults.Blackout) -> None:
        self._hit(op)
        for broker in self.world.brokers.values():
            broker.lose_power(op.loss)
            self.world.start_later(broker, op.down_ms + int(broker.random.random() * 200))

    def _bounce(self, op: faults.BounceBroker) -> None:
        if (broker := self._target(op)) is not None:
            broker.end()
            self.world.start_later(broker, 1)

    def _depart(self, op: faults.Depart) -> None:
        if (broker := self._target(op)) is not None:
            self._shut_down(broker, broker.life, op, ControlledShutdown(broker.id, SHUTDOWN_REQUESTS_MAX))

    def _shut_down(self, broker: Broker, life: int, op: faults.Depart, shutdown: ControlledShutdown) -> None:
        if not broker.up or broker.life != life:
            return
        request = shutdown.request(broker.epoch)

        def on_reply(remaining: Any) -> None:
            refused = remaining is None
            answer = shutdown_refused(request, NotController()) if refused else shutdown_granted(request, remaining)
            shutdown.replied(answer)
            if shutdown.finished:
                broker.later(0, end)
            else:
                broker.later(SHUTDOWN_RETRY_US, lambda: self._shut_down(broker, life, op, shutdown))

        def end() -> None:
            self.world.counted(SHUT_DOWN)
            broker.end()
            self.world.start_later(broker, op.down_ms)

        self._call(events.ControlledShutdownRequested(request.broker, request.epoch), on_reply)

    def _pause(self, op: faults.PauseBroker) -> None:
        broker = self._target(op)
        if broker is not None and broker.pause():
            self._undo(op.for_ms, broker.resume, broker)

    def _lose_store(self, op: faults.LoseStore) -> None:
        broker = self._target(op)
        if broker is not None and broker.lose_store():
            self._undo(op.for_ms, broker.find_store, broker)

    def _strike_write(self, op: faults.StrikeWrite) -> None:
        def is_controller(number: int) -> bool:
            candidate = self.world.brokers[number].candidate
            return candidate is not None and candidate.active

        aimed = self._named(op).id
        self.world.strikes.arm(op, (lambda number: number == aimed) if op.broker else is_controller)

    def strike(self, op: faults.StrikeWrite, broker: Broker) -> None:
        """Cut the broker off from the store before or after its write, and schedule the rest of the fault."""
        self._hit(op)
        broker.lose_store()
        if op.strike == "crash":
            broker.later(0, lambda: self._crash(op, broker))
        else:
            self._undo(op.for_ms if op.strike == "cut" else 2 * self.world.session_ms, broker.find_store, broker)

    def _crash(self, op: faults.StrikeWrite, broker: Broker) -> None:
        broker.die()
        self.world.start_later(broker, op.for_ms)

    def _lose_controller(self, op: faults.LoseController) -> None:
        def find_controller() -> None:
            broker.unreachable = False

        broker = self._target(op)
        if broker is not None and not broker.unreachable:
            broker.unreachable = True
            self._undo(op.for_ms, find_controller)

    PERFORM: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **StoreWorkload.PERFORM,
        faults.CreateTopic: _create,
        faults.GrowTopic: _grow,
        faults.DeleteTopic: _delete,
        faults.Reassign: _reassign,
        faults.CancelMove: _cancel,
        faults.ElectPreferred: _elect,
        faults.Balance: _balance,
        faults.Resign: _resign,
        faults.KillBroker: _kill,
        faults.BounceBroker: _bounce,
        faults.Depart: _depart,
        faults.PauseBroker: _pause,
        faults.LoseStore: _lose_store,
        faults.LoseController: _lose_controller,
        faults.StrikeWrite: _strike_write,
    }


def _remove_controller() -> StoreRequests[None]:
    """Delete `/controller`, as an operator may. Its owner may write until it notices."""
    yield [Multi((Delete(znodes.CONTROLLER),))]
