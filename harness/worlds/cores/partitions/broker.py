"""A broker with data: the real `ReplicaManager`, driven as `replica.runtime` drives it, without tasks and sockets.

Its disk survives the process. When its session ends, the outcomes of its requests to the store remain unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

from harness.checkers.partitions.copies import Ident, ident_of
from harness.checkers.partitions.waiting import check_waiting
from harness.worlds.controller.administration import NEEDED
from harness.worlds.cores.controller.broker import Broker
from harness.worlds.cores.controller.nodes import Note
from harness.worlds.cores.partitions.consumer_sessions import ConsumerSessions
from harness.worlds.cores.partitions.disk import Disk
from harness.worlds.cores.partitions.fetching import Answers, Fetcher
from harness.worlds.cores.partitions.flushing import AwaitedFlushes, DueFlushes
from harness.worlds.cores.partitions.group_coordinator import Groups
from harness.worlds.cores.partitions.simulator import PartitionsSimulator
from harness.worlds.cores.partitions.transaction_coordinator import Transactions
from kraft_controller.core.commands import Command, UpdateMetadata
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.core.store_requests import Failed
from kraft_controller.wire import znodes
from replica.core import replica_messages as messages
from replica.core.alter_partition_manager import IsrWriteError
from replica.core.metadata_cache import MetadataCache
from replica.core.outbox import EMPTY_READY
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.offset_lookup import EARLIEST, Lookup
from replica.core.partitions.partition import Partition
from replica.core.partitions.partition_log import AppendOrigin
from replica.core.replica_manager import ReplicaManager
from replica.wire.batch import walk
from replica.wire.isr_requests import ISR_CHANGE_NOTICE, LOG_DIR_NOTICE, read_isr, write_isr

T = TypeVar("T")
Answered: TypeAlias = Callable[[list[T]], None]
"""Receives the results of a request."""
MAINTENANCE_MS: Final = 60
"""The period of its disk maintenance, and of its reports of changed ISRs to the controller."""
CHECKPOINTS: Final = 4
"""The high watermarks are checkpointed at every n-th maintenance."""
STORE_US: Final = 60_000
"""The pause after which a request to the store counts as lost, when the session has ended."""


class PartitionBroker(Broker):
    world: PartitionsSimulator
    needed = (*NEEDED, znodes.CONFIG_CHANGES)

    def __init__(self, world: PartitionsSimulator, number: int) -> None:
        super().__init__(world, number)
        self.disk = Disk(
            self.id, world.replication.log, self.random, lambda where: world.checkers.disks.deleted(self.id, where)
        )
        self._session_ids = Random(f"{world.script.seed}/fetch sessions/broker {self.id}")
        self._new_process()

    def _new_process(self) -> None:
        self.core = ReplicaManager(self.id, self.disk, self.world.replication.settings)
        self.consumer_sessions = ConsumerSessions(self, self._session_ids)
        self.metadata = MetadataCache()
        self.groups, self.transactions = Groups(self), Transactions(self)
        self._coordinators = (self.groups, self.transactions) if self.world.transacted else (self.groups,)
        self._fetchers: dict[BrokerId, Fetcher] = {}
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self.produced: dict[int, int] = {}
        self._store_requests: dict[TopicPartition, messages.WriteIsr | messages.ReadIsr] = {}
        self._tokens = 0
        self._awaited, self._due = AwaitedFlushes(self), DueFlushes(self)
        self._armed: int | None = None
        self._maintenances = 0

    def clock(self) -> int:
        """Return the time in milliseconds. It never starts near 0, as in reality."""
        return 1_000_000 + self.world.now // 1_000

    # -- the process -------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.up:
            return
        if not self.disk.load():
            self.disk.killed()
            self.world.start_later(self, 50)
            return
        self._new_process()
        self.world.checkers.disks.restarted(self)
        super().start()

    def die(self) -> None:
        was = self.up
        super().die()
        if was:
            self.disk.killed()

    def end(self) -> None:
        was, epoch = self.up, self.epoch
        super().end()
        if was:
            self.disk.close(epoch, self.core.high_watermarks())

    def lose_power(self, loss: str) -> None:
        if self.up:
            super().die()
            self.disk.power_lost(loss)
            self.world.checkers.disks.lost(self, "power")

    def crash(self, loss: str) -> None:
        """Lose power in the middle of a call to the disk, perhaps during a start."""
        if self.up:
            self.lose_power(loss)
        else:
            self.disk.power_lost(loss)

    def lose_disk(self) -> None:
        if self.up:
            super().die()
            self.disk.wiped()
            self.world.checkers.disks.lost(self, "wiped")

    def mend(self) -> None:
        """Repair the disk. If it has failed, restart the broker."""
        failed = self.disk.failed or bool(self.disk.logs.damaged)
        self.disk.mended()
        if failed and self.up:
            super().die()
            self.world.checkers.disks.lost(self, "failed")
            self.world.start_later(self, 1)

    def throttleable(self) -> list[TopicPartition]:
        """Return the partitions in which it is an ISR member that has caught up and is not exempt from a throttle.

        Their fetchers have other partitions as well. A replica that was in sync when it began to follow is exempt.
        """
        followed = {
            where: (partition, partition.role)
            for where, partition in sorted(self.core.partitions.items())
            if isinstance(partition.role, FollowerRole)
        }
        fetched = Counter(role.leader for _, role in followed.values())
        replicas = self.world.checkers.replicas
        return [
            where
            for where, (partition, role) in followed.items()
            if not role.in_sync
            and fetched[role.leader] > 1
            and partition.high_watermark == partition.log.end_offset
            and replicas.in_sync(self.id, where)
        ]

    def throttle(self, wheres: Sequence[TopicPartition], bytes_s: int | None) -> None:
        self.core.fetchers.throttle(wheres, bytes_s)
        self.turn()

    def _over(self) -> None:
        super()._over()
        for request in list(self._store_requests.values()):
            self._lose_store_request(request)

    def _check_followers(self) -> None:
        """Do the periodic work. The core itself checks the followers."""
        self.later(MAINTENANCE_MS * 1_000, self._check_followers)
        self._maintenances += 1
        now = self.clock()
        self.world.checkers.commitment.idle(self)
        self._due.look(self.disk.logs.due_for_flush(now))
        cleaned = self.disk.look(now, self.core.high_watermarks(), self._maintenances % CHECKPOINTS == 0)
        self.core.logs_retired()
        self.world.checkers.logs.changed(self)
        self.world.checkers.lag.check(self, self._store_requests)
        if cleaned is not None:
            self.world.checkers.logs.cleaned(self, cleaned)
        propagation = self.core.alter_partition.propagation
        due = propagation.due(now)
        if due and self.session:
            self.do(
                _create_notification(Note(ISR_CHANGE_NOTICE, znodes.partitions(due))),
                lambda _: propagation.notified(due, self.clock()),
            )

    @staticmethod
    def ident(partition: Partition) -> Ident:
        assert partition.topic_id is not None
        return ident_of(partition.topic_id)

    # -- the controller ----------------------------------------------------------------------------------

    def _apply_command(self, command: Command) -> Mapping[TopicPartition, int]:
        self._record_command(command)
        if isinstance(command, UpdateMetadata):
            self.metadata.update(command)
        self.world.checkers.commanded(self, command)
        errors = self.core.apply(command, self.clock())
        self.turn()
        return errors

    # -- requests ---------------------------------------------------------------------------------------

    def send(self, target: int, act: Callable[[PartitionBroker], None]) -> None:
        """Send a message to another broker, which calls `act` unless the network loses the message."""
        self.world.wires.send(self.id, target, lambda: act(self.world.brokers[target]))

    def serve(
        self, follower: PartitionBroker, request: messages.LeaderRequest, on_reply: Callable[[Answers | None], None]
    ) -> None:
        """Handle a request of a follower. `on_reply` receives the results, or None if this broker is down."""

        def answer(results: Answers | None) -> None:
            self.world.wires.send(self.id, follower.id, partial(follower.soon, partial(on_reply, results)))

        if not self.up:
            answer(None)
        else:
            self.soon(partial(self._serve, follower.id, request, answer))

    def _serve(self, follower: BrokerId, request: messages.LeaderRequest, answer: Callable[[Answers], None]) -> None:
        if request.fetch is not None:
            self.fetch(request.fetch, answer)
        elif request.epochs:
            answer([self.core.epoch_end(ask.where, ask.leader_epoch, ask.epoch) for ask in request.epochs])
        else:
            answer(
                [
                    self.core.look_up(Lookup(ask.where, -1 if ask.latest else -2, ask.leader_epoch), replica=follower)
                    for ask in request.offsets
                ]
            )

    def fetch(self, request: messages.Fetch, answer: Answered[messages.Fetched]) -> None:
        token = self._token(answer)
        self._answer_now(token, self.core.fetch(token, request, self.clock()))

    def produce(
        self,
        acks: int,
        timeout_ms: int,
        where: TopicPartition,
        batch: bytes,
        answer: Answered[messages.Produced],
    ) -> None:
        judge = self.world.checkers.producers.judge(self, where, batch)

        def answered(results: list[messages.Produced]) -> None:
            if judge is not None:
                judge(results)
            answer(results)

        token = self._token(answered)
        self._answer_now(token, self._produce(token, acks, timeout_ms, where, batch, AppendOrigin.CLIENT))

    def append(
        self,
        where: TopicPartition,
        batch: bytes,
        timeout_ms: int,
        origin: AppendOrigin,
        done: Answered[messages.Produced],
    ) -> None:
        """Append for a coordinator. Call `done` when all in-sync replicas have the batch, or with an error."""
        token = self._token(done)
        results = self._produce(token, -1, timeout_ms, where, batch, origin)
        if results is not None:
            self._replied(token)(results)

    def _produce(
        self, token: int, acks: int, timeout_ms: int, where: TopicPartition, batch: bytes, origin: AppendOrigin
    ) -> list[messages.Produced] | None:
        results = self.core.produce(token, acks, timeout_ms, [(where, batch)], self.clock(), origin=origin)
        if results is None:
            self.produced[token] = sum(header.record_count for _, header in walk(batch))
        return results

    def delete_records(
        self, timeout_ms: int, where: TopicPartition, percent: int, answer: Answered[messages.Deleted]
    ) -> None:
        token = self._token(answer)
        partition = self.core.partitions.get(where)
        upto = 0 if partition is None else partition.log.end_offset * percent // 100
        self.world.checkers.logs.requested(self, where, upto)
        self._answer_now(token, self.core.delete_records(token, timeout_ms, [(where, upto)], self.clock()))

    def earliest(self, where: TopicPartition) -> int:
        """Return the first offset of the log, or 0 if the broker does not lead the partition."""
        return max(self.core.look_up(Lookup(where, EARLIEST)).offset, 0)

    def _token(self, answer: Callable[[Any], None]) -> int:
        self._tokens += 1
        self._waiting[self._tokens] = answer
        return self._tokens

    def _replied(self, token: int) -> Callable[[Any], None]:
        self.produced.pop(token, None)
        return self._waiting.pop(token)

    def _answer_now(self, token: int, results: messages.Results | None) -> None:
        answer = None if results is None else self._replied(token)
        if answer is not None and results is not None:
            self.world.checkers.logs.changed(self)  # a reply must be true when it is sent
            self.world.checkers.commitment.check_replies(self, results)
            answer(results)
        self.turn()

    # -- the effects of the core -------------------------------------------------------------------------

    def turn(self) -> None:
        has_more = self.up
        while has_more:
            self._act()
            has_more = False
            for coordinator in self._coordinators:
                has_more = coordinator.act() or has_more

    def _act(self) -> None:
        self.world.checkers.logs.changed(self)
        ready = self.core.ready()
        check_waiting(self)
        if ready is not EMPTY_READY:
            self._carry_out(ready)
        self._arm()

    def _carry_out(self, ready: messages.Ready) -> None:
        for reply in ready.replies:
            self.world.checkers.commitment.check_replies(self, reply.results)
            self._replied(reply.token)(reply.results)
        for write in ready.writes:
            self._ask_store(write)
        for read in ready.reads:
            self._ask_store(read)
        if ready.flushes:
            self._awaited.wake()
        for leader in ready.leaders:
            self._fetcher(leader).wake()
        for taken in ready.roles:
            for coordinator in self._coordinators:
                coordinator.role_taken(taken)
        world = self.world
        for note in ready.notes:
            world.counted(f"replica {note.event}")
            if note.event == "log_failed" and self.session:
                self.do(_create_notification(Note(LOG_DIR_NOTICE, znodes.log_dir_event(self.id))), _ignore)
            if world.trace is not None:
                fields = ", ".join(f"{name} {value}" for name, value in note.fields)
                world.record(0, f"broker {self.id}", 0, f"{note.event}: {fields}")

    def _fetcher(self, leader: BrokerId) -> Fetcher:
        found = self._fetchers.get(leader)
        if found is None:
            found = self._fetchers[leader] = Fetcher(self, leader)
        return found

    def _arm(self) -> None:
        deadline = self.core.deadline
        if deadline is None or (self._armed is not None and self._armed <= deadline):
            return
        self._armed = deadline
        self.later(max(deadline - self.clock(), 0) * 1_000, lambda: self._tick(deadline))

    def _tick(self, due: int) -> None:
        if self._armed != due:
            return  # an earlier deadline was set meanwhile
        self._armed = None
        self.core.tick(self.clock())
        self.turn()

    # -- the store ---------------------------------------------------------------------------------------

    def _ask_store(self, request: messages.WriteIsr | messages.ReadIsr) -> None:
        self._store_requests[request.where] = request
        if not self.session:
            self._lose_store_request(request)
        elif isinstance(request, messages.WriteIsr):
            self.do(write_isr(request), lambda outcome: self._wrote(request, outcome))
        else:
            self.do(read_isr(request.where), lambda state: self._read(request, state))

    def _lose_store_request(self, request: messages.WriteIsr | messages.ReadIsr) -> None:
        """Report later that the outcome of a request of an ended session is unknown."""

        def act() -> None:
            if self._store_requests.get(request.where) is not request:
                return
            del self._store_requests[request.where]
            if isinstance(request, messages.WriteIsr):
                self.core.alter_partition.lost(request)
            else:
                self.core.alter_partition.unread(request.where, self.clock())
            self.turn()

        self.later(STORE_US, act)

    def _end_store_request(self, request: messages.WriteIsr | messages.ReadIsr) -> None:
        """Note the reply to a request. A request of a later leader epoch may be under way already."""
        if self._store_requests.get(request.where) is request:
            del self._store_requests[request.where]

    def _wrote(self, request: messages.WriteIsr, outcome: Version | IsrWriteError) -> None:
        self._end_store_request(request)
        self.core.alter_partition.completed(request, outcome, self.clock())
        self.turn()

    def _read(self, request: messages.ReadIsr, state: Any) -> None:
        self._end_store_request(request)
        self.core.alter_partition.read(request.where, request.epoch, state, self.clock())
        self.turn()


def _create_notification(note: Note) -> Any:
    while isinstance((yield [note])[0], Failed):
        pass


def _ignore(_: object) -> None:
    """Ignore the outcome, because the next notification makes up for a lost one."""
