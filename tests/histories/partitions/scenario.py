"""Scenarios of three brokers and their logs, with the checkers that observe them.

    @breaks(logs.UNCUT)
    def committed_record_is_truncated(s: Scenario, bad: bool) -> None:
        s.begin("a1 b1", 2 if bad else 1)
        s.has(TWO, "a1")

Each example exists twice: as a legal run, and with `bad` as a run with one violation of the invariant. An example of a
coverage probe (`@reaches`) exists twice as well: with `so` the run reaches the probe, without it the run does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from attrs import define, evolve, field, frozen

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.checkers import ReplicationCheckers
from harness.checkers.partitions.copies import GONE, Record, ident_of
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
    """Parse records: `a1 b2:7/3` are the value a of leader epoch 1, and b of epoch 2 with sequence 3 of producer 7.

    The key of `c1@k` is k, the value of `-1` is empty, and `.` is an offset without a record.
    """
    made = []
    for word in text.split():
        if word == ".":
            made.append(GONE)
            continue
        word, _, key = word.partition("@")
        written, _, numbered = word.partition(":")
        producer, _, sequence = numbered.partition("/")
        value = b"" if written[0] == "-" else written[0].encode()
        made.append(Record(int(written[1:]), value, int(producer or -1), int(sequence or -1), key.encode()))
    return made


def batches(found: Sequence[Record], first: int = 0) -> list[tuple[int, bytes]]:
    """Build batches of up to two records, each with the offset after it. A read from a batch's second offset returns
    the whole batch, as a log does."""
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
            flags=one.attributes,
        )
        made.append((first + place, data))
    return made


def _goes_on(one: Record, other: Record) -> bool:
    numbered = one.producer < 0 or other.sequence == one.sequence + 1
    same = (one.epoch, one.producer, one.attributes) == (other.epoch, other.producer, other.attributes)
    return same and numbered and not one.control


@frozen
class Epochs:
    entries: list[tuple[int, int]]


@define(eq=False)
class Log:
    """A log in memory, with the fields that the checkers read."""

    start_offset: int = 0
    records: list[Record] = field(factory=list)
    recovery_point: int = 0
    size: int = 0
    closed: bool = False
    stored_epochs: Sequence[tuple[int, int]] | None = None
    """The leader epochs and their start offsets; None: as the records say."""

    @property
    def epochs(self) -> Epochs:
        if self.stored_epochs is not None:
            return Epochs(list(self.stored_epochs))
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
        return FetchDataInfo(offset, b"".join(data for end, data in there if end > offset))


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
    logs: dict[tuple[str, int], Log] = field(factory=dict)


@define(eq=False)
class Disk:
    files: _Files = field(factory=_Files)
    logs: _Logs = field(factory=_Logs)
    idents: dict[TopicPartition, TopicId | None] = field(factory=dict)

    def held(self) -> dict[TopicPartition, tuple[Log, bytes | None]]:
        found = {}
        for key, log in self.logs.logs.items():
            ident = self.idents[TopicPartition(*key)]
            found[TopicPartition(*key)] = log, None if ident is None else ident_of(ident)
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
    """The parts of a broker that the checkers read."""

    id: BrokerId
    disk: Disk = field(factory=Disk)
    core: _Core = field(factory=_Core)
    metadata: _Metadata = field(factory=_Metadata)
    now: int = 1_000
    epoch: BrokerEpoch = BrokerEpoch(0)
    """The broker epoch of its last registration."""

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
    checkers: ReplicationCheckers = field(init=False)

    def counted(self, what: str) -> None:
        self.counts.append(what)

    @property
    def changes_upto(self) -> int:
        return 1 + len(self.store.changes)

    def changes_since(self, place: int) -> Iterator[Change]:
        yield from self.store.changes[place - 1 :]


class Scenario:
    def __init__(self) -> None:
        self.store = store.Scenario()
        # By default every record is old enough to be deleted by retention.
        replication = Replicated(ReplicaSettings(), LogConfig(retention_ms=0), durable=True, anywhere=True)
        self.world = World(self.store, replication, {each: Member(each) for each in ALL})
        self.checkers = self.world.checkers = ReplicationCheckers(cast("PartitionsWorld", self.world))
        self.unchecked = False
        """True while the checkers do not see changes."""

    def set_up(self, *, durable: bool = True, sync: bool = False, least: int = 1, lag_ms: int = 100) -> None:
        settings = ReplicaSettings(sync_writes=sync, min_insync=least, lag_time_max_ms=lag_ms)
        self.world.replication = evolve(self.world.replication, settings=settings, durable=durable)

    def retention(self, *, ms: int = -1, size: int = -1) -> None:
        """Set the retention time and size of all logs."""
        self.world.replication = evolve(self.world.replication, log=LogConfig(retention_ms=ms, retention_bytes=size))

    def begin(self, text: str, committed: int, isr: Sequence[BrokerId] = ALL) -> None:
        """Give the records to broker 1, which leads in epoch 1, and to the other ISR members. All members have
        `committed` as their high watermark."""
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
            self.watermark(broker, committed)

    # -- the store -----------------------------------------------------------------------------------

    def topic(self, *brokers: int, ident: str = "1") -> None:
        self.store.topic_of({0: held(*brokers)}, ident=ident)

    def state(self, leader: int, isr: Sequence[int], epoch: int) -> None:
        self.store.state(leader, isr, epoch)

    def delete_state(self) -> None:
        self.store.delete(znodes.state_path(HERE), ADMIN)

    def request_deletion(self, topic: str = "t1") -> None:
        self.store.write(f"{znodes.DELETE_TOPICS}/{topic}", b"", ADMIN)

    # -- brokers -------------------------------------------------------------------------------------

    def broker(self, broker: BrokerId) -> Member:
        return self.world.brokers[broker]

    def partition(self, broker: BrokerId) -> Partition:
        member = self.broker(broker)
        found = member.core.partitions.get(HERE)
        if found is None:
            ident = member.disk.idents.setdefault(HERE, TopicId("1" * 22))
            log = member.disk.logs.logs.setdefault((HERE.topic, HERE.partition), Log())
            found = Partition(HERE, cast(Any, log), 0, topic_id=ident or TopicId("1" * 22), assignment=held(*ALL))
            member.core.partitions[HERE] = found
        return found

    def leads(self, broker: BrokerId, epoch: int, isr: Sequence[BrokerId] = ALL) -> None:
        partition = self.partition(broker)
        members = Isr(tuple(isr), Version(0))
        end = partition.log.end_offset
        partition.role = leading = LeaderRole(broker, LeaderEpoch(epoch), ControllerEpoch(1), end, members)
        leading.assign(ALL, 0)
        partition.leader, partition.leader_epoch = broker, LeaderEpoch(epoch)
        self.check(broker)

    def follows(self, broker: BrokerId, leader: BrokerId, epoch: int) -> None:
        partition = self.partition(broker)
        partition.role = FollowerRole(leader, LeaderEpoch(epoch))
        partition.leader, partition.leader_epoch = leader, LeaderEpoch(epoch)
        self.check(broker)

    def stops(self, broker: BrokerId) -> None:
        """Stop the replica on command; it keeps its log."""
        self.partition(broker).role = None
        self.check(broker)

    def has(
        self,
        broker: BrokerId,
        text: str,
        *,
        hw: int | None = None,
        start: int | None = None,
        cut: bool | None = None,
        epochs: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Set the records of a broker's log, from `start` on. Unless `cut` says otherwise, the log was truncated if
        the records do not begin with its former ones."""
        partition, log = self.partition(broker), self.log(broker)
        made = records(text)
        start = log.start_offset if start is None else start
        kept = log.records[max(start - log.start_offset, 0) :]
        if made[: len(kept)] != kept if cut is None else cut:
            partition.cuts += 1
        log.start_offset, log.records, log.stored_epochs = start, made, epochs
        partition.high_watermark = min(partition.high_watermark, log.end_offset) if hw is None else hw
        self.check(broker)

    def watermark(self, broker: BrokerId, watermark: int) -> None:
        self.partition(broker).high_watermark = watermark
        self.check(broker)

    def check(self, broker: BrokerId) -> None:
        if not self.unchecked:
            self.checkers.logs.changed(self.observed(broker))

    def observed(self, broker: BrokerId) -> PartitionBroker:
        return cast("PartitionBroker", self.broker(broker))

    def log(self, broker: BrokerId) -> Log:
        return self.broker(broker).disk.logs.logs[HERE.topic, HERE.partition]

    def synced(self, broker: BrokerId, upto: int) -> None:
        """Set the recovery point of a broker's log."""
        self.log(broker).recovery_point = upto

    def disk_fails(self, broker: BrokerId) -> None:
        """Remove the replica of a broker whose disk has failed."""
        del self.broker(broker).core.partitions[HERE]

    def controller_elected(self, epoch: int) -> None:
        self.store.epoch(epoch, ONE)

    def registers(self, broker: BrokerId, epoch: int) -> None:
        self.broker(broker).epoch = BrokerEpoch(epoch)

    def commands(self, broker: BrokerId, controller: int, registered: int, where: TopicPartition = HERE) -> None:
        """Send LeaderAndIsr from a controller of this epoch to the broker, with this broker epoch."""
        role = _role(where)
        command = LeaderAndIsr(ONE, ControllerEpoch(controller), BrokerEpoch(registered), False, (role,), ())
        self.checkers.commanded(self.observed(broker), command)

    def receives_metadata(self, broker: BrokerId, controller: int, registered: int) -> None:
        command = UpdateMetadata(ONE, ControllerEpoch(controller), BrokerEpoch(registered), (_role(HERE),), ())
        self.checkers.commanded(self.observed(broker), command)

    def recreated(self, broker: BrokerId, ident: str = "2") -> None:
        """Give the broker an empty disk for a new topic of the same name."""
        member = self.broker(broker)
        member.core.partitions.pop(HERE, None)
        member.disk.logs.logs.pop((HERE.topic, HERE.partition), None)
        member.disk.idents[HERE] = TopicId(ident * 22)

    def restarts(self, broker: BrokerId, text: str = "", *, start: int = 0, how: str = "") -> None:
        """Restart a broker's process, with these records on its disk. `how`: the kind of loss that its disk had."""
        member = self.broker(broker)
        member.core.partitions.clear()
        log = member.disk.logs.logs.get((HERE.topic, HERE.partition))
        if log is not None:
            log.start_offset, log.records = start, records(text)
        if how:
            self.checkers.disks.lost(self.observed(broker), how)
        self.checkers.disks.restarted(self.observed(broker))

    def wiped(self, broker: BrokerId, how: str = "wiped") -> None:
        """Restart a broker with an empty disk."""
        member = self.broker(broker)
        member.disk.logs.logs.clear()
        self.restarts(broker, how=how)

    # -- clients -------------------------------------------------------------------------------------

    def acks(self, broker: BrokerId, base: int, *values: str) -> None:
        self.checkers.commitment.acknowledged(self.observed(broker), HERE, base, [value.encode() for value in values])

    def reads(self, broker: BrokerId, offset: int, text: str, *, first: int = 0) -> None:
        data = b"".join(data for _, data in batches(records(text), first))
        self.checkers.commitment.delivered(self.observed(broker), HERE, offset, data)

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
        judge = self.checkers.producers.judge(self.observed(broker), HERE, data)
        if judge is not None:
            judge([Produced(HERE, error, base_offset=offset)])

    def delete_records(self, broker: BrokerId, upto: int) -> None:
        self.checkers.logs.requested(self.observed(broker), HERE, upto)

    def replies_deleted(
        self, broker: BrokerId, watermark: int, error: ErrorCode = ErrorCode.NONE, where: TopicPartition = HERE
    ) -> None:
        """Reply to DeleteRecords: no record before the watermark is left."""
        self.checkers.commitment.check_replies(self.observed(broker), [Deleted(where, error, watermark)])

    def learns_of_failure(self, broker: BrokerId, dead: BrokerId) -> None:
        del self.broker(broker).core.live[dead]

    def replies_fetch(self, broker: BrokerId, watermark: int, where: TopicPartition = HERE) -> None:
        results: Results = [Fetched(where, high_watermark=watermark)]
        self.checkers.commitment.check_replies(self.observed(broker), results)

    def fetches(self, broker: BrokerId, offset: int, where: TopicPartition = HERE) -> None:
        self.checkers.disks.fetches(self.observed(broker), where, offset)

    def waits(self, broker: BrokerId, ms: int) -> None:
        self.broker(broker).now += ms
        self.checkers.commitment.idle(self.observed(broker))


def _role(where: TopicPartition) -> Role:
    return Role(where, None, PartitionState(ONE, ALL, LeaderEpoch(1), ControllerEpoch(1)), held(*ALL))


# -- examples ----------------------------------------------------------------------------------------------

Build: TypeAlias = Callable[[Scenario, bool], None]


@frozen
class Example:
    """`breaks`: the invariant that the bad run violates. `reaches`: the probe that the run reaches with `so`."""

    name: str
    breaks: str
    reaches: str
    build: Build

    def result(self, so: bool) -> tuple[str, str, tuple[str, ...]]:
        """Return the violated invariant, the message, and the counted probes."""
        scenario = Scenario()
        try:
            self.build(scenario, so)
        except Violation as violation:
            return violation.invariant, str(violation), tuple(scenario.world.counts)
        return "", "", tuple(scenario.world.counts)


EXAMPLES: Final[dict[str, Example]] = {}


def breaks(invariant: str) -> Callable[[Build], Build]:
    return lambda build: _kept(build, invariant, "")


def reaches(point: str) -> Callable[[Build], Build]:
    return lambda build: _kept(build, "", point)


def _kept(build: Build, invariant: str, point: str) -> Build:
    assert build.__name__ not in EXAMPLES
    EXAMPLES[build.__name__] = Example(build.__name__, invariant, point, build)
    return build
