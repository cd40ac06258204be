"""Three brokers and their logs, told by hand, and the onlooker who looks at them.

    @breaks(keeper.UNCUT)
    def what_is_committed_is_cut_off(t: Tale, bad: bool) -> None:
        t.opens("a1 b1", 2 if bad else 1)
        t.has(TWO, "a1")

Each is told twice: as it should be, and with the one thing wrong that breaks the promise. Where it leads to a
situation that has to occur, it is told twice as well: so that it comes to it, and so that it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from attrs import define, evolve, field, frozen

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import GONE, Record, ident_of
from harness.checkers.partitions.keeper import Keeper
from harness.checkers.partitions.observed import Replicated
from harness.history import Change
from kraft_controller.core.commands import LeaderAndIsr, Role, UpdateMetadata
from kraft_controller.core.names import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    Version,
)
from kraft_controller.core.state import PartitionState
from kraft_controller.wire import znodes
from replica.core.errors import ErrorCode
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.isr import Isr
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.partition import Partition
from replica.core.partitions.partition_log import FetchDataInfo
from replica.core.replica_messages import Deleted, Fetched, Produced, Results
from replica.core.replica_settings import ReplicaSettings
from replica.wire import records as wire
from tests.histories.controller import scenario as store
from tests.histories.controller.scenario import ADMIN, held

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.broker import PartitionBroker
    from harness.worlds.cores.partitions.world import PartitionsWorld

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
ALL: Final = (ONE, TWO, THREE)
HERE: Final = TopicPartition("t1", 0)
ELSEWHERE: Final = TopicPartition("t2", 0)


def records(text: str) -> list[Record]:
    """`a1 b2:7/3` are a, of leader epoch 1, and b, of epoch 2, to which producer 7 gave the number 3.

    The key of `c1@k` is k, `-1` is empty, and where `.` stands is nothing.
    """
    made = []
    for word in text.split():
        if word == ".":
            made.append(GONE)
            continue
        word, _, key = word.partition("@")
        said, _, numbered = word.partition(":")
        producer, _, sequence = numbered.partition("/")
        value = b"" if said[0] == "-" else said[0].encode()
        made.append(Record(int(said[1:]), value, int(producer or -1), int(sequence or -1), key.encode()))
    return made


def batches(found: Sequence[Record], first: int = 0) -> list[tuple[int, bytes]]:
    """Two in a batch where they can be, each with the offset behind it: who reads from the second on gets the first."""
    made = []
    place = 0
    while place < len(found):
        one, *more = found[place : place + 2]
        both = [one, *(other for other in more if _goes_on(one, other))]
        offset = first + place
        place += len(both)
        if one == GONE:
            continue
        data = wire.build(
            [wire.Record(offset + number, 0, each.key or None, each.value or None) for number, each in enumerate(both)],
            leader_epoch=one.epoch,
            producer_id=one.producer,
            producer_epoch=min(one.producer, 0),
            base_sequence=one.sequence,
        )
        made.append((first + place, data))
    return made


def _goes_on(one: Record, other: Record) -> bool:
    numbered = one.producer < 0 or other.sequence == one.sequence + 1
    return (one.epoch, one.producer) == (other.epoch, other.producer) and numbered


@frozen
class Epochs:
    entries: list[tuple[int, int]]


@define(eq=False)
class Shelf:
    """A log: of records that are there, from an offset on."""

    start_offset: int = 0
    records: list[Record] = field(factory=list)
    recovery_point: int = 0
    size: int = 0
    closed: bool = False
    told: Sequence[tuple[int, int]] | None = None
    """Which epochs began where, if it does not know that from its records."""

    @property
    def epochs(self) -> Epochs:
        if self.told is not None:
            return Epochs(list(self.told))
        found: list[tuple[int, int]] = []
        for offset, record in enumerate(self.records, start=self.start_offset):
            if record != GONE and (not found or found[-1][0] != record.epoch):
                found.append((record.epoch, offset))
        return Epochs(found)

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.records)

    def read(self, offset: int, max_bytes: int, upto: int) -> FetchDataInfo:
        assert self.start_offset <= offset < upto <= self.end_offset
        there = batches(self.records, self.start_offset)
        return FetchDataInfo(offset, b"".join(data for behind, data in there if behind > offset))


@define(eq=False)
class _Errors:
    failed: str | None = None


@define(eq=False)
class _Files:
    errors: _Errors = field(factory=_Errors)

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


@define(eq=False)
class _Logs:
    logs: dict[tuple[str, int], Shelf] = field(factory=dict)


@define(eq=False)
class Disk:
    files: _Files = field(factory=_Files)
    logs: _Logs = field(factory=_Logs)
    idents: dict[TopicPartition, TopicId | None] = field(factory=dict)

    def held(self) -> dict[TopicPartition, tuple[Shelf, bytes | None]]:
        found = {}
        for key, shelf in self.logs.logs.items():
            ident = self.idents[TopicPartition(*key)]
            found[TopicPartition(*key)] = shelf, None if ident is None else ident_of(ident)
        return found


@define(eq=False)
class _Core:
    partitions: dict[TopicPartition, Partition] = field(factory=dict)
    live: dict[BrokerId, None] = field(factory=lambda: dict.fromkeys(ALL))


@define(eq=False)
class _Metadata:
    states: dict[TopicPartition, PartitionState] = field(factory=dict)

    def state(self, where: TopicPartition) -> PartitionState | None:
        return self.states.get(where)


@define(eq=False)
class Member:
    """A broker, as far as somebody sees of it who looks on."""

    id: BrokerId
    disk: Disk = field(factory=Disk)
    core: _Core = field(factory=_Core)
    metadata: _Metadata = field(factory=_Metadata)
    now: int = 1_000
    epoch: BrokerEpoch = BrokerEpoch(0)
    """As it is registered."""

    def clock(self) -> int:
        return self.now

    @staticmethod
    def ident(partition: Partition) -> bytes:
        assert partition.topic_id is not None
        return ident_of(partition.topic_id)


@define(eq=False)
class Producer:
    where: TopicPartition
    settled: bool = True

    def forget(self) -> None:
        self.settled = True


@define(eq=False)
class Committer:
    number: int
    group: str
    settled: bool = False

    def forget(self) -> None:
        self.settled = True


@frozen
class Consumer:
    number: int
    where: TopicPartition
    offset: int
    committed: bool = False


@define(eq=False)
class Workload:
    producers: dict[tuple[int, TopicPartition, str], Producer] = field(factory=dict)
    consumers: dict[tuple[int, TopicPartition], Consumer] = field(factory=dict)
    committers: dict[tuple[int, int, str], Committer] = field(factory=dict)
    transactors: dict[int, Any] = field(factory=dict)


@define(eq=False)
class World:
    store: store.Scenario
    replication: Replicated
    brokers: dict[int, Member]
    workload: Workload = field(factory=Workload)
    counts: list[str] = field(factory=list)
    transacted: frozenset[str] = frozenset()
    keeper: Keeper = field(init=False)

    def counted(self, what: str) -> None:
        self.counts.append(what)

    @property
    def changes_upto(self) -> int:
        return 1 + len(self.store.changes)

    def changes_since(self, place: int) -> Iterator[Change]:
        yield from self.store.changes[place - 1 :]


class Tale:
    def __init__(self) -> None:
        self.store = store.Scenario()
        # All that goes is old enough, where a story says nothing else.
        replication = Replicated(ReplicaSettings(), LogConfig(retention_ms=0), durable=True, anywhere=True)
        self.world = World(self.store, replication, {each: Member(each) for each in ALL})
        self.keeper = self.world.keeper = Keeper(cast("PartitionsWorld", self.world))
        self.blind = False
        """Nobody looks on, until somebody does again."""

    def set_up(self, *, durable: bool = True, sync: bool = False, least: int = 1, lag_ms: int = 100) -> None:
        settings = ReplicaSettings(sync_writes=sync, min_insync=least, lag_time_max_ms=lag_ms)
        self.world.replication = evolve(self.world.replication, settings=settings, durable=durable)

    def lasts(self, *, ms: int = -1, size: int = -1) -> None:
        """Records go when they are older, and logs when they are longer."""
        self.world.replication = evolve(self.world.replication, log=LogConfig(retention_ms=ms, retention_bytes=size))

    def opens(self, text: str, committed: int, isr: Sequence[BrokerId] = ALL) -> None:
        """Three brokers hold this; 1 leads in epoch 1, and so much is committed, with all who are in sync."""
        self.topic(*ALL)
        self.state(ONE, isr, 1)
        for broker in ALL:
            if broker != ONE:
                self.follows(broker, ONE, 1)
                if broker in isr:
                    self.has(broker, text)
        self.has(ONE, text)
        self.leads(ONE, 1)
        for broker in isr:
            self.knows(broker, committed)

    # -- the store -----------------------------------------------------------------------------------

    def topic(self, *brokers: int, ident: str = "1") -> None:
        self.store.topic_of({0: held(*brokers)}, ident=ident)

    def state(self, leader: int, isr: Sequence[int], epoch: int) -> None:
        self.store.state(leader, isr, epoch)

    def stateless(self) -> None:
        self.store.delete(znodes.state_path(HERE), ADMIN)

    def dooms(self, topic: str = "t1") -> None:
        """Somebody asks that it goes."""
        self.store.write(f"{znodes.DELETE_TOPICS}/{topic}", b"", ADMIN)

    # -- brokers -------------------------------------------------------------------------------------

    def member(self, broker: BrokerId) -> Member:
        return self.world.brokers[broker]

    def partition(self, broker: BrokerId) -> Partition:
        member = self.member(broker)
        found = member.core.partitions.get(HERE)
        if found is None:
            ident = member.disk.idents.setdefault(HERE, TopicId("1" * 22))
            shelf = member.disk.logs.logs.setdefault((HERE.topic, HERE.partition), Shelf())
            found = Partition(HERE, cast(Any, shelf), 0, topic_id=ident or TopicId("1" * 22), assignment=held(*ALL))
            member.core.partitions[HERE] = found
        return found

    def leads(self, broker: BrokerId, epoch: int, isr: Sequence[BrokerId] = ALL) -> None:
        partition = self.partition(broker)
        members = Isr(tuple(isr), Version(0))
        end = partition.log.end_offset
        partition.role = leading = LeaderRole(broker, LeaderEpoch(epoch), ControllerEpoch(1), end, members)
        leading.assign(ALL, 0)
        partition.leader, partition.leader_epoch = broker, LeaderEpoch(epoch)
        self.looks(broker)

    def follows(self, broker: BrokerId, leader: BrokerId, epoch: int) -> None:
        partition = self.partition(broker)
        partition.role = FollowerRole(leader, LeaderEpoch(epoch))
        partition.leader, partition.leader_epoch = leader, LeaderEpoch(epoch)
        self.looks(broker)

    def stops(self, broker: BrokerId) -> None:
        """It is told to stop, and keeps what it has."""
        self.partition(broker).role = None
        self.looks(broker)

    def has(
        self,
        broker: BrokerId,
        text: str,
        *,
        hw: int | None = None,
        start: int | None = None,
        cut: bool | None = None,
        told: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Its log holds these now, from `start` on. It was cut where that is not what it held and more, if `cut` does
        not say another thing."""
        partition, shelf = self.partition(broker), self.shelf(broker)
        made = records(text)
        start = shelf.start_offset if start is None else start
        kept = shelf.records[max(start - shelf.start_offset, 0) :]
        if made[: len(kept)] != kept if cut is None else cut:
            partition.cuts += 1
        shelf.start_offset, shelf.records, shelf.told = start, made, told
        partition.high_watermark = min(partition.high_watermark, shelf.end_offset) if hw is None else hw
        self.looks(broker)

    def knows(self, broker: BrokerId, watermark: int) -> None:
        self.partition(broker).high_watermark = watermark
        self.looks(broker)

    def looks(self, broker: BrokerId) -> None:
        if not self.blind:
            self.keeper.logs.changed(self.onlooked(broker))

    def onlooked(self, broker: BrokerId) -> PartitionBroker:
        return cast("PartitionBroker", self.member(broker))

    def shelf(self, broker: BrokerId) -> Shelf:
        return self.member(broker).disk.logs.logs[HERE.topic, HERE.partition]

    def synced(self, broker: BrokerId, upto: int) -> None:
        """So much is on its disk."""
        self.shelf(broker).recovery_point = upto

    def fails(self, broker: BrokerId) -> None:
        """Its disk: the broker has no part in it any more."""
        del self.member(broker).core.partitions[HERE]

    def elects(self, epoch: int) -> None:
        """A controller."""
        self.store.epoch(epoch, ONE)

    def registers(self, broker: BrokerId, epoch: int) -> None:
        self.member(broker).epoch = BrokerEpoch(epoch)

    def commands(self, broker: BrokerId, controller: int, registered: int, where: TopicPartition = HERE) -> None:
        """A controller of this epoch tells it of its replica, as whoever is registered so."""
        role = _role(where)
        command = LeaderAndIsr(ONE, ControllerEpoch(controller), BrokerEpoch(registered), False, (role,), ())
        self.keeper.commanded(self.onlooked(broker), command)

    def hears_who_is_there(self, broker: BrokerId, controller: int, registered: int) -> None:
        command = UpdateMetadata(ONE, ControllerEpoch(controller), BrokerEpoch(registered), (_role(HERE),), ())
        self.keeper.commanded(self.onlooked(broker), command)

    def anew(self, broker: BrokerId, ident: str = "2") -> None:
        """It holds a topic of the same name, and nothing of it yet."""
        member = self.member(broker)
        member.core.partitions.pop(HERE, None)
        member.disk.logs.logs.pop((HERE.topic, HERE.partition), None)
        member.disk.idents[HERE] = TopicId(ident * 22)

    def returns(self, broker: BrokerId, text: str = "", *, start: int = 0, how: str = "") -> None:
        """Its process ends and is back, and finds this; `how` its disk may have lost something, if it may."""
        member = self.member(broker)
        member.core.partitions.clear()
        shelf = member.disk.logs.logs.get((HERE.topic, HERE.partition))
        if shelf is not None:
            shelf.start_offset, shelf.records = start, records(text)
        if how:
            self.keeper.disks.lost(self.onlooked(broker), how)
        self.keeper.disks.restarted(self.onlooked(broker))

    def wiped(self, broker: BrokerId, how: str = "wiped") -> None:
        """It is back with an empty disk."""
        member = self.member(broker)
        member.disk.logs.logs.clear()
        self.returns(broker, how=how)

    # -- clients -------------------------------------------------------------------------------------

    def acks(self, broker: BrokerId, base: int, *values: str) -> None:
        self.keeper.commitment.acknowledged(self.onlooked(broker), HERE, base, [value.encode() for value in values])

    def reads(self, broker: BrokerId, offset: int, text: str, *, first: int = 0) -> None:
        data = b"".join(data for _, data in batches(records(text), first))
        self.keeper.commitment.delivered(self.onlooked(broker), HERE, offset, data)

    def replies(
        self, broker: BrokerId, text: str, error: ErrorCode = ErrorCode.NONE, offset: int = -1, epoch: int = 0
    ) -> None:
        """Reply to an idempotent producer that sends these records as one batch."""
        made = records(text)
        data = wire.build(
            [wire.Record(place, 0, None, each.value) for place, each in enumerate(made)],
            producer_id=made[0].producer,
            producer_epoch=epoch,
            base_sequence=made[0].sequence,
        )
        judge = self.keeper.producers.judge(self.onlooked(broker), HERE, data)
        if judge is not None:
            judge([Produced(HERE, error, base_offset=offset)])

    def wishes(self, broker: BrokerId, upto: int) -> None:
        self.keeper.logs.requested(self.onlooked(broker), HERE, upto)

    def says_gone(
        self, broker: BrokerId, watermark: int, error: ErrorCode = ErrorCode.NONE, where: TopicPartition = HERE
    ) -> None:
        """To somebody who asked that records go: nothing before that is left."""
        self.keeper.commitment.answers(self.onlooked(broker), [Deleted(where, error, watermark)])

    def hears_of_the_end_of(self, broker: BrokerId, dead: BrokerId) -> None:
        """From the controller."""
        del self.member(broker).core.live[dead]

    def tells(self, broker: BrokerId, watermark: int, where: TopicPartition = HERE) -> None:
        results: Results = [Fetched(where, high_watermark=watermark)]
        self.keeper.commitment.answers(self.onlooked(broker), results)

    def asks(self, broker: BrokerId, offset: int, where: TopicPartition = HERE) -> None:
        self.keeper.disks.fetches(self.onlooked(broker), where, offset)

    def waits(self, broker: BrokerId, ms: int) -> None:
        self.member(broker).now += ms
        self.keeper.commitment.idle(self.onlooked(broker))


def _role(where: TopicPartition) -> Role:
    return Role(where, None, PartitionState(ONE, ALL, LeaderEpoch(1), ControllerEpoch(1)), held(*ALL))


# -- stories -----------------------------------------------------------------------------------------------

Tell: TypeAlias = Callable[[Tale, bool], None]


@frozen
class Told:
    """`breaks` the promise if the worse is told, or `reaches` the situation if it is told so."""

    name: str
    breaks: str
    reaches: str
    tell: Tell

    def said(self, so: bool) -> tuple[str, str, tuple[str, ...]]:
        """Which promise is broken, all that is said of it, and what was come to."""
        tale = Tale()
        try:
            self.tell(tale, so)
        except Violation as violation:
            return violation.invariant, str(violation), tuple(tale.world.counts)
        return "", "", tuple(tale.world.counts)


STORIES: Final[dict[str, Told]] = {}


def breaks(invariant: str) -> Callable[[Tell], Tell]:
    return lambda tell: _kept(tell, invariant, "")


def reaches(point: str) -> Callable[[Tell], Tell]:
    return lambda tell: _kept(tell, "", point)


def _kept(tell: Tell, invariant: str, point: str) -> Tell:
    assert tell.__name__ not in STORIES
    STORIES[tell.__name__] = Told(tell.__name__, invariant, point, tell)
    return tell
