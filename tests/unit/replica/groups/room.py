"""A coordinator to talk with: its clock, the offsets topic that it writes to, and what was answered."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from attrs import define, field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import Load
from replica.core.errors import ErrorCode
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.core.groups.group_effects import GroupAppend, Note, Rebalancing, Record
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
    MembersLeft,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsFetched,
    Reply,
    SupportedProtocol,
    Sync,
    Synced,
    Ticket,
)
from replica.core.groups.group_metadata import GroupMetadata
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import GroupState
from replica.core.groups.partitioning import partition_of
from replica.wire.group_records import topics_of

E = ErrorCode
PARTITIONS = 4
GROUP = "readers"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def subscription(*topics: str) -> bytes:
    """As consumers write it: version 0, topics, no user data."""
    named = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + named + b"\xff\xff\xff\xff"


@frozen
class Ended:
    """The end of a producer's transaction, as it stands in the topic."""

    producer: int
    committed: bool


class Room:
    """`held` True: nothing that is written becomes safe before `release` or `fail`."""

    def __init__(self, *, lead: bool = True, **settings: int) -> None:
        self.settings = GroupSettings(**settings)
        self.now = 1_000_000
        self.topic: dict[int, list[tuple[Record, int | None] | Ended]] = {each: [] for each in range(PARTITIONS)}
        """Records, each with the producer in whose transaction it is."""
        self.answers: dict[Ticket, Reply] = {}
        self.notes: list[Note] = []
        self.held: list[GroupAppend] = []
        self.loads: list[Load] = []
        self.holding = False
        self.epoch = 0
        self._tickets = itertools.count(1)
        self._ids = itertools.count(1)
        self.coordinator = self._new()
        if lead:
            self.take_over()

    def _new(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.settings, self.now, lambda: f"id{next(self._ids)}", topics_of)
        coordinator.topic.partitions = PARTITIONS
        return coordinator

    # -- who coordinates -----------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Another broker leads the whole topic from here on, and knows what stands in it."""
        self.coordinator = self._new()
        self.held.clear()
        self.epoch += 1
        for partition in range(PARTITIONS):
            self.coordinator.topic.elected(partition, self.epoch)
        self.turn()
        while self.loads:
            self.load(self.loads.pop())

    def load(self, load: Load) -> None:
        for offset, entry in enumerate(self.topic[load.partition]):
            if isinstance(entry, Ended):
                self.coordinator.replay_end(load, offset, entry.producer, entry.committed)
            else:
                self.coordinator.replay(load, offset, *entry)
        self.coordinator.loaded(load, self.now)
        self.turn()

    def resign(self) -> None:
        for partition in range(PARTITIONS):
            self.coordinator.topic.resigned(partition, self.epoch + 1, self.now)
        self.turn()

    # -- time and disks --------------------------------------------------------------------------------------

    def turn(self) -> None:
        while True:
            ready = self.coordinator.ready()
            for answer in ready.answers:
                assert answer.ticket not in self.answers, "every ticket is answered once"
                self.answers[answer.ticket] = answer.reply
            self.notes += ready.notes
            self.loads += ready.loads
            self.held += ready.appends
            if self.holding or not self.held:
                return
            self.write(self.held.pop(0))

    def write(self, append: GroupAppend) -> None:
        at = self.store(append)
        self.coordinator.topic.appended(append.id, E.NONE, at, self.now)

    def store(self, append: GroupAppend) -> int:
        log = self.topic[append.partition]
        producer = None if append.producer is None else append.producer[0]
        log.extend((record, producer) for record in append.records)
        return len(log) - len(append.records)

    def end(self, producer: int, committed: bool, group: str = GROUP) -> tuple[int, int, bool, int]:
        """Stands in the topic from here on. Returned is what the coordinator is to be told when that is safe."""
        partition = partition_of(group, PARTITIONS)
        self.topic[partition].append(Ended(producer, committed))
        return partition, producer, committed, len(self.topic[partition]) - 1

    def ended(self, producer: int, committed: bool, group: str = GROUP) -> None:
        self.coordinator.groups.complete_transaction(*self.end(producer, committed, group))
        self.turn()

    def release(self) -> None:
        self.holding = False
        self.turn()

    def fail(self, error: ErrorCode) -> None:
        """The oldest write comes to nothing."""
        append = self.held.pop(0)
        self.coordinator.topic.appended(append.id, error, -1, self.now)
        self.turn()

    def wait(self, ms: int) -> None:
        end = self.now + ms
        while self.coordinator.deadline <= end:
            self.now = max(self.now, self.coordinator.deadline)
            self.coordinator.tick(self.now)
            self.turn()
        self.now = end

    def close(self, connection: str) -> None:
        self.coordinator.connection_closed(connection, self.now)
        self.turn()

    # -- who asks --------------------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> Ticket:
        ticket = Ticket(next(self._tickets))
        self.coordinator.step(ticket, ask, self.now)
        self.turn()
        return ticket

    def heard(self, ticket: Ticket) -> Reply | None:
        return self.answers.get(ticket)

    def commit(self, positions: dict[TopicPartition, int], group: str = GROUP, **who: int | str) -> Ticket:
        identity = GroupIdentity(group, **who)  # type: ignore[arg-type]
        return self.ask(Commit(identity, {where: OffsetAndMetadata(offset) for where, offset in positions.items()}))

    def committed(self, positions: dict[TopicPartition, int], group: str = GROUP) -> ErrorCode:
        reply = self.answers[self.commit(positions, group)]
        assert isinstance(reply, Committed)
        [error] = set(reply.errors.values())
        return error

    def fetch(self, *wheres: TopicPartition, group: str = GROUP) -> dict[TopicPartition, int | None]:
        reply = self.answers[self.ask(OffsetFetch(group, wheres or None))]
        assert isinstance(reply, OffsetsFetched), reply
        assert reply.error is E.NONE, reply
        return {
            where: position.offset if isinstance(position, OffsetAndMetadata) else None
            for where, position in reply.positions.items()
        }

    def group(self, name: str = GROUP) -> GroupMetadata:
        return next(group for group in self.coordinator.groups if group.id == name)

    def state(self) -> GroupState:
        return self.group().state

    def causes(self) -> list[str]:
        return [note.cause.value for note in self.notes if isinstance(note, Rebalancing)]

    def records(self, group: str = GROUP) -> list[Record]:
        entries = self.topic[partition_of(group, PARTITIONS)]
        return [entry[0] for entry in entries if not isinstance(entry, Ended) and entry[0].group == group]


@define(eq=False)
class Client:
    """A member, or somebody who wants to be one. It says what it is told to say, and remembers who it is."""

    room: Room
    name: str
    instance: str | None = None
    protocols: tuple[SupportedProtocol, ...] = field(factory=lambda: (SupportedProtocol("range", subscription("t")),))
    protocol_type: str = "consumer"
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    id_first: bool = True
    can_skip: bool = False
    member: str = ""
    generation: int = -1
    joining: Ticket | None = None
    syncing: Ticket | None = None

    @property
    def identity(self) -> GroupIdentity:
        return GroupIdentity(GROUP, self.member, self.generation, self.instance)

    def join(self) -> Joined | None:
        """Asks, and comes again with the id that it is given first, as clients do. None: it has to wait."""
        self.joining = self.room.ask(
            Join(
                GroupIdentity(GROUP, self.member, instance=self.instance),
                self.protocol_type,
                self.protocols,
                self.session_ms,
                self.rebalance_ms,
                client_id=self.name,
                client_host="/127.0.0.1",
                id_first=self.id_first,
                can_skip=self.can_skip,
            )
        )
        reply = self.joined()
        if reply is not None and reply.error is E.MEMBER_ID_REQUIRED:
            return self.join()
        return reply

    def joined(self) -> Joined | None:
        assert self.joining is not None
        reply = self.room.heard(self.joining)
        assert reply is None or isinstance(reply, Joined)
        if reply is not None and reply.error in (E.NONE, E.MEMBER_ID_REQUIRED):
            self.member, self.generation = reply.member, reply.generation
        return reply

    def sync(self, assignments: dict[str, bytes] | None = None) -> Synced | None:
        self.syncing = self.room.ask(Sync(self.identity, assignments or {}))
        return self.synced()

    def synced(self) -> Synced | None:
        assert self.syncing is not None
        reply = self.room.heard(self.syncing)
        assert reply is None or isinstance(reply, Synced)
        return reply

    def heartbeat(self) -> ErrorCode:
        reply = self.room.answers[self.room.ask(Heartbeat(self.identity))]
        assert isinstance(reply, HeartbeatAnswered)
        return reply.error

    def leave(self, reason: str = "") -> ErrorCode:
        leaver = LeavingMember(self.member, self.instance, reason)
        reply = self.room.answers[self.room.ask(Leave(GROUP, (leaver,)))]
        assert isinstance(reply, MembersLeft)
        return reply.each[0][1] if reply.each else reply.error

    def commit(self, positions: dict[TopicPartition, int]) -> ErrorCode | None:
        ticket = self.room.ask(Commit(self.identity, {where: OffsetAndMetadata(at) for where, at in positions.items()}))
        reply = self.room.heard(ticket)
        if reply is None:
            return None
        assert isinstance(reply, Committed)
        [error] = set(reply.errors.values())
        return error


def stable(room: Room, *clients: Client) -> Client:
    """They form a group: whoever leads gives each of them its own name as its assignment. The leader is returned."""
    for client in clients:
        client.join()
    while room.state() is GroupState.PREPARING_REBALANCE:
        room.wait(1_000)
    return share(room, clients)


def share(room: Room, clients: Iterable[Client]) -> Client:
    leader = led_by(clients)
    reply = leader.joined()
    assert reply is not None
    names = dict(named(clients))
    leader.sync({entry.member: names.get(entry.member, "").encode() for entry in reply.members})
    for client in clients:
        if client is not leader:
            client.sync()
        answer = client.synced()
        assert answer is not None
        assert answer.assignment == client.name.encode()
    assert room.state() is GroupState.STABLE
    return leader


def named(clients: Iterable[Client]) -> Iterator[tuple[str, str]]:
    for client in clients:
        yield client.member, client.name


def led_by(clients: Iterable[Client]) -> Client:
    leaders = []
    for client in clients:
        reply = client.joined()
        assert reply is not None
        assert reply.error is E.NONE, reply
        if reply.leader == client.member:
            leaders.append(client)
    [leader] = leaders
    return leader
