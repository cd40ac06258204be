"""A broker with data: the cores that replicate, as `replica.runtime` turns them, without tasks and sockets.

Its disk survives it. What it has under way at the store is lost with its session, and it knows of no outcome then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from harness.checkers.controller.facts import Obeyed
from harness.checkers.partitions.copies import Ident, ident_of
from harness.worlds.controller.administration import NEEDED
from harness.worlds.cores.controller.broker import Broker
from harness.worlds.cores.controller.nodes import Note
from harness.worlds.cores.partitions.coordinating import Groups
from harness.worlds.cores.partitions.disk import Disk
from harness.worlds.cores.partitions.fetching import Answers, Fetcher
from harness.worlds.cores.partitions.flushing import Awaited, Due
from kraft_controller.core.commands import Command, UpdateMetadata
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.core.store_requests import Failed
from kraft_controller.wire import znodes
from replica.core.alter_partition_manager import IsrWriteError
from replica.core.metadata_cache import MetadataCache
from replica.core.partitions.offset_lookup import EARLIEST, Lookup
from replica.core.partitions.partition import Partition
from replica.core.partitions.partition_log import AppendOrigin
from replica.core.replica_manager import ReplicaManager
from replica.core.replica_messages import (
    Deleted,
    Fetch,
    Fetched,
    LeaderRequest,
    Produced,
    ReadIsr,
    Ready,
    Results,
    WriteIsr,
)
from replica.wire.isr_requests import ISR_CHANGE_NOTICE, LOG_DIR_NOTICE, read_isr, write_isr

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.world import PartitionsWorld

LOOKS_MS: Final = 60
"""At its disk, and whether the controller is to be told of ISRs."""
CHECKPOINTS: Final = 4
"""Every so many looks watermarks are kept."""
STORE_US: Final = 60_000
"""Before the store is asked again, when it could not be."""


class PartitionBroker(Broker):
    world: PartitionsWorld
    needed = (*NEEDED, znodes.CONFIG_CHANGES)

    def __init__(self, world: PartitionsWorld, number: int) -> None:
        super().__init__(world, number)
        self.disk = Disk(
            self.id, world.replication.log, self.random, lambda where: world.keeper.deleted(self.id, where)
        )
        self._new_process()

    def _new_process(self) -> None:
        self.core = ReplicaManager(self.id, self.disk, self.world.replication.settings)
        self.metadata = MetadataCache()
        self.groups = Groups(self)
        self._fetchers: dict[BrokerId, Fetcher] = {}
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._at_store: dict[TopicPartition, WriteIsr | ReadIsr] = {}
        self._tokens = 0
        self._awaited, self._due = Awaited(self), Due(self)
        self._armed: int | None = None
        self._looks = 0

    def clock(self) -> int:
        """Milliseconds, and never near 0: as in real life."""
        return 1_000_000 + self.world.now_ms

    # -- the process -------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.up:
            return
        if not self.disk.load():
            self.disk.killed()
            self.world.start_later(self, 50)
            return
        self._new_process()
        self.world.keeper.restarted(self)
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
            self.world.keeper.lost(self, "power")

    def crash(self, loss: str) -> None:
        """Its machine loses power in the middle of a call to the disk, perhaps while the broker starts."""
        if self.up:
            self.lose_power(loss)
        else:
            self.disk.power_lost(loss)

    def lose_disk(self) -> None:
        if self.up:
            super().die()
            self.disk.wiped()
            self.world.keeper.lost(self, "wiped")

    def mend(self) -> None:
        """Its disk is as it should be from now on. If it was not, the broker is started again."""
        failed = self.disk.failed or bool(self.disk.logs.damaged)
        self.disk.mended()
        if failed and self.up:
            super().die()
            self.world.keeper.lost(self, "failed")
            self.world.start_later(self, 1)

    def _over(self) -> None:
        super()._over()
        for request in list(self._at_store.values()):
            self._store_gone(request)

    def _look_at_followers(self) -> None:
        """Its followers are looked at by the core; this is what else comes around."""
        self.later(LOOKS_MS * 1_000, self._look_at_followers)
        self._looks += 1
        self.world.keeper.idle(self)
        self._due.look(self.disk.due_for_flush(self.clock()))
        cleaned = self.disk.look(self.clock(), self.core.high_watermarks(), self._looks % CHECKPOINTS == 0)
        self.core.logs_retired()
        self.world.keeper.looked(self)
        if cleaned is not None:
            self.world.keeper.cleaned(self, cleaned)
        propagation = self.core.alter_partition.propagation
        due = propagation.due(self.clock())
        if due and self.session:
            self.do(
                _leave(Note(ISR_CHANGE_NOTICE, znodes.partitions(due))),
                lambda _: propagation.notified(due, self.clock()),
            )

    @staticmethod
    def ident(partition: Partition) -> Ident:
        assert partition.topic_id is not None
        return ident_of(partition.topic_id)

    # -- the controller ----------------------------------------------------------------------------------

    def _obey(self, command: Command) -> Mapping[TopicPartition, int]:
        world = self.world
        if world.trace is not None:
            world.record(0, f"broker {self.id}", 0, f"obeys {command}")
        world.fact(
            Obeyed(
                world.now, self.id, self.life, command.broker_epoch, command.controller, command.controller_epoch
            )
        )  # fmt: skip
        if isinstance(command, UpdateMetadata):
            self.metadata.update(command)
        world.keeper.commanded(self, command)
        errors = self.core.apply(command, self.clock())
        self.turn()
        return errors

    # -- those who ask -----------------------------------------------------------------------------------

    def send(self, target: int, act: Callable[[PartitionBroker], None]) -> None:
        """To another broker, which does it when it can; to one that is not there it does not come."""
        self.world.send(self.id, target, act)

    def serve(self, follower: PartitionBroker, request: LeaderRequest, heard: Callable[[Answers | None], None]) -> None:
        def answer(found: Answers | None) -> None:
            self.world.wires.send(self.id, follower.id, lambda: follower.soon(lambda: heard(found)))

        if not self.up:
            answer(None)
        else:
            self.soon(lambda: self._serve(follower.id, request, answer))

    def _serve(self, follower: BrokerId, request: LeaderRequest, answer: Callable[[Answers], None]) -> None:
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

    def fetch(self, asked: Fetch, answer: Callable[[list[Fetched]], None]) -> None:
        token = self._token(answer)
        self._at_once(token, self.core.fetch(token, asked, self.clock()))

    def produce(
        self, acks: int, timeout_ms: int, where: TopicPartition, batch: bytes, answer: Callable[[list[Produced]], None]
    ) -> None:
        token = self._token(answer)
        self._at_once(token, self.core.produce(token, acks, timeout_ms, [(where, batch)], self.clock()))

    def append(
        self,
        where: TopicPartition,
        batch: bytes,
        timeout_ms: int,
        origin: AppendOrigin,
        done: Callable[[list[Produced]], None],
    ) -> None:
        """As the coordinator, who is told when all in sync have it."""
        token = self._token(done)
        results = self.core.produce(token, -1, timeout_ms, [(where, batch)], self.clock(), origin=origin)
        if results is not None:
            self._waiting.pop(token)(results)

    def delete_records(
        self, timeout_ms: int, where: TopicPartition, percent: int, answer: Callable[[list[Deleted]], None]
    ) -> None:
        token = self._token(answer)
        partition = self.core.partitions.get(where)
        upto = 0 if partition is None else partition.log.end_offset * percent // 100
        self.world.keeper.wished(self, where, upto)
        self._at_once(token, self.core.delete_records(token, timeout_ms, [(where, upto)], self.clock()))

    def earliest(self, where: TopicPartition) -> int:
        """Where its log begins; 0 where it leads none."""
        return max(self.core.look_up(Lookup(where, EARLIEST)).offset, 0)

    def _token(self, answer: Callable[[Any], None]) -> int:
        self._tokens += 1
        self._waiting[self._tokens] = answer
        return self._tokens

    def _at_once(self, token: int, results: Results | None) -> None:
        answer = None if results is None else self._waiting.pop(token)
        self.world.keeper.looked(self)  # what an answer says must be true already when it is given
        if answer is not None and results is not None:
            self.world.keeper.told(self, results)
            answer(results)
        self.turn()

    @property
    def waited_for(self) -> int:
        """Requests that have not been answered."""
        return len(self._waiting)

    # -- what the core wants -----------------------------------------------------------------------------

    def turn(self) -> None:
        if not self.up:
            return
        self._act()
        while self.groups.act():
            self._act()

    def _act(self) -> None:
        self.world.keeper.looked(self)
        ready = self.core.ready()
        for reply in ready.replies:
            self.world.keeper.told(self, reply.results)
            waiting = self._waiting.pop(reply.token, None)
            if waiting is not None:
                waiting(reply.results)
        for write in ready.writes:
            self._ask_store(write)
        for read in ready.reads:
            self._ask_store(read)
        if ready.flushes:
            self._awaited.wake()
        for leader in ready.leaders:
            self._fetcher(leader).wake()
        for taken in ready.roles:
            self.groups.role_taken(taken)
        self._note(ready)
        self._arm()

    def _note(self, ready: Ready) -> None:
        world = self.world
        for note in ready.notes:
            world.counted(f"replica {note.event}")
            if note.event == "log_failed" and self.session:
                self.do(_leave(Note(LOG_DIR_NOTICE, znodes.log_dir_event(self.id))), _ignore)
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
            return  # an earlier one has come meanwhile
        self._armed = None
        self.core.tick(self.clock())
        self.turn()

    # -- the store ---------------------------------------------------------------------------------------

    def _ask_store(self, request: WriteIsr | ReadIsr) -> None:
        self._at_store[request.where] = request
        if not self.session:
            self._store_gone(request)
        elif isinstance(request, WriteIsr):
            self.do(write_isr(request), lambda outcome: self._wrote(request, outcome))
        else:
            self.do(read_isr(request.where), lambda state: self._read(request, state))

    def _store_gone(self, request: WriteIsr | ReadIsr) -> None:
        """What a session did that is over may have come to be: nothing is known of it."""

        def act() -> None:
            if self._at_store.get(request.where) is not request:
                return
            del self._at_store[request.where]
            if isinstance(request, WriteIsr):
                self.core.alter_partition.lost(request)
            else:
                self.core.alter_partition.unread(request.where, self.clock())
            self.turn()

        self.later(STORE_US, act)

    def _wrote(self, request: WriteIsr, outcome: Version | IsrWriteError) -> None:
        self._at_store.pop(request.where, None)
        self.core.alter_partition.completed(request, outcome, self.clock())
        self.turn()

    def _read(self, request: ReadIsr, state: Any) -> None:
        self._at_store.pop(request.where, None)
        self.core.alter_partition.read(request.where, request.epoch, state, self.clock())
        self.turn()


def _leave(note: Note) -> Any:
    while isinstance((yield [note])[0], Failed):
        pass


def _ignore(_: object) -> None:
    """One note too few is made up for by the next."""
