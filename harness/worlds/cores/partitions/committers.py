"""Clients that commit positions: members of groups, and clients that commit positions without being members.

Each client has one open request at a time, which may remain unanswered. After a commit with an unknown outcome it
commits again with other metadata. Now and then a member is silent for longer than its session timeout.
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
OnReply: TypeAlias = Callable[[Answer], None]
"""Receives a reply, or None if there is none."""
SESSION_MS: Final = 300
REBALANCE_MS: Final = 400
JOIN_US: Final = 1_000_000
"""The time for which a member waits for the reply to a join or a sync."""
PAUSE_US: Final = 8_000
E = ErrorCode
REFUSED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)
"""The errors after which certainly nothing was committed."""


class MemberRecorder:
    """Records the assignments and commits of one member for the checkers.

    A member reads nothing. The position before its first commit in a partition counts as the begin of its assignment.
    """

    def __init__(self, world: PartitionsSimulator, group: str) -> None:
        self._world = world
        self._group = group
        self._recorder = world.recorders.setdefault(group, Recorder(lambda: world.now))
        self._client = self._recorder.producer()
        self._began: tuple[messages.GroupIdentity, TopicPartition] | None = None

    def assigned(self, member: messages.GroupIdentity, where: TopicPartition, offset: int = records.NOWHERE) -> None:
        """Record that the generation of a member assigns it a partition, in which it may never commit."""
        begins = (records.Place(str(where), offset),)
        self._recorder.add(records.Assigned(self._world.now, self._client, begins, (), self._group, member.generation))

    def begins(self, member: messages.GroupIdentity, where: TopicPartition, offset: int) -> None:
        """Record the begin of an assignment at the first commit of a member in a partition."""
        if self._began != (member, where):
            self._began = member, where
            self.assigned(member, where, offset)

    def commits(self, commit: messages.Commit, on_reply: OnReply) -> OnReply:
        """Record a commit. Return the function to call with the reply, or with None if there is none."""
        recorder, world, client, call = self._recorder, self._world, self._client, self._recorder.call()
        places = tuple(records.Place(str(where), position.offset) for where, position in commit.positions.items())
        recorder.add(records.Committing(world.now, client, call, self._group, places))

        def record(reply: Answer) -> None:
            [error] = reply.errors.values() if isinstance(reply, messages.Committed) else [None]
            if error is ErrorCode.NONE:
                recorder.add(records.Committed(world.now, client, call))
            elif error in REFUSED:
                recorder.add(records.Failed(world.now, client, call, str(error)))
            else:
                recorder.add(records.Unknown(world.now, client, call))
            on_reply(reply)

        return record


class Committer(Party):
    """A client that commits positions without being a member. Each client of the group has its own partition."""

    prefix = "alone"
    mark = ""
    """The prefix of the metadata of its positions, which tells the kinds of committers apart."""

    def __init__(self, world: PartitionsSimulator, number: int, group: int) -> None:
        self.group = f"{self.prefix}-{group}"
        super().__init__(world, number, TopicPartition(self.group, number), "committer")
        self._identity = messages.GroupIdentity(self.group)
        self._partition = TopicPartition("data", number)
        self._left = 0
        self._busy = False
        self._marks = 0
        self._position = 0
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
        """Give up all commits, because the topic of positions does not exist."""
        self._left = 0

    def _begin(self) -> None:
        self._fetch_position()

    # -- requests ----------------------------------------------------------------------------------------

    def _send(self, ask: messages.Ask, on_reply: OnReply, wait_us: int = ANSWER_US) -> None:
        """Send a request to the coordinator. `on_reply` receives the reply, or None if there is none."""
        broker = self._coordinator = self._coordinator or self.found(lambda each: each.groups.find(self.group))
        self.request(broker, lambda reply: broker.groups.ask(ask, reply), on_reply, wait_us)

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

    def _fetch_position(self) -> None:
        self._send(messages.OffsetFetch(self.group, (self._partition,)), self._position_fetched)

    def _position_fetched(self, reply: Answer) -> None:
        if not isinstance(reply, messages.OffsetsFetched) or reply.error is not E.NONE:
            self._again(self._fetch_position)
            return
        shown = reply.positions[self._partition]
        self._position = shown.offset if isinstance(shown, messages.OffsetAndMetadata) else 0
        self._commit()

    def _commit(self) -> None:
        self._marks += 1
        position = messages.OffsetAndMetadata(
            self._position + 1 + int(self.random.random() * 5), metadata=f"{self.mark}{self.number}.{self._marks}"
        )
        commit = messages.Commit(self._identity, {self._partition: position})
        self._send(commit, lambda reply: self._committed(commit, position, reply))

    def _committed(self, commit: messages.Commit, position: messages.OffsetAndMetadata, reply: Answer) -> None:
        error = reply.errors[self._partition] if isinstance(reply, messages.Committed) else None
        if error is E.NONE:
            self._position = position.offset
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
            self._again(self._commit if self.random.random() < 0.5 else self._fetch_position)

    def _next(self) -> None:
        if self.random.random() < 0.3:
            self._fetch_position()
        else:
            self._commit()

    def _end(self) -> None:
        self._busy = False

    def _fenced(self, error: ErrorCode) -> None:
        self._again(self._fetch_position)


class Member(Committer):
    """A member of a group. The leader assigns each member one partition, another one in each generation."""

    prefix = "group"
    name: str | None = None
    """The group instance id of a static member."""

    def __init__(self, world: PartitionsSimulator, number: int, group: int) -> None:
        super().__init__(world, number, group)
        self._recorder = MemberRecorder(world, self.group)
        self._id = ""
        self._former: list[messages.GroupIdentity] = []
        """The last identities of the member in earlier generations."""

    def _send(self, ask: messages.Ask, on_reply: OnReply, wait_us: int = ANSWER_US) -> None:
        if isinstance(ask, messages.Commit):
            self._recorder.begins(self._identity, self._partition, self._position)
            on_reply = self._recorder.commits(ask, on_reply)
        super()._send(ask, on_reply, wait_us)

    def _begin(self) -> None:
        self._join()

    def _join(self) -> None:
        identity = messages.GroupIdentity(self.group, self._id, instance=self.name)
        protocols = (messages.SupportedProtocol("by turns", b""),)
        ask = messages.Join(identity, "consumer", protocols, SESSION_MS, REBALANCE_MS, client_id=f"c{self.number}")
        self._send(ask, self._joined, JOIN_US)

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
            if self._identity.member:
                self._former = [*self._former[-3:], self._identity]
            self._identity = messages.GroupIdentity(self.group, reply.member, reply.generation, self.name)
            if self.random.random() < 0.2:
                self._stray(self._identity, messages.Commit)  # the generation has no assignment yet
            assignments = _assignments(reply) if reply.leader == reply.member else {}
            names = {each.member: each.instance or each.member for each in reply.members}
            self.world.checkers.assignments.sent(
                self._identity, {names[member]: share for member, share in assignments.items()}
            )
            self._send(messages.Sync(self._identity, assignments), self._synced, JOIN_US)

    def _synced(self, reply: Answer) -> None:
        if not isinstance(reply, messages.Synced):
            self._again(self._join)
        elif reply.error is not E.NONE or not reply.assignment:
            self._fenced(reply.error)
        else:
            self.world.checkers.assignments.received(self._identity, reply.assignment)
            self._partition = TopicPartition("data", int(reply.assignment))
            self._recorder.assigned(self._identity, self._partition)
            self.world.counted("partitions taken over")
            self._fetch_position()

    def _stray(self, identity: messages.GroupIdentity, kind: type) -> None:
        """Send a request that is out of place, as a client with an outdated state may. Do not wait for the reply."""
        broker = self._coordinator
        if broker is None:
            return
        ask: messages.Ask = messages.Heartbeat(identity)
        if kind is messages.Commit:
            self._marks += 1
            position = messages.OffsetAndMetadata(self._position + 1, metadata=f"stray {self.number}.{self._marks}")
            ask = messages.Commit(identity, {TopicPartition("stray", self.number): position})
        elif kind is messages.Sync:
            ask = messages.Sync(identity)
        elif kind is messages.Leave:
            ask = messages.Leave(self.group, (messages.LeavingMember(identity.member),))
        self.world.counted(f"stray {kind.__name__}")
        self.ask(broker, partial(broker.groups.ask, ask, lambda _: None), lambda: None)

    def _next(self) -> None:
        if self._former and self.random.random() < 0.15:
            former = self._former[int(self.random.random() * len(self._former))]
            leaves = [messages.Leave] if former.member != self._identity.member else []
            kinds = [messages.Heartbeat, messages.Commit, messages.Sync, *leaves]
            self._stray(former, kinds[int(self.random.random() * len(kinds))])
        share = self.random.random()
        if share > 0.97:
            self._join()  # as a consumer does after a change of its topics
        elif share < 0.04:
            self._after((SESSION_MS + 100) * 1_000, self._commit)
        elif share < 0.3:
            self._commit()
        else:
            self._send(messages.Heartbeat(self._identity), self._heartbeat_answered)

    def _heartbeat_answered(self, reply: Answer) -> None:
        if not isinstance(reply, messages.HeartbeatAnswered):
            self._again(self._next)
        elif reply.error is E.NONE:
            super()._next()
        elif reply.error in REFUSED:
            self._fenced(reply.error)
        else:
            self._again(self._next)

    def _fenced(self, error: ErrorCode) -> None:
        """Join again, with a new id if the error means that the old identity is not valid any more."""
        if error in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID):
            self._id = ""
        self._again(self._join)

    def _end(self) -> None:
        if self.random.random() < 0.5:
            self._finished(None)
        else:
            self._send(messages.Leave(self.group, (messages.LeavingMember(self._id),)), self._finished)

    def _finished(self, _: messages.Reply | None) -> None:
        self._id, self._busy = "", False
        if self._left:
            self.give(0)


class RepeatingMember(Member):
    """A member that sends one of its former commits once more after it has joined again."""

    def __init__(self, world: PartitionsSimulator, number: int, group: int) -> None:
        super().__init__(world, number, group)
        self._last: messages.Commit | None = None

    def _committed(self, commit: messages.Commit, position: messages.OffsetAndMetadata, reply: Answer) -> None:
        self._last = commit
        super()._committed(commit, position, reply)

    def _synced(self, reply: Answer) -> None:
        broker = self._coordinator
        super()._synced(reply)
        late, self._last = self._last, None
        if broker is None or late is None or not isinstance(reply, messages.Synced) or reply.error is not E.NONE:
            return
        late = self._repeats(broker, late)
        if late is not None:
            record = self._recorder.commits(late, lambda _: None)
            act = partial(broker.groups.ask, late, lambda reply: self.reply(broker, lambda: record(reply)))
            self.ask(broker, act, lambda: None)

    @abstractmethod
    def _repeats(self, broker: Any, late: messages.Commit) -> messages.Commit | None:
        """Return the commit if it is to arrive once more, or None."""


class HastyMember(RepeatingMember):
    """A member whose last commit of a generation arrives once more in the next one."""

    mark = "late "

    def _repeats(self, broker: Any, late: messages.Commit) -> messages.Commit | None:
        if late.identity.member != self._identity.member or late.identity.generation >= self._identity.generation:
            return None
        self.world.counted("late commits")
        return late


class StaticMember(RepeatingMember):
    """A static member, which keeps its group instance id while its member ids change.

    It restarts now and then, and continues with its partition. Its last commit before a restart arrives once more after
    it has joined again.
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
        if late.identity.member == self._identity.member:
            return None
        self.world.counted("commits of replaced members")
        late = evolve(late)
        self.world.checkers.positions.replaced(broker, late)
        return late

    def _end(self) -> None:
        """End without leaving the group. The member may be back before its session expires."""
        self._finished(None)


def _assignments(joined: messages.Joined) -> dict[str, bytes]:
    """Assign each member another partition than in the previous generation, so that a mix-up is noticed."""
    count = len(joined.members)
    return {each.member: b"%d" % ((place + joined.generation) % count) for place, each in enumerate(joined.members)}
