"""The broker epoch of one process, and the fence against commands for registrations of earlier processes."""

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
    All registrations until then have at most that zxid, and this process's own will have a greater one. So until it
    registers, the fence is that zxid plus one. Afterwards the fence is the epoch of its newest registration.
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
