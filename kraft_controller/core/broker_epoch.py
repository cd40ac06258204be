"""The broker epoch of one process: the zxid of its registration, and the fence for commands that arrive earlier."""

from __future__ import annotations

from typing import Final

from kraft_controller.core.names import BrokerEpoch

NO_EPOCH: Final = BrokerEpoch(-1)
"""The epoch of a broker that has not registered. Every other epoch is greater."""
UNREGISTERED: Final = BrokerEpoch((1 << 63) - 1)
"""The fence of a process that has just started. No broker epoch reaches it."""


class BrokerEpochFence:
    """Determines the smallest broker epoch whose commands this process accepts.

    Before it registers, the process reads the zxid at which a child of `/brokers/ids` was last created or deleted.
    Registrations of earlier processes have at most that zxid, and its own will have a greater one. So until it
    registers, the fence is that zxid plus one. Afterwards the fence is the epoch of the newest registration.
    """

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        """The epoch of the newest registration; `NO_EPOCH` before the first one."""
        self._least = UNREGISTERED
        """The fence before the first registration."""

    @property
    def listed(self) -> bool:
        """True if the list of registrations has been read."""
        return self._least != UNREGISTERED

    def list_read(self, changed: int) -> None:
        """Set the fence from the zxid of the newest registration or deregistration of any broker."""
        self._least = BrokerEpoch(changed + 1)

    def registered(self, epoch: BrokerEpoch) -> None:
        self.epoch = epoch

    @property
    def accepts_from(self) -> BrokerEpoch:
        return self._least if self.epoch == NO_EPOCH else self.epoch
