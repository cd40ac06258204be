"""Lives of brokers, one after the other, as far as a controller has made them known.

A leader asks for somebody to be let into the ISR by what it knows of him. If he has died since, what he had may be gone
with the power; and as long as no controller has dealt with that death, what is asked for may be written all the same.
That takes nobody by surprise: it is as if he had been in sync when he died. But a controller that knew the life that is
over, and tells the one that follows it what it holds, has written between the two, so that whatever was asked for
before fails. From then on whoever comes in, comes in by what he has in this life.
"""

from __future__ import annotations

from attrs import define, field

from kraft_controller.core.commands import Command, LeaderAndIsr
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition


@define(eq=False)
class Lives:
    reigns: ControllerEpoch | None = None
    """The epoch of the newest controller, as it stands in the store."""
    _heard: dict[BrokerId, tuple[ControllerEpoch, BrokerEpoch]] = field(factory=dict)
    """Which controller has commanded a process last, and as which registration of its broker it took it."""
    _known_to: dict[BrokerId, ControllerEpoch] = field(factory=dict)
    """To which controller the life before was known, up to its end."""
    _told: set[tuple[BrokerId, TopicPartition]] = field(factory=set)

    def restarted(self, broker: BrokerId, epoch: BrokerEpoch) -> None:
        """Its process is another one. `epoch`: under which the one before was registered last.

        Was it commanded under an earlier one alone, then who commanded it may not know of the last, and so of no end.
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
        """Whether nothing that was asked for in an earlier life of his can let him in there any more."""
        return (broker, where) in self._told
