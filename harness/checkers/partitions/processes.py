"""The processes of each broker, and which of their failures a controller has handled.

A leader adds a follower to the ISR by its fetches. If the follower's process has ended since, a power failure may have
lost its records. The leader's write succeeds nevertheless until a controller has handled the failure. That is legal, as
if the follower had been in sync when it failed. But a controller that commanded the ended process, and now sends roles
to the next process, has written the state in between, so that earlier writes of leaders fail. From then on a follower
joins the ISR only by the records of its present process.
"""

from __future__ import annotations

from attrs import define, field

from kraft_controller.core.commands import Command, LeaderAndIsr
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition


@define(eq=False)
class Processes:
    controller_epoch: ControllerEpoch | None = None
    """The epoch of the newest controller in the store."""
    _commanded: dict[BrokerId, tuple[ControllerEpoch, BrokerEpoch]] = field(factory=dict)
    """The controller epoch and the broker epoch of the last command that each process received."""
    _known_to: dict[BrokerId, ControllerEpoch] = field(factory=dict)
    """The epoch of the controller that commanded each broker's former process up to its end."""
    _handled: set[tuple[BrokerId, TopicPartition]] = field(factory=set)
    """The replicas whose controller has handled the end of the former process."""

    def restarted(self, broker: BrokerId, epoch: BrokerEpoch) -> None:
        """Note that a broker has a new process. `epoch`: the last broker epoch of the former one.

        A controller that commanded the former process only under an earlier epoch may not have noticed its end.
        """
        self._handled = {each for each in self._handled if each[0] != broker}
        self._known_to.pop(broker, None)
        last = self._commanded.pop(broker, None)
        if last is not None and last[1] == epoch:
            self._known_to[broker] = last[0]

    def commanded(self, broker: BrokerId, command: Command) -> None:
        self._commanded[broker] = command.controller_epoch, command.broker_epoch
        if isinstance(
            command, LeaderAndIsr
        ) and self.controller_epoch == command.controller_epoch == self._known_to.get(broker):
            self._handled.update((broker, role.where) for role in command.roles)

    def failure_handled(self, broker: BrokerId, where: TopicPartition) -> bool:
        """Return whether writes that were requested for the former process can no longer add the broker to the ISR."""
        return (broker, where) in self._handled
