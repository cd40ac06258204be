"""What members of groups were given and told, as the judge hears it that judges clients of brokers everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from attrs import evolve

from harness.checkers.records import members
from harness.checkers.records.case import prepared
from harness.checkers.records.history import NOWHERE, Assigned, Committing, Failed, Place, Unknown
from harness.checkers.records.history import Committed as Told
from harness.outcome import Outcome
from harness.worlds.brokers.recorder import Recorder
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import Commit, Committed, GroupIdentity, Reply

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.world import PartitionsWorld

REFUSED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)
"""It is certain then that nothing was committed."""


class Teller:
    """Of one member. It reads nothing, so it is told where it begins in its partition when it commits there first."""

    def __init__(self, world: PartitionsWorld, group: str) -> None:
        self._world = world
        self._group = group
        self._tape = world.tapes.setdefault(group, Recorder(lambda: world.now))
        self._client = self._tape.producer()
        self._began: tuple[GroupIdentity, TopicPartition] | None = None

    def given(self, who: GroupIdentity, where: TopicPartition, offset: int = NOWHERE) -> None:
        """What it has in its generation, also if it never commits there."""
        begins = (Place(str(where), offset),)
        self._tape.add(Assigned(self._world.now, self._client, begins, (), self._group, who.generation))

    def begins(self, who: GroupIdentity, where: TopicPartition, offset: int) -> None:
        if self._began != (who, where):
            self._began = who, where
            self.given(who, where, offset)

    def commits(self, asked: Commit, heard: Callable[[Reply | None], None]) -> Callable[[Reply | None], None]:
        """What is to be called with the answer; None: there was none."""
        tape, world, client, call = self._tape, self._world, self._client, self._tape.call()
        places = tuple(Place(str(where), position.offset) for where, position in asked.positions.items())
        tape.add(Committing(world.now, client, call, self._group, places))

        def told(reply: Reply | None) -> None:
            [error] = reply.errors.values() if isinstance(reply, Committed) else [None]
            if error is ErrorCode.NONE:
                tape.add(Told(world.now, client, call))
            elif error in REFUSED:
                tape.add(Failed(world.now, client, call, str(error)))
            else:
                tape.add(Unknown(world.now, client, call))
            heard(reply)

        return told


def with_members(outcome: Outcome, tapes: Mapping[str, Recorder], doubtful: Callable[[str], bool]) -> Outcome:
    """What was broken while it ran comes first. Of a group to whose positions something happened that may happen,
    nobody promises that it does not go back."""
    if outcome.promise is not None:
        return outcome
    for group, tape in tapes.items():
        if doubtful(group):
            continue
        case = prepared(tape.history())
        for broken in chain(members.owned(case), members.onwards(case)):
            return evolve(outcome, promise=broken.promise, what=broken.what, undecided=False)
    return outcome
