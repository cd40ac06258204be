"""The ISR in its leader's memory, while the store holds the decisive one.

A leader changes its ISR by a conditional write: this ISR, if the node is still at version `v`. Between the request and
the answer both ISRs may be in force, the former and the requested one, so every guarantee has to hold for the members
of both: `maximal`. A lost answer, or an answer that the version is another, settles nothing; then the leader reads the
node:

    the leader epoch is ours       only this leader writes under it, so the node holds what it wrote: it adopts that
    the leader epoch is newer      another leader was elected. Nothing is written any more, and `maximal` stays as wide
                                   as it is until the controller sends the next command. A write with the version that
                                   was read would overrule the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from attrs import define, field

from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, Version
from kraft_controller.core.state import PartitionState


class Doubt(Enum):
    """The next step after reading the node of a change whose outcome is unknown."""

    SETTLED = auto()
    """The ISR is known."""
    ASK_AGAIN = auto()
    """The change has not happened. Writing it again is safe: only one of the writes can succeed."""
    READ_AGAIN = auto()
    """The read is older than what is known."""
    SUPERSEDED = auto()


@define
class Isr:
    """The members of the ISR and the change of it that is under way, at most one at a time."""

    members: tuple[BrokerId, ...]
    """The newest known content of the store."""
    version: Version
    asked: tuple[BrokerId, ...] | None = None
    """The members that were requested; None: no change is under way."""
    doubtful: bool = False
    """Whether an answer to the request was lost: the change may have happened, or happen yet."""
    superseded: bool = False
    joining: tuple[tuple[BrokerId, BrokerEpoch], ...] = ()
    """The brokers that the request adds, with the broker epoch that caught up."""
    maximal: frozenset[BrokerId] = field(init=False)
    """All members of the known and of the requested ISR."""

    def __attrs_post_init__(self) -> None:
        self.maximal = frozenset(self.members)

    @property
    def changing(self) -> bool:
        return self.asked is not None or self.superseded

    def ask(self, members: tuple[BrokerId, ...], epochs: Mapping[BrokerId, BrokerEpoch]) -> None:
        """Begin a change. `epochs`: the broker epoch under which each follower fetches."""
        assert not self.changing, "one change at a time"
        self.asked = members
        new = (each for each in members if each not in self.members)
        self.joining = tuple((each, epochs.get(each, BrokerEpoch(-1))) for each in new)
        self.doubtful = False
        self.maximal = frozenset(self.members).union(members)

    def give_up(self) -> bool:
        """Abandon the requested change. Return whether it is abandoned at once.

        After a lost answer it is not: the former ISR has to be written under the version that the lost request needs,
        so that only one of the two can happen.
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
        """Take the ISR that the controller read under this leader epoch. A request under way stays under way."""
        if version <= self.version:
            return
        if self.asked is None or members == self.asked:
            self.adopt(members, version)
        else:
            self.members = members
            self.version = version
            self.maximal = frozenset(members).union(self.asked)

    def read(self, state: PartitionState, epoch: LeaderEpoch) -> Doubt:
        """Compare the node with the request, and adopt what this leader wrote."""
        if state.leader_epoch > epoch:
            return self.gone()
        if state.leader_epoch < epoch or state.version < self.version:
            return Doubt.READ_AGAIN
        if state.version == self.version:
            return Doubt.ASK_AGAIN
        self.adopt(state.isr, state.version)
        return Doubt.SETTLED

    def gone(self) -> Doubt:
        """Stop writing: there is another leader, or no partition any more."""
        self.superseded = True
        return Doubt.SUPERSEDED
