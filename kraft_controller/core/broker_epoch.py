"""The broker epoch of one process: the zxid of its registration, and the fence for commands before there is one."""

from __future__ import annotations

from typing import Final

from kraft_controller.core.names import BrokerEpoch

NO_EPOCH: Final = BrokerEpoch(-1)
"""The epoch of a broker that has not registered yet. Every epoch is greater."""
UNREGISTERED: Final = BrokerEpoch((1 << 63) - 1)
"""The fence of a process that has just started: it refuses every command."""


class BrokerEpochFence:
    """Decides the least broker epoch of the commands that this process accepts.

    Before it registers, the process reads the zxid at which a child of `/brokers/ids` last changed. The registrations
    of earlier processes are not newer, and its own will be: until then that zxid plus one is the fence.
    """

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        """The epoch of the newest registration."""
        self._least = UNREGISTERED
        """The fence before the first registration."""

    @property
    def listed(self) -> bool:
        """The list of registrations has been read."""
        return self._least != UNREGISTERED

    def list_read(self, changed: int) -> None:
        """Take the zxid of the newest registration or deregistration of any broker."""
        self._least = BrokerEpoch(changed + 1)

    def registered(self, epoch: BrokerEpoch) -> None:
        self.epoch = epoch

    @property
    def accepts_from(self) -> BrokerEpoch:
        return self._least if self.epoch == NO_EPOCH else self.epoch
