"""A controller on a store in dictionaries, with everything that it ever sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraft_controller.core.commands import Command, LeaderAndIsr, StopReplica, UpdateMetadata
from kraft_controller.core.controller_context import ControllerContext, ControllerSettings
from kraft_controller.core.controller_events import ControllerElected, Event
from kraft_controller.core.kafka_controller import KafkaController
from kraft_controller.core.names import BrokerId, ControllerEpoch, TopicId
from kraft_controller.core.operator_log import OperatorMessage
from kraft_controller.core.state import Broker
from tests.unit.kraft_controller.store_double import Procedure, Store, broker

__all__ = ["Controller", "Store", "broker"]


class Sent:
    """Keeps the commands in the order in which they were sent."""

    def __init__(self) -> None:
        self.commands: list[tuple[BrokerId, Command]] = []

    def update_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        pass

    def send(self, to: BrokerId, command: Command) -> None:
        self.commands.append((to, command))

    def close(self) -> None:
        pass


class Controller:
    """One term, whose procedures run to their end at once."""

    def __init__(self, store: Store, epoch: int = 1, settings: ControllerSettings | None = None, me: int = 1) -> None:
        self.store = store
        self.sent = Sent()
        self.messages: list[OperatorMessage] = []
        context = ControllerContext(BrokerId(me), ControllerEpoch(epoch), settings)
        self.queued: list[Event] = []
        """Events that the controller noted and that were not processed yet."""
        self.processes_queued = True
        """If true, `run` processes them, too."""
        self.term = KafkaController(context, store, self.sent, self.queued.append, self.messages.append, self.new_id)

    @property
    def context(self) -> ControllerContext:
        return self.term.context

    def run(self, procedure: Procedure) -> Any:
        """Run a procedure and send its commands."""
        answers: Any = None
        while True:
            try:
                accesses = next(procedure) if answers is None else procedure.send(answers)
            except StopIteration as end:
                self.term.flush()
                result = end.value
                break
            answers = self.store.answer(accesses)
        while self.processes_queued and self.queued:
            self.handle(self.queued.pop(0))
        return result

    def handle(self, event: Event) -> Any:
        return self.run(self.term.process(event))

    def take_over(self) -> Controller:
        self.handle(ControllerElected())
        return self

    @staticmethod
    def new_id() -> TopicId:
        return TopicId("n" * 22)

    # -- what was sent since it was asked last -----------------------------------------------------------

    def heard(self) -> list[tuple[BrokerId, Command]]:
        sent, self.sent.commands = self.sent.commands, []
        return sent

    def roles(self) -> dict[tuple[int, str], tuple[int, tuple[int, ...], bool]]:
        """Return (broker, partition) -> (leader, ISR, is new), and forget the commands so far."""
        return {
            (to, str(role.where)): (role.state.leader, role.state.isr, role.is_new)
            for to, command in self.heard()
            if isinstance(command, LeaderAndIsr)
            for role in command.roles
        }

    def stops(self) -> set[tuple[int, str, bool]]:
        return {
            (to, str(stop.where), stop.delete)
            for to, command in self.heard()
            if isinstance(command, StopReplica)
            for stop in command.stops
        }

    def metadata(self) -> dict[int, dict[str, int]]:
        return {
            to: {str(role.where): role.state.leader for role in command.roles}
            for to, command in self.heard()
            if isinstance(command, UpdateMetadata)
        }

    def leaders(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        return {str(where): (state.leader, state.isr) for where, state in self.store.states.items()}

    def noted(self) -> list[str]:
        return [message.event for message in self.messages]
