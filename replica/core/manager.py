"""A broker's replicas, as one thing that only computes: commands, requests, answers and time go in, answers and wishes
come out.

    replicas.obey(command, now)                     what the controller says (its epochs were compared before)
    replicas.produce(token, ...), fetch(token, ...) answered at once, or later by the token: `Ready.replies`
    replicas.next_request(leader, ...)              what to ask a leader next; its end is `answered` or `failed`
    replicas.isr_written(...), ...                  what the store made of a `WriteIsr`
    replicas.flushed(...)                           the disk has made of a `Flush` what was wished
    replicas.tick(now)                              time has passed; by `deadline` it has to
    replicas.ready()                                what is to be done now: after each of the above

Nobody waits in here, and nothing in here looks at the clock. Logs are called directly:
see `replica.core.partition_log`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from kraft_controller.core.commands import Command
from kraft_controller.core.names import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import Broker, PartitionState
from replica.core import offsets, producing, replicating, roles, serving, upkeep
from replica.core.desk import Desk, Logs
from replica.core.offsets import Lookup
from replica.core.partition import Partition
from replica.core.partition_log import ActiveProducer, ExaminedBatch
from replica.core.settings import Settings
from replica.core.wants import (
    CONSUMER,
    Deleted,
    EpochAnswer,
    Fetch,
    Fetched,
    OffsetAnswer,
    Produced,
    Ready,
    Request,
    WriteIsr,
)


class Replicas:
    def __init__(self, me: BrokerId, logs: Logs, settings: Settings | None = None) -> None:
        self._desk = Desk(me, logs, settings or Settings())
        self._check_at: int | None = None

    # -- looking at it -----------------------------------------------------------------------------------------

    @property
    def me(self) -> BrokerId:
        return self._desk.me

    @property
    def settings(self) -> Settings:
        return self._desk.settings

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        return self._desk.partitions

    @property
    def live(self) -> Mapping[BrokerId, Broker]:
        return self._desk.live

    @property
    def leaders(self) -> Iterable[BrokerId]:
        """Whom this broker follows, in one partition or another."""
        return tuple(self._desk.sources)

    @property
    def parked(self) -> int:
        return len(self._desk.purgatory)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """To be kept now and then. Of all that is held, also where nobody leads: what is left out begins at 0 again."""
        return {where: partition.high_watermark for where, partition in self._desk.partitions.items()}

    @property
    def deadline(self) -> int | None:
        """When `tick` has something to do."""
        desk = self._desk
        times = [desk.purgatory.deadline, self._check_at, desk.doubts[0][0] if desk.doubts else None]
        return min((time for time in times if time is not None), default=None)

    def ready(self) -> Ready:
        return self._desk.ready()

    # -- the controller ----------------------------------------------------------------------------------------

    def obey(self, command: Command, now: int) -> dict[TopicPartition, int]:
        """What went wrong, by partition, in the numbers of `ErrorCode`."""
        errors = roles.obey(self._desk, command, now)
        self._turn(now)
        return errors

    def require_in_sync(self, topic: str, replicas: int | None, now: int) -> None:
        """`min.insync.replicas` of a topic; None: as of all that do not say."""
        desk = self._desk
        if replicas is None:
            desk.min_insync.pop(topic, None)
        else:
            desk.min_insync[topic] = replicas
        for partition in desk.partitions.values():
            if partition.where.topic == topic:
                partition.min_insync = desk.min_insync.get(topic, desk.settings.min_insync)
                upkeep.advance(desk, partition, now)
                upkeep.too_few(desk, partition)
        self._turn(now)

    def throttle(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        """Replicas of these that are not in sync fetch no more than so much together."""
        self._desk.throttled = dict.fromkeys(partitions)
        self._desk.throttle.bytes_s = bytes_s
        self._desk.leaders.update(dict.fromkeys(self._desk.sources))  # who waits for the rate of before need not

    def throttle_followers(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        """Of these, which are led here, no more than so much together is sent to replicas that are not in sync."""
        self._desk.sends_slowly = dict.fromkeys(partitions)
        self._desk.sending.bytes_s = bytes_s

    # -- clients and followers ---------------------------------------------------------------------------------

    def produce(
        self,
        token: int,
        acks: int,
        timeout_ms: int,
        entries: Sequence[tuple[TopicPartition, bytes | ExaminedBatch]],
        now: int,
        *,
        origin: int = 0,
        clock: int | None = None,
    ) -> list[Produced] | None:
        """`clock`: the time of day, which anybody may set; what records say of their time is held against it."""
        results = producing.produce(self._desk, token, acks, timeout_ms, entries, now, origin=origin, clock=clock)
        self._turn(now)
        return results

    def fetch(self, token: int, asked: Fetch, now: int) -> list[Fetched] | None:
        """`SessionFetched` if it belongs to a session."""
        results = serving.fetch(self._desk, token, asked, now)
        self._turn(now)
        return results

    def delete_records(
        self, token: int, timeout_ms: int, entries: Iterable[tuple[TopicPartition, int]], now: int
    ) -> list[Deleted] | None:
        results = producing.delete_records(self._desk, token, timeout_ms, entries, now)
        self._turn(now)
        return results

    def forget(self, token: int) -> None:
        """Whoever waits for this answer has gone."""
        self._desk.purgatory.drop(token)

    def look_up(
        self,
        asked: Lookup,
        *,
        replica: BrokerId = CONSUMER,
        committed: bool = False,
        search: offsets.Search = offsets.search,
    ) -> OffsetAnswer:
        """`search`: for who has looked in the log before, because it takes long."""
        return offsets.look_up(self._desk, asked, replica=replica, committed=committed, search=search)

    def active_producers(self, where: TopicPartition) -> tuple[ActiveProducer, ...]:
        """Raises where this broker does not lead."""
        partition = self._desk.find(where)
        partition.leading()
        return partition.log.active_producers()

    def epoch_end(self, where: TopicPartition, current: int, epoch: int) -> EpochAnswer:
        return offsets.epoch_end(self._desk, where, current, epoch)

    # -- leaders -----------------------------------------------------------------------------------------------

    def next_request(self, leader: BrokerId, broker_epoch: BrokerEpoch, now: int) -> Request | None:
        return replicating.next_request(self._desk, leader, broker_epoch, now)

    def resume_at(self, leader: BrokerId, now: int) -> int | None:
        return replicating.resume_at(self._desk, leader, now)

    def lacks(self, leader: BrokerId, now: int) -> bool:
        """Whether the fetch under way to this leader leaves out a partition that can be fetched by now."""
        return replicating.lacks(self._desk, leader, now)

    def answered(self, request: Request, answers: replicating.Answers, now: int) -> None:
        replicating.answered(self._desk, request, answers, now)
        self._turn(now)

    def failed(self, request: Request, now: int) -> None:
        replicating.failed(self._desk, request, now)

    # -- the store, the disk and the clock ----------------------------------------------------------------------

    def isr_written(self, write: WriteIsr, version: Version, now: int) -> None:
        upkeep.isr_written(self._desk, write, version, now)
        self._turn(now)

    def isr_refused(self, write: WriteIsr) -> None:
        """The node is at another version."""
        upkeep.isr_doubtful(self._desk, write, lost=False)

    def isr_lost(self, write: WriteIsr) -> None:
        """Nobody knows whether it was written."""
        upkeep.isr_doubtful(self._desk, write, lost=True)

    def isr_unwanted(self, write: WriteIsr, now: int) -> None:
        """One who was to join is not registered. Nothing was written."""
        upkeep.isr_unwanted(self._desk, write, now)
        self._turn(now)

    def isr_read(self, where: TopicPartition, epoch: LeaderEpoch, state: PartitionState | None, now: int) -> None:
        """None: there is no such node."""
        if state is None:
            upkeep.isr_gone(self._desk, where, epoch)
        else:
            upkeep.isr_read(self._desk, where, epoch, state, now)
        self._turn(now)

    def isr_unread(self, where: TopicPartition, now: int) -> None:
        """The store does not answer. It is asked again later."""
        self._desk.look_again(where, now)

    def logs_retired(self) -> None:
        """Retention ran, and may have moved the start of any log: followers and leaders hear of those that moved."""
        for partition in self._desk.partitions.values():
            if partition.log.start_offset != partition.start_seen:
                partition.start_seen = partition.log.start_offset
                replicating.start_moved(self._desk, partition)

    def flushed(self, where: TopicPartition, cuts: int, upto: int, now: int) -> None:
        producing.flushed(self._desk, where, cuts, upto, now)
        self._turn(now)

    def disk_failed(self, where: TopicPartition, why: str, now: int) -> None:
        partition = self._desk.partitions.get(where)
        if partition is not None:
            self._desk.fail(partition, why)
            self._turn(now)

    def tick(self, now: int) -> None:
        desk = self._desk
        while desk.doubts and desk.doubts[0][0] <= now:
            upkeep.look_again(desk, heapq.heappop(desk.doubts)[1])
        if self._check_at is not None and self._check_at <= now:
            self._check_at = None
            upkeep.check_isrs(desk, now)
        for parked in desk.purgatory.expired(now):
            serving.answer(desk, parked, now)
        self._turn(now)

    def _turn(self, now: int) -> None:
        """After everything that happens: who waits for it is answered."""
        serving.wake(self._desk, now)
        if self._desk.behind and self._check_at is None:
            self._check_at = now + self._desk.settings.isr_check_ms
