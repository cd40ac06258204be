"""What the specification remembers: of each epoch, who promised, who led, who adopted, and who has how much.

A server's own variables (its epochs, its history, what of that is on its disk) are those that the ghost keeps of the
real one: that is the abstraction. Histories are named by where they end. Messages are not kept; what matters of them
is that they were said, and whoever acts upon a promise that nobody made cannot be excused by the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import define, field, frozen

from harness.quorums import is_quorum, meets_every_quorum
from zab.core.ensemble import Ensemble
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid


class Server(Protocol):
    """The variables of one server."""

    @property
    def id(self) -> ServerId: ...
    @property
    def tip(self) -> Zxid:
        """Where its history ends, durable or not."""

    @property
    def durable(self) -> Zxid:
        """Where the history on its disk ends."""

    @property
    def accepted(self) -> Epoch: ...
    @property
    def current(self) -> Epoch: ...
    @property
    def applied(self) -> Zxid: ...
    @property
    def promised(self) -> Epoch:
        """The newest epoch that a leader announced to it: that in which it follows."""

    @property
    def epoch(self) -> Epoch:
        """That which it leads, when it leads."""

    @property
    def impaired(self) -> bool:
        """Its disk was lost or damaged, and no leader has healed it yet."""


class Histories(Protocol):
    """All transactions there ever were, each behind another one."""

    @property
    def parent(self) -> Mapping[Zxid, Zxid]: ...
    @property
    def place(self) -> Mapping[Zxid, int]:
        """Where committed ones stand."""

    @property
    def governing(self) -> Mapping[Zxid, Ensemble]: ...
    def holds(self, tip: Zxid, zxid: Zxid) -> bool: ...


@frozen
class Promise:
    """What a server told the leader whose epoch it promised: the epoch that it had, and where its history ended."""

    epoch: Epoch
    last: Zxid


@define
class Reign:
    """An epoch that somebody wants to lead, or leads."""

    promises: dict[ServerId, dict[ServerId, Promise]] = field(factory=dict)
    """To whom, by whom. Only those that count."""
    bound: dict[ServerId, ServerId] = field(factory=dict)
    """By whom, to whom: nobody promises an epoch to two."""
    leader: ServerId | None = None
    """Since a quorum has promised."""
    initial: Zxid = NOTHING
    """What the epoch begins with."""
    end: Zxid = NOTHING
    """Where the leader's history ends by now."""
    acked: dict[ServerId, Zxid] = field(factory=dict)
    """Who has adopted the epoch and said so, and up to where it said to have the leader's history."""
    begun: bool = False
    """A quorum has adopted it."""
    up_to_date: dict[ServerId, Zxid] = field(factory=dict)
    """Whom the leader let serve, from where on."""


@define
class State:
    histories: Histories
    memberships: list[Ensemble]
    """All there ever were. Which of them a server goes by, it may know better than those who look on."""
    reigns: dict[Epoch, Reign] = field(factory=dict)
    committed: dict[ServerId, Zxid] = field(factory=dict)
    """Up to where each running server knows its history to be committed."""

    def reign(self, epoch: Epoch) -> Reign:
        found = self.reigns.get(epoch)
        if found is None:
            found = self.reigns[epoch] = Reign()
        return found

    def is_quorum(self, sids: Sequence[ServerId]) -> bool:
        return any(is_quorum(membership, sids) for membership in self.memberships)

    def meets_every_quorum(self, sids: Sequence[ServerId]) -> bool:
        return any(meets_every_quorum(membership, sids) for membership in self.memberships)
