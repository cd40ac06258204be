"""The ISR as its leader knows it, while the store has the last word.

A leader changes it by a conditional write: this ISR, if nobody has written since version `v`. Between the asking and
the answer both may be true, the ISR of before and the one that was asked for, so whatever depends on it has to hold
for all the members of both: `maximal`. An answer that does not come, or says that somebody else was there first,
settles nothing; then the node is read:

    the leader epoch is ours       only we write under it, so what stands there is what we wrote: it is adopted
    the leader epoch is newer      another leader was decided on. Nothing is written any more, and `maximal` stays
                                   as wide as it is, until the controller says what we are now. To write again, with
                                   the version that was read, would be to overrule the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from attrs import define, field

from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, Version
from kraft_controller.core.state import PartitionState


class Doubt(Enum):
    """What is to be done about a change whose answer leaves open what became of it."""

    SETTLED = auto()
    """It is known now what the ISR is."""
    ASK_AGAIN = auto()
    """It has not happened, and if it happens yet, the same once more does no harm: only one of them can."""
    READ_AGAIN = auto()
    """What was read is older than what is known."""
    SUPERSEDED = auto()


@define
class Isr:
    members: tuple[BrokerId, ...]
    """As it stands in the store, as far as is known."""
    version: Version
    asked: tuple[BrokerId, ...] | None = None
    doubtful: bool = False
    """Whether an answer to what is asked for was lost: it may have happened, or happen yet."""
    superseded: bool = False
    joining: tuple[tuple[BrokerId, BrokerEpoch], ...] = ()
    """Who is to come in by what is asked for, and which of his lives it was that caught up."""
    maximal: frozenset[BrokerId] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.maximal = frozenset(self.members)

    @property
    def changing(self) -> bool:
        return self.asked is not None or self.superseded

    def ask(self, members: tuple[BrokerId, ...], lives: Mapping[BrokerId, BrokerEpoch]) -> None:
        """`lives`: of followers, which life of theirs fetches."""
        assert not self.changing, "one change at a time"
        self.asked = members
        new = (each for each in members if each not in self.members)
        self.joining = tuple((each, lives.get(each, BrokerEpoch(-1))) for each in new)
        self.doubtful = False
        self.maximal = frozenset(self.members).union(members)

    def give_up(self) -> bool:
        """What was asked for is not to be any more. True: it is not. False: as an answer was lost, that has to be
        written: the ISR as it is, under the version that the lost one needs. Only one of them can happen."""
        if not self.doubtful:
            self.adopt(self.members, self.version)
            return True
        self.asked = self.members
        return False

    def written(self, version: Version) -> None:
        """What was asked for stands."""
        assert self.asked is not None
        self.adopt(self.asked, version)

    def adopt(self, members: tuple[BrokerId, ...], version: Version) -> None:
        self.members = members
        self.version = version
        self.asked = None
        self.maximal = frozenset(members)

    def heard(self, members: tuple[BrokerId, ...], version: Version) -> None:
        """The controller has read it under our own leader epoch. A change on its way is still to be answered."""
        if version <= self.version:
            return
        if self.asked is None or members == self.asked:
            self.adopt(members, version)
        else:
            self.members = members
            self.version = version
            self.maximal = frozenset(members).union(self.asked)

    def read(self, state: PartitionState, epoch: LeaderEpoch) -> Doubt:
        if state.leader_epoch > epoch:
            return self.gone()
        if state.leader_epoch < epoch or state.version < self.version:
            return Doubt.READ_AGAIN
        if state.version == self.version:
            return Doubt.ASK_AGAIN
        self.adopt(state.isr, state.version)
        return Doubt.SETTLED

    def gone(self) -> Doubt:
        """There is another leader, or no partition any more."""
        self.superseded = True
        return Doubt.SUPERSEDED
