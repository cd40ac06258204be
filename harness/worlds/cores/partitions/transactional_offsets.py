"""The offsets of a group that a transactional producer commits in its transactions, as `sendOffsetsToTransaction` does.

The offsets of some transactional ids belong to a group with members. Such a producer is a member, and names its
generation in each commit. The other ids share a group without members, and a partition: there the offsets of several
transactions, and of commits outside of transactions, replace each other.

A producer also fetches the offsets, often while its transaction is open, with and without `stable` (KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Any, Final, TypeAlias

from harness.checkers.transactions import NOWHERE, PositionReply, Transaction
from harness.worlds.cores.partitions.clients import ANSWER_US, RETRY_US, Party
from harness.worlds.cores.partitions.committers import JOIN_US, REBALANCE_MS
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups import group_messages as messages

OnReply: TypeAlias = Callable[[Any], None]
"""Receives the reply, or None if there is none."""
Step: TypeAlias = Callable[[OnReply], None]
"""Sends a request, or waits."""
Steps: TypeAlias = Generator[Step, Any, Any]
Insist: TypeAlias = Callable[[Callable[[], Step]], Steps]
"""Repeats a request until it succeeds, or fails for good."""

MEMBERS: Final = 0.5
"""The share of the transactional ids whose group has members."""
SESSION_MS: Final = 1_500
"""The session timeout of a member. It sends a heartbeat only before each of its transactions."""
JOINS: Final = 6
"""The number of requests to join, after which a member commits without a generation."""
GROUP: Final = "transactional"


class TransactionalOffsets:
    """The group of one transactional producer, and the offsets that it commits."""

    def __init__(self, party: Party, ident: str, shared: int) -> None:
        """`shared`: the partition of `data` that ids without members share. Smaller numbers belong to one id each."""
        self._party = party
        self._world = party.world
        seed = party.world.script.seed
        self._random = Random(f"{seed}/offsets in transactions/{party.number}")
        self._with_members = Random(f"{seed}/members in transactions/{ident}").random() < MEMBERS
        self.group = f"{GROUP}-{ident}" if self._with_members else GROUP
        self.own = TopicPartition("data", party.number % shared)
        """The partition whose offset only transactions of this id commit."""
        self._name = f"{self.group} in {self.own}"
        self._world.positions[self._name] = self.group, self.own
        self._shared = TopicPartition("data", shared)
        self._identity = messages.GroupIdentity(self.group)
        self._coordinator: Any = None
        self._marks = 0

    @property
    def _nameless(self) -> messages.GroupIdentity:
        """The identity of a client that names no member."""
        return messages.GroupIdentity(self.group)

    def forget_coordinator(self) -> None:
        self._coordinator = None

    # -- membership --------------------------------------------------------------------------------------

    def enter(self) -> Steps:
        """Join the group, unless the producer is a member of its generation."""
        if not self._with_members:
            return
        if self._identity.member:
            reply = yield self._ask(messages.Heartbeat(self._identity))
            if isinstance(reply, messages.HeartbeatAnswered) and reply.error is ErrorCode.NONE:
                return
        member = ""
        self._identity = self._nameless
        for _ in range(JOINS):
            reply = yield self._ask(self._join(member), JOIN_US)
            if isinstance(reply, messages.Joined) and reply.error is ErrorCode.MEMBER_ID_REQUIRED:
                member = reply.member
            elif isinstance(reply, messages.Joined) and reply.error is ErrorCode.NONE:
                identity = messages.GroupIdentity(self.group, reply.member, reply.generation)
                shares = {each.member: each.member.encode() for each in reply.members}
                reply = yield self._ask(messages.Sync(identity, shares), JOIN_US)
                if isinstance(reply, messages.Synced) and reply.error is ErrorCode.NONE:
                    self._identity = identity
                    self._world.counted("transactional producers in a group")
                    return
            else:
                member = ""
                yield from self._pause()

    def _join(self, member: str) -> messages.Join:
        identity = messages.GroupIdentity(self.group, member)
        protocols = (messages.SupportedProtocol("by turns", b""),)
        client = f"t{self._party.number}"
        return messages.Join(identity, "consumer", protocols, SESSION_MS, REBALANCE_MS, client_id=client)

    def _pause(self) -> Steps:
        self._coordinator = None
        yield lambda on_reply: self._party.later(RETRY_US, lambda: on_reply(None))

    # -- commits and fetches -----------------------------------------------------------------------------

    def commit(self, made: Transaction, producer: int, epoch: int, insist: Insist) -> Steps:
        """Commit offsets in a transaction to which the partition of the group was added, and fetch them."""
        ask = self._next_commit(made, producer, epoch, self._identity)
        named = self._identity.generation >= 0
        reply = yield from insist(lambda: self._ask(ask))
        self._world.counted(f"offsets committed in transactions by {'members' if named else 'others'}")
        if self._shared in ask.positions and self._random.random() < 0.3:
            yield self._ask(messages.Commit(self._nameless, {self._shared: self._position(made)}))
        yield from self.fetch()
        return reply

    def late_commit(self, made: Transaction, producer: int, epoch: int) -> Step:
        """Commit offsets for a fenced producer. The commit names no member, so only its epoch is wrong."""
        return self._ask(self._next_commit(made, producer, epoch, self._nameless))

    def _next_commit(
        self, made: Transaction, producer: int, epoch: int, identity: messages.GroupIdentity
    ) -> messages.CommitInTransaction:
        """Return the next commit of a transaction, with the offset that the history is to have for it."""
        position = self._position(made)
        made.positions[self._name] = position.offset
        positions = {self.own: position}
        if not self._with_members and self._random.random() < 0.5:
            positions[self._shared] = self._position(made)
        return messages.CommitInTransaction(identity, producer, epoch, positions)

    def fetch(self) -> Steps:
        """Fetch the offsets once or twice."""
        for stable in (True, False):
            if self._random.random() < 0.6:
                yield from self._fetch(stable=stable)

    def _fetch(self, *, stable: bool) -> Steps:
        journal = self._world.journal
        requested, current = journal.moment(), False

        def answered(broker: Any) -> None:
            nonlocal current
            current = self._world.checkers.positions.led(broker, self.group) is not None

        where = (self.own, self._shared)
        reply = yield self._ask(messages.OffsetFetch(self.group, where, stable), answered=answered)
        if not isinstance(reply, messages.OffsetsFetched) or reply.error is not ErrorCode.NONE or not current:
            return
        shown = reply.positions[self.own]
        if not isinstance(shown, ErrorCode):
            offset = NOWHERE if shown is None else shown.offset
            journal.positions.append(PositionReply(self._name, offset, stable, requested, journal.moment()))

    def _position(self, made: Transaction) -> messages.OffsetAndMetadata:
        """Return an offset that is greater than all before, with metadata that no other has."""
        self._marks += 1
        self._world.offsets += 1
        mark = f"transactional {made.incarnation}.{self._party.number}.{self._marks}"
        return messages.OffsetAndMetadata(self._world.offsets, metadata=mark)

    # -- requests ----------------------------------------------------------------------------------------

    def _ask(
        self, ask: messages.Ask, wait_us: int = ANSWER_US, answered: Callable[[Any], None] = lambda _: None
    ) -> Step:
        """Send a request to the coordinator. `answered` is called at the coordinator when it replies."""
        party = self._party

        def step(on_reply: OnReply) -> None:
            broker = self._coordinator = self._coordinator or party.found(
                lambda each: each.groups.find(self.group), self._random
            )

            def act(reply: OnReply) -> None:
                def answer(found: messages.Reply) -> None:
                    answered(broker)
                    reply(found)

                broker.groups.ask(ask, answer)

            party.request(broker, act, on_reply, wait_us)

        return step
