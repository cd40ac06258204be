"""The processes of each broker, one after the other, as far as a controller has handled them.

A leader adds a follower to the ISR by its fetches. If the follower's process has ended since, a power failure may have
taken its records; the leader's write succeeds all the same until a controller has handled the failure. That is legal,
as if the follower had been in sync when it failed. But a controller that knew the ended process, and sends the next
process its roles, has written the state in between, so that earlier writes of leaders fail. From then on a follower
joins the ISR only by what its present process has.
"""

from __future__ import annotations

from attrs import define, field

from kraft_controller.core.commands import Command, LeaderAndIsr
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition


@define(eq=False)
class Lives:
    reigns: ControllerEpoch | None = None
    """The epoch of the newest controller in the store."""
    _heard: dict[BrokerId, tuple[ControllerEpoch, BrokerEpoch]] = field(factory=dict)
    """The controller that commanded each process last, and the broker epoch in that command."""
    _known_to: dict[BrokerId, ControllerEpoch] = field(factory=dict)
    """The controller that knew the former process up to its end."""
    _told: set[tuple[BrokerId, TopicPartition]] = field(factory=set)

    def restarted(self, broker: BrokerId, epoch: BrokerEpoch) -> None:
        """A broker has a new process. `epoch`: the last broker epoch of the former one.

        A controller that commanded it under an earlier epoch only may not know of the last, and so of no end.
        """
        self._told = {each for each in self._told if each[0] != broker}
        self._known_to.pop(broker, None)
        heard = self._heard.pop(broker, None)
        if heard is not None and heard[1] == epoch:
            self._known_to[broker] = heard[0]

    def obeys(self, broker: BrokerId, command: Command) -> None:
        self._heard[broker] = command.controller_epoch, command.broker_epoch
        if isinstance(command, LeaderAndIsr) and self.reigns == command.controller_epoch == self._known_to.get(broker):
            self._told.update((broker, role.where) for role in command.roles)

    def known_anew(self, broker: BrokerId, where: TopicPartition) -> bool:
        """Return whether no write that was requested for its former process can add it to the ISR any more."""
        return (broker, where) in self._told
