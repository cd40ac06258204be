"""Those who commit positions in groups: members, who share a group with others, and who keeps his positions alone.

One question at a time, each of which may go unanswered. Whoever does not know what became of a commit commits anew,
under a mark of its own. Members are now and then silent for longer than their session lasts, and do not know it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from attrs import evolve

from harness.worlds.cores.partitions.clients import ANSWER_US, RETRY_US, Party
from harness.worlds.cores.partitions.telling import REFUSED, Teller
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import (
    Ask,
    Commit,
    Committed,
    GroupIdentity,
    Heartbeat,
    HeartbeatAnswered,
    Join,
    Joined,
    Leave,
    LeavingMember,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsFetched,
    Reply,
    SupportedProtocol,
    Sync,
    Synced,
)

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.broker import PartitionBroker
    from harness.worlds.cores.partitions.world import PartitionsWorld

SESSION_MS: Final = 300
REBALANCE_MS: Final = 400
JOIN_US: Final = 1_000_000
"""So long a member waits for the others, when it joins."""
PAUSE_US: Final = 8_000
E = ErrorCode


class Committer(Party):
    """Who keeps his positions alone: each client of such a group has a partition of its own."""

    prefix = "alone"
    mark = ""
    """Of its positions, before its number: nobody else in the group has the same."""

    def __init__(self, world: PartitionsWorld, number: int, group: int) -> None:
        self.group = f"{self.prefix}-{group}"
        super().__init__(world, number, TopicPartition(self.group, number), "committer")
        self._who = GroupIdentity(self.group)
        self._of = TopicPartition("data", number)
        self._left = 0
        self._busy = False
        self._marks = 0
        self._asked = 0
        self._at = 0
        self._coordinator: PartitionBroker | None = None

    @property
    def settled(self) -> bool:
        return not self._left

    def give(self, count: int) -> None:
        self._left += count
        if not self._busy:
            self._busy = True
            self._begin()

    def forget(self) -> None:
        """There is no topic that groups could be remembered in."""
        self._left = 0

    def _begin(self) -> None:
        self._look()

    # -- asking ------------------------------------------------------------------------------------------

    def _find(self) -> PartitionBroker | None:
        """As somebody says who was told."""
        brokers = self.world.brokers
        asked = brokers[1 + int(self.random.random() * len(brokers))]
        if not asked.up or asked.paused or not self.world.wires.reach(-self.number, asked.id):
            return None
        found = asked.groups.find(self.group)
        return None if found is None else brokers.get(found)

    def _say(self, ask: Ask, heard: Callable[[Reply | None], None], wait_us: int = ANSWER_US) -> None:
        """None: nobody has answered, or nobody could be asked."""
        broker = self._coordinator = self._coordinator or self._find()
        self._asked += 1
        number = self._asked

        def told(reply: Reply | None) -> None:
            if number == self._asked:
                self._asked += 1
                heard(reply)

        if broker is None:
            self.later(RETRY_US, lambda: told(None))
            return
        self.ask(
            broker,
            lambda: broker.groups.ask(ask, lambda reply: self.hear(broker, lambda: told(reply))),
            lambda: told(None),
        )
        self.later(wait_us, lambda: told(None))

    def _again(self, act: Callable[[], None]) -> None:
        """After a while, and perhaps of somebody else."""
        self._coordinator = None
        self._after(RETRY_US, act)

    def _after(self, wait_us: int, act: Callable[[], None]) -> None:
        def then() -> None:
            if self._left and not self.world.over:
                act()
            else:
                self._busy = False

        self.later(wait_us, then)

    # -- positions ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._say(OffsetFetch(self.group, (self._of,)), self._looked)

    def _looked(self, reply: Reply | None) -> None:
        if not isinstance(reply, OffsetsFetched) or reply.error is not E.NONE:
            self._again(self._look)
            return
        shown = reply.positions[self._of]
        self._at = shown.offset if isinstance(shown, OffsetAndMetadata) else 0
        self._commit()

    def _commit(self) -> None:
        self._marks += 1
        position = OffsetAndMetadata(
            self._at + 1 + int(self.random.random() * 5), metadata=f"{self.mark}{self.number}.{self._marks}"
        )
        asked = Commit(self._who, {self._of: position})
        self._say(asked, lambda reply: self._committed(asked, position, reply))

    def _committed(self, asked: Commit, position: OffsetAndMetadata, reply: Reply | None) -> None:
        error = reply.errors[self._of] if isinstance(reply, Committed) else None
        if error is E.NONE:
            self._at = position.offset
            self._left -= 1
            if self._left:
                self._after(PAUSE_US, self._next)
            else:
                self._end()
        elif error in REFUSED:
            assert error is not None
            self.world.counted(f"commit {error.name}")
            self._fenced(error)
        else:
            self._again(self._commit if self.random.random() < 0.5 else self._look)

    def _next(self) -> None:
        if self.random.random() < 0.3:
            self._look()
        else:
            self._commit()

    def _end(self) -> None:
        self._busy = False

    def _fenced(self, error: ErrorCode) -> None:
        self._again(self._look)


class Member(Committer):
    """A group's partitions are dealt out among its members by the one who leads: one for each, and in each generation
    another one."""

    prefix = "group"
    name: str | None = None
    """By which its coordinator knows it again, whatever its id is by then."""

    def __init__(self, world: PartitionsWorld, number: int, group: int) -> None:
        super().__init__(world, number, group)
        self._teller = Teller(world, self.group)
        self._id = ""

    def _say(self, ask: Ask, heard: Callable[[Reply | None], None], wait_us: int = ANSWER_US) -> None:
        if isinstance(ask, Commit):
            self._teller.begins(self._who, self._of, self._at)
            heard = self._teller.commits(ask, heard)
        super()._say(ask, heard, wait_us)

    def _begin(self) -> None:
        self._join()

    def _join(self) -> None:
        who, protocols = GroupIdentity(self.group, self._id, instance=self.name), (SupportedProtocol("by turns", b""),)
        ask = Join(who, "consumer", protocols, SESSION_MS, REBALANCE_MS, client_id=f"c{self.number}")
        self._say(ask, self._joined, JOIN_US)

    def _joined(self, reply: Reply | None) -> None:
        if not isinstance(reply, Joined):
            self._again(self._join)
        elif reply.error is E.MEMBER_ID_REQUIRED:
            self._id = reply.member
            self._join()
        elif reply.error is not E.NONE:
            self._fenced(reply.error)
        else:
            self._id = reply.member
            self._who = GroupIdentity(self.group, reply.member, reply.generation, self.name)
            dealt = _dealt(reply) if reply.leader == reply.member else {}
            names = {each.member: each.instance or each.member for each in reply.members}
            self.world.keeper.shares.dealt(self._who, {names[member]: share for member, share in dealt.items()})
            self._say(Sync(self._who, dealt), self._synced, JOIN_US)

    def _synced(self, reply: Reply | None) -> None:
        if not isinstance(reply, Synced):
            self._again(self._join)
        elif reply.error is not E.NONE or not reply.assignment:
            self._fenced(reply.error)
        else:
            self.world.keeper.shares.given(self._who, reply.assignment)
            self._of = TopicPartition("data", int(reply.assignment))
            self._teller.given(self._who, self._of)
            self.world.counted("partitions taken over")
            self._look()

    def _next(self) -> None:
        share = self.random.random()
        if share < 0.04:
            self._after((SESSION_MS + 100) * 1_000, self._commit)
        elif share < 0.3:
            self._commit()
        else:
            self._say(Heartbeat(self._who), self._beaten)

    def _beaten(self, reply: Reply | None) -> None:
        if not isinstance(reply, HeartbeatAnswered):
            self._again(self._next)
        elif reply.error is E.NONE:
            super()._next()
        elif reply.error in REFUSED:
            self._fenced(reply.error)
        else:
            self._again(self._next)

    def _fenced(self, error: ErrorCode) -> None:
        """It joins again, as somebody else where nobody knows it any more."""
        if error in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID):
            self._id = ""
        self._again(self._join)

    def _end(self) -> None:
        if self.random.random() < 0.5:
            self._left_it(None)
        else:
            self._say(Leave(self.group, (LeavingMember(self._id),)), self._left_it)

    def _left_it(self, _: Reply | None) -> None:
        self._id, self._busy = "", False
        if self._left:
            self.give(0)


class Hasty(Member):
    """What it has committed in one generation comes once more when it is in the next: late, as by another way."""

    mark = "late "

    def __init__(self, world: PartitionsWorld, number: int, group: int) -> None:
        super().__init__(world, number, group)
        self._late: Commit | None = None

    def _committed(self, asked: Commit, position: OffsetAndMetadata, reply: Reply | None) -> None:
        self._late = asked
        super()._committed(asked, position, reply)

    def _synced(self, reply: Reply | None) -> None:
        broker = self._coordinator
        super()._synced(reply)
        late, self._late = self._late, None
        if broker is None or late is None or not isinstance(reply, Synced) or reply.error is not E.NONE:
            return
        if late.who.member == self._who.member and late.who.generation < self._who.generation:
            self.world.counted("late commits")
            told = self._teller.commits(late, _ignored)
            self.ask(
                broker, lambda: broker.groups.ask(late, lambda reply: self.hear(broker, lambda: told(reply))), _lost
            )


class Named(Member):
    """Its name outlives its ids. It is started again now and then, and goes on with what it had; and what it had asked
    for in its life before comes once more, when somebody else bears its name."""

    mark = "named "

    def __init__(self, world: PartitionsWorld, number: int, group: int) -> None:
        super().__init__(world, number, group)
        self.name = f"i{number}"
        self._last: Commit | None = None

    def _committed(self, asked: Commit, position: OffsetAndMetadata, reply: Reply | None) -> None:
        self._last = asked
        super()._committed(asked, position, reply)

    def _next(self) -> None:
        if self.random.random() < 0.1:
            self._id = ""
            self._again(self._join)
        else:
            super()._next()

    def _synced(self, reply: Reply | None) -> None:
        broker = self._coordinator
        super()._synced(reply)
        last, self._last = self._last, None
        if broker is None or last is None or not isinstance(reply, Synced) or reply.error is not E.NONE:
            return
        if last.who.member != self._who.member:
            self.world.counted("commits of former bearers")
            late = evolve(last)
            self.world.keeper.positions.replaced(broker, late)
            told = self._teller.commits(late, _ignored)
            self.ask(
                broker, lambda: broker.groups.ask(late, lambda reply: self.hear(broker, lambda: told(reply))), _lost
            )

    def _end(self) -> None:
        """It says nothing, and may be back before anybody misses it."""
        self._left_it(None)


def _ignored(_: Reply | None) -> None:
    """Who commits looks at what it is told of what it commits now."""


def _lost() -> None:
    """Nobody is there any more who could say no."""


def _dealt(joined: Joined) -> dict[str, bytes]:
    """Everybody has another partition than in the generation before: whoever is given that one is noticed."""
    count = len(joined.members)
    return {each.member: b"%d" % ((place + joined.generation) % count) for place, each in enumerate(joined.members)}
