"""Clients that commit positions: members of groups, and clients that keep their positions without being a member.

Each has one request open at a time, which may remain unanswered. After a commit with an unknown outcome it commits
anew, with other metadata. Now and then a member is silent for longer than its session lasts, without noticing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from attrs import evolve

from harness.checkers.records import history as records
from harness.worlds.brokers.recorder import Recorder
from harness.worlds.cores.partitions.clients import ANSWER_US, RETRY_US, Party
from harness.worlds.cores.partitions.simulator import PartitionsSimulator
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups import group_messages as messages

Answer: TypeAlias = messages.Reply | None
Heard: TypeAlias = Callable[[Answer], None]
"""Receives a reply, or None if there is none."""
SESSION_MS: Final = 300
REBALANCE_MS: Final = 400
JOIN_US: Final = 1_000_000
"""How long a member that joins waits for the others."""
PAUSE_US: Final = 8_000
E = ErrorCode
REFUSED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)
"""Errors after which certainly nothing was committed."""


class Teller:
    """Records for the checkers what one member was given and told.

    A member reads nothing, so it begins in its partition where it commits first.
    """

    def __init__(self, world: PartitionsSimulator, group: str) -> None:
        self._world = world
        self._group = group
        self._tape = world.tapes.setdefault(group, Recorder(lambda: world.now))
        self._client = self._tape.producer()
        self._began: tuple[messages.GroupIdentity, TopicPartition] | None = None

    def given(self, who: messages.GroupIdentity, where: TopicPartition, offset: int = records.NOWHERE) -> None:
        """Record a partition of its generation, in which it may never commit."""
        begins = (records.Place(str(where), offset),)
        self._tape.add(records.Assigned(self._world.now, self._client, begins, (), self._group, who.generation))

    def begins(self, who: messages.GroupIdentity, where: TopicPartition, offset: int) -> None:
        if self._began != (who, where):
            self._began = who, where
            self.given(who, where, offset)

    def commits(self, asked: messages.Commit, heard: Heard) -> Heard:
        """Record a commit. Return the function to call with the reply, or with None if there is none."""
        tape, world, client, call = self._tape, self._world, self._client, self._tape.call()
        places = tuple(records.Place(str(where), position.offset) for where, position in asked.positions.items())
        tape.add(records.Committing(world.now, client, call, self._group, places))

        def told(reply: Answer) -> None:
            [error] = reply.errors.values() if isinstance(reply, messages.Committed) else [None]
            if error is ErrorCode.NONE:
                tape.add(records.Committed(world.now, client, call))
            elif error in REFUSED:
                tape.add(records.Failed(world.now, client, call, str(error)))
            else:
                tape.add(records.Unknown(world.now, client, call))
            heard(reply)

        return told


class Committer(Party):
    """A client that commits positions without being a member: each client of the group has its own partition."""

    prefix = "alone"
    mark = ""
    """The prefix of the metadata of its positions, which tells the kinds of committers apart."""

    def __init__(self, world: PartitionsSimulator, number: int, group: int) -> None:
        self.group = f"{self.prefix}-{group}"
        super().__init__(world, number, TopicPartition(self.group, number), "committer")
        self._who = messages.GroupIdentity(self.group)
        self._of = TopicPartition("data", number)
        self._left = 0
        self._busy = False
        self._marks = 0
        self._asked = 0
        self._at = 0
        self._coordinator: Any = None

    @property
    def settled(self) -> bool:
        return not self._left

    def give(self, count: int) -> None:
        self._left += count
        if not self._busy:
            self._busy = True
            self._begin()

    def forget(self) -> None:
        """Give up: there is no topic in which positions could be kept."""
        self._left = 0

    def _begin(self) -> None:
        self._look()

    # -- asking ------------------------------------------------------------------------------------------

    def _find(self) -> Any:
        """Ask a random broker for the coordinator."""
        brokers = self.world.brokers
        asked = brokers[1 + int(self.random.random() * len(brokers))]
        if not asked.up or asked.paused or not self.world.wires.reach(-self.number, asked.id):
            return None
        found = asked.groups.find(self.group)
        return None if found is None else brokers.get(found)

    def _say(self, ask: messages.Ask, heard: Heard, wait_us: int = ANSWER_US) -> None:
        """Send a request to the coordinator. `heard` receives the reply, or None if there is none."""
        broker = self._coordinator = self._coordinator or self._find()
        self._asked += 1
        number = self._asked

        def told(reply: Answer) -> None:
            if number == self._asked:
                self._asked += 1
                heard(reply)

        if broker is None:
            self.later(RETRY_US, lambda: told(None))
            return
        self.ask(
            broker,
            lambda: broker.groups.ask(ask, lambda reply: self.reply(broker, lambda: told(reply))),
            lambda: told(None),
        )
        self.later(wait_us, lambda: told(None))

    def _again(self, act: Callable[[], None]) -> None:
        """Try again later, perhaps at another coordinator."""
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
        self._say(messages.OffsetFetch(self.group, (self._of,)), self._looked)

    def _looked(self, reply: Answer) -> None:
        if not isinstance(reply, messages.OffsetsFetched) or reply.error is not E.NONE:
            self._again(self._look)
            return
        shown = reply.positions[self._of]
        self._at = shown.offset if isinstance(shown, messages.OffsetAndMetadata) else 0
        self._commit()

    def _commit(self) -> None:
        self._marks += 1
        position = messages.OffsetAndMetadata(
            self._at + 1 + int(self.random.random() * 5), metadata=f"{self.mark}{self.number}.{self._marks}"
        )
        asked = messages.Commit(self._who, {self._of: position})
        self._say(asked, lambda reply: self._committed(asked, position, reply))

    def _committed(self, asked: messages.Commit, position: messages.OffsetAndMetadata, reply: Answer) -> None:
        error = reply.errors[self._of] if isinstance(reply, messages.Committed) else None
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
    """A member of a group. The group's leader assigns each member one partition, another one in each generation."""

    prefix = "group"
    name: str | None = None
    """Its group instance id, for static members."""

    def __init__(self, world: PartitionsSimulator, number: int, group: int) -> None:
        super().__init__(world, number, group)
        self._teller = Teller(world, self.group)
        self._id = ""
        self._former: list[messages.GroupIdentity] = []
        """Its last identities in earlier generations."""

    def _say(self, ask: messages.Ask, heard: Heard, wait_us: int = ANSWER_US) -> None:
        if isinstance(ask, messages.Commit):
            self._teller.begins(self._who, self._of, self._at)
            heard = self._teller.commits(ask, heard)
        super()._say(ask, heard, wait_us)

    def _begin(self) -> None:
        self._join()

    def _join(self) -> None:
        who, protocols = (
            messages.GroupIdentity(self.group, self._id, instance=self.name),
            (messages.SupportedProtocol("by turns", b""),),
        )
        ask = messages.Join(who, "consumer", protocols, SESSION_MS, REBALANCE_MS, client_id=f"c{self.number}")
        self._say(ask, self._joined, JOIN_US)

    def _joined(self, reply: Answer) -> None:
        if not isinstance(reply, messages.Joined):
            self._again(self._join)
        elif reply.error is E.MEMBER_ID_REQUIRED:
            self._id = reply.member
            self._join()
        elif reply.error is not E.NONE:
            self._fenced(reply.error)
        else:
            self._id = reply.member
            if self._who.member:
                self._former = [*self._former[-3:], self._who]
            self._who = messages.GroupIdentity(self.group, reply.member, reply.generation, self.name)
            if self.random.random() < 0.2:
                self._stray(self._who, messages.Commit)  # the generation has no assignment yet
            dealt = _dealt(reply) if reply.leader == reply.member else {}
            names = {each.member: each.instance or each.member for each in reply.members}
            self.world.checkers.assignments.sent(self._who, {names[member]: share for member, share in dealt.items()})
            self._say(messages.Sync(self._who, dealt), self._synced, JOIN_US)

    def _synced(self, reply: Answer) -> None:
        if not isinstance(reply, messages.Synced):
            self._again(self._join)
        elif reply.error is not E.NONE or not reply.assignment:
            self._fenced(reply.error)
        else:
            self.world.checkers.assignments.received(self._who, reply.assignment)
            self._of = TopicPartition("data", int(reply.assignment))
            self._teller.given(self._who, self._of)
            self.world.counted("partitions taken over")
            self._look()

    def _stray(self, who: messages.GroupIdentity, kind: type) -> None:
        """Send a request that is out of place, as a client does that has missed something, and do not wait for the
        reply."""
        broker = self._coordinator
        if broker is None:
            return
        ask: messages.Ask = messages.Heartbeat(who)
        if kind is messages.Commit:
            self._marks += 1
            position = messages.OffsetAndMetadata(self._at + 1, metadata=f"stray {self.number}.{self._marks}")
            ask = messages.Commit(who, {TopicPartition("stray", self.number): position})
        elif kind is messages.Sync:
            ask = messages.Sync(who)
        elif kind is messages.Leave:
            ask = messages.Leave(self.group, (messages.LeavingMember(who.member),))
        self.world.counted(f"stray {kind.__name__}")
        self.ask(broker, partial(broker.groups.ask, ask, lambda _: None), lambda: None)

    def _next(self) -> None:
        if self._former and self.random.random() < 0.15:
            who = self._former[int(self.random.random() * len(self._former))]
            leaves = [messages.Leave] if who.member != self._who.member else []
            kinds = [messages.Heartbeat, messages.Commit, messages.Sync, *leaves]
            self._stray(who, kinds[int(self.random.random() * len(kinds))])
        share = self.random.random()
        if share > 0.97:
            self._join()  # as a consumer does whose topics have changed
        elif share < 0.04:
            self._after((SESSION_MS + 100) * 1_000, self._commit)
        elif share < 0.3:
            self._commit()
        else:
            self._say(messages.Heartbeat(self._who), self._beaten)

    def _beaten(self, reply: Answer) -> None:
        if not isinstance(reply, messages.HeartbeatAnswered):
            self._again(self._next)
        elif reply.error is E.NONE:
            super()._next()
        elif reply.error in REFUSED:
            self._fenced(reply.error)
        else:
            self._again(self._next)

    def _fenced(self, error: ErrorCode) -> None:
        """Join again, under a new id if the coordinator does not know the old one any more."""
        if error in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID):
            self._id = ""
        self._again(self._join)

    def _end(self) -> None:
        if self.random.random() < 0.5:
            self._left_it(None)
        else:
            self._say(messages.Leave(self.group, (messages.LeavingMember(self._id),)), self._left_it)

    def _left_it(self, _: messages.Reply | None) -> None:
        self._id, self._busy = "", False
        if self._left:
            self.give(0)


class Repeating(Member):
    """A member one of whose former commits arrives once more after it has joined again."""

    def __init__(self, world: PartitionsSimulator, number: int, group: int) -> None:
        super().__init__(world, number, group)
        self._last: messages.Commit | None = None

    def _committed(self, asked: messages.Commit, position: messages.OffsetAndMetadata, reply: Answer) -> None:
        self._last = asked
        super()._committed(asked, position, reply)

    def _synced(self, reply: Answer) -> None:
        broker = self._coordinator
        super()._synced(reply)
        late, self._last = self._last, None
        if broker is None or late is None or not isinstance(reply, messages.Synced) or reply.error is not E.NONE:
            return
        late = self._repeats(broker, late)
        if late is not None:
            told = self._teller.commits(late, lambda _: None)
            act = partial(broker.groups.ask, late, lambda reply: self.reply(broker, lambda: told(reply)))
            self.ask(broker, act, lambda: None)

    @abstractmethod
    def _repeats(self, broker: Any, late: messages.Commit) -> messages.Commit | None:
        """Return the commit, if it is to arrive once more."""


class Hasty(Repeating):
    """A member whose last commit of a generation arrives once more in the next one."""

    mark = "late "

    def _repeats(self, broker: Any, late: messages.Commit) -> messages.Commit | None:
        if late.identity.member != self._who.member or late.identity.generation >= self._who.generation:
            return None
        self.world.counted("late commits")
        return late


class Named(Repeating):
    """A static member: its name outlives its ids.

    It is restarted now and then, and continues with its partition. Its last commit before that arrives once more when
    its successor has joined.
    """

    mark = "named "

    def __init__(self, world: PartitionsSimulator, number: int, group: int) -> None:
        super().__init__(world, number, group)
        self.name = f"i{number}"

    def _next(self) -> None:
        if self.random.random() < 0.1:
            self._id = ""
            self._again(self._join)
        else:
            super()._next()

    def _repeats(self, broker: Any, late: messages.Commit) -> messages.Commit | None:
        if late.identity.member == self._who.member:
            return None
        self.world.counted("commits of replaced members")
        late = evolve(late)
        self.world.checkers.positions.replaced(broker, late)
        return late

    def _end(self) -> None:
        """End without leaving the group: it may be back before its session expires."""
        self._left_it(None)


def _dealt(joined: messages.Joined) -> dict[str, bytes]:
    """Assign each member another partition than in the generation before, so that a mix-up is noticed."""
    count = len(joined.members)
    return {each.member: b"%d" % ((place + joined.generation) % count) for place, each in enumerate(joined.members)}
