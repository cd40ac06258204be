"""A leader's copy of its ISR. The store holds the authoritative one.

A leader changes its ISR by a conditional write, which succeeds only if the node is still at the version that the leader
knows. Until the leader receives the result, the old or the requested ISR may be in force, so every guarantee must hold
for the members of both: `maximal`. If the result is lost, or the write fails because the version differs, the
leader reads the node and compares leader epochs:

    same epoch     only this leader writes under its epoch. So a newer version is that of its own write, and it adopts
                   the ISR; if the version is unchanged, it writes again
    newer epoch    the controller has begun another leader epoch. This leader writes nothing more, since a write with
                   the version just read would overrule the controller, and `maximal` stays until the controller's next
                   command
    older epoch    the read was stale, and the leader reads again
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from attrs import define, field

from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, Version
from kraft_controller.core.state import PartitionState


class Doubt(Enum):
    """The next step after a leader read the node because the outcome of its ISR write is unknown."""

    SETTLED = auto()
    """The ISR is known."""
    ASK_AGAIN = auto()
    """The write has not taken effect. Writing again is safe: both writes name one version, so only one can succeed."""
    READ_AGAIN = auto()
    """The read was stale: this leader already knows a newer state."""
    SUPERSEDED = auto()


@define
class Isr:
    """The members of the ISR, and the pending change. At most one change is pending."""

    members: tuple[BrokerId, ...]
    """The newest ISR known to be in the store."""
    version: Version
    asked: tuple[BrokerId, ...] | None = None
    """The requested members; None if no change is pending."""
    doubtful: bool = False
    """True if the result of the write was lost: the write may have taken effect, or may still do so."""
    superseded: bool = False
    joining: tuple[tuple[BrokerId, BrokerEpoch], ...] = ()
    """The brokers that the request adds, each with the broker epoch under which it caught up."""
    maximal: frozenset[BrokerId] = field(init=False)
    """All members of the known ISR and of the requested one."""

    def __attrs_post_init__(self) -> None:
        self.maximal = frozenset(self.members)

    @property
    def changing(self) -> bool:
        return self.asked is not None or self.superseded

    def ask(self, members: tuple[BrokerId, ...], epochs: Mapping[BrokerId, BrokerEpoch]) -> None:
        """Record a requested change. `epochs`: the broker epoch under which each follower fetches."""
        assert not self.changing, "an ISR change is already in progress"
        self.asked = members
        new = (each for each in members if each not in self.members)
        self.joining = tuple((each, epochs.get(each, BrokerEpoch(-1))) for each in new)
        self.doubtful = False
        self.maximal = frozenset(self.members).union(members)

    def give_up(self) -> bool:
        """Abandon the pending change. Return False if that takes another write.

        If the result of the write was lost, the write may still succeed. So the leader writes the former ISR under the
        same version: only one of the two writes can succeed.
        """
        if not self.doubtful:
            self.adopt(self.members, self.version)
            return True
        self.asked = self.members
        return False

    def written(self, version: Version) -> None:
        """Adopt the requested members: the store has them under this version."""
        assert self.asked is not None
        self.adopt(self.asked, version)

    def adopt(self, members: tuple[BrokerId, ...], version: Version) -> None:
        self.members = members
        self.version = version
        self.asked = None
        self.maximal = frozenset(members)

    def update(self, members: tuple[BrokerId, ...], version: Version) -> None:
        """Adopt the ISR that the controller read under this leader epoch. A pending request stays pending, unless this
        is the ISR that it requests."""
        if version <= self.version:
            return
        if self.asked is None or members == self.asked:
            self.adopt(members, version)
        else:
            self.members = members
            self.version = version
            self.maximal = frozenset(members).union(self.asked)

    def read(self, state: PartitionState, epoch: LeaderEpoch) -> Doubt:
        """Compare the node's leader epoch and version with the known ones. If the epoch is equal and the version newer,
        adopt the node's ISR."""
        if state.leader_epoch > epoch:
            return self.gone()
        if state.leader_epoch < epoch or state.version < self.version:
            return Doubt.READ_AGAIN
        if state.version == self.version:
            return Doubt.ASK_AGAIN
        self.adopt(state.isr, state.version)
        return Doubt.SETTLED

    def gone(self) -> Doubt:
        """Stop writing: the partition has a newer leader epoch, or was deleted."""
        self.superseded = True
        return Doubt.SUPERSEDED
