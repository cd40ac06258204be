"""Brokers in one room: their replica managers, the store in which ISRs stand, and a controller that does as it is told.

Nothing happens by itself. A test says who leads, who fetches and what is lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, evolve, field

from kraft_controller.core.commands import LeaderAndIsr, Role, Stop, StopReplica, UpdateMetadata
from kraft_controller.core.names import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    Version,
)
from kraft_controller.core.state import Assignment, Broker, PartitionState
from replica.core.errors import ErrorCode
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.offset_lookup import Lookup
from replica.core.replica_manager import ReplicaManager
from replica.core.replica_messages import (
    EpochAnswer,
    Fetch,
    Fetched,
    FetchPartition,
    LeaderRequest,
    Note,
    OffsetAnswer,
    Produced,
    Results,
    WriteIsr,
)
from replica.core.replica_settings import ReplicaSettings
from tests.unit.replica.listlog import ListLog, ListLogs, batch, decode

T0 = TopicPartition("t", 0)
CE = ControllerEpoch(1)
Answers = Sequence[Fetched | EpochAnswer | OffsetAnswer]


@define(eq=False)
class Server:
    """One broker: its disk stays, the rest goes when it dies."""

    id: BrokerId
    disk: ListLogs
    replicas: ReplicaManager
    epoch: BrokerEpoch
    alive: bool = True
    writes: list[WriteIsr] = field(factory=list)
    notes: list[Note] = field(factory=list)


class World:
    def __init__(
        self,
        brokers: int = 3,
        *,
        racks: Sequence[str] = (),
        settings: ReplicaSettings | None = None,
        sessions: bool = False,
    ) -> None:
        """`sessions`: leaders keep fetch sessions of followers; else each fetch is complete."""
        self.sessions = sessions
        self.settings = settings or ReplicaSettings()
        self.racks = dict(enumerate(racks, start=1))
        self.now = 1_000_000
        self.zxid = 100
        self.states: dict[TopicPartition, PartitionState] = {}
        self.assignments: dict[TopicPartition, Assignment] = {}
        self.servers: dict[int, Server] = {}
        self.answers: dict[int, Results] = {}
        self.tokens = 0
        for number in range(1, brokers + 1):
            self.servers[number] = self._server(BrokerId(number), ListLogs())

    def _server(self, ident: BrokerId, disk: ListLogs) -> Server:
        self.zxid += 1
        return Server(ident, disk, ReplicaManager(ident, disk, self.settings), BrokerEpoch(self.zxid))

    # -- looking -----------------------------------------------------------------------------------------------

    def log(self, broker: int, where: TopicPartition = T0) -> ListLog:
        return self.servers[broker].disk.logs[where]

    def hw(self, broker: int, where: TopicPartition = T0) -> int:
        return self.servers[broker].replicas.partitions[where].high_watermark

    def leading(self, broker: int, where: TopicPartition = T0) -> LeaderRole:
        role = self.servers[broker].replicas.partitions[where].role
        assert isinstance(role, LeaderRole)
        return role

    def isr(self, where: TopicPartition = T0) -> tuple[int, ...]:
        """As it stands in the store."""
        return tuple(self.states[where].isr)

    def events(self, broker: int) -> list[str]:
        return [note.event for note in self.servers[broker].notes]

    def live(self) -> list[Broker]:
        return [
            Broker(each.id, each.epoch, (), rack=self.racks.get(each.id))
            for each in self.servers.values()
            if each.alive
        ]

    def check_clean(self) -> None:
        """A partition that a leader does not look at has nothing to tell its follower, and nothing to learn from it."""
        for server in self.servers.values():
            if not server.alive:
                continue
            replicas = server.replicas
            for session in replicas.fetches.sessions._open.values():
                assert session.dirty.keys() <= session.requests.keys()
                for where in session.requests.keys() - session.dirty.keys():
                    partition, request = replicas.partitions[where], session.requests[where]
                    assert isinstance(partition.role, LeaderRole)
                    follower, log = partition.role.followers[session.replica], partition.log
                    assert follower._session is session
                    assert session.replica in partition.role.isr.members
                    assert request.leader_epoch == partition.leader_epoch
                    assert request.offset == follower.end_offset == log.end_offset == partition.high_watermark
                    assert session.last_sent[where] == (partition.high_watermark, log.start_offset)
                    assert request.start_offset == follower.start_offset

    # -- the controller ----------------------------------------------------------------------------------------

    def create(self, where: TopicPartition = T0, *, replicas: Iterable[int] = (1, 2, 3)) -> None:
        brokers = tuple(BrokerId(each) for each in replicas)
        self.assignments[where] = Assignment(brokers)
        self.states[where] = PartitionState(brokers[0], brokers, controller_epoch=CE)
        self.tell(where)
        self.tell_metadata()

    def elect(self, leader: int, isr: Iterable[int], where: TopicPartition = T0, *, tell: Iterable[int] = ()) -> None:
        """A new leader epoch. `tell`: only to these; else to all who are alive."""
        before = self.states[where]
        after = before.next(CE, leader=BrokerId(leader), isr=tuple(BrokerId(each) for each in isr))
        self.states[where] = evolve(after, version=Version(before.version + 1))
        self.tell(where, to=tell)
        self.tell_metadata(to=tell)

    def role(self, where: TopicPartition) -> Role:
        return Role(where, TopicId(where.topic.ljust(22, "x")), self.states[where], self.assignments[where])

    def _to(self, to: Iterable[int]) -> list[Server]:
        chosen = set(to)
        return [each for each in self.servers.values() if each.alive and (not chosen or each.id in chosen)]

    def tell(self, where: TopicPartition = T0, *, to: Iterable[int] = ()) -> dict[int, dict[TopicPartition, int]]:
        answers = {}
        leaders = tuple(broker for broker in self.live() if broker.id == self.states[where].leader)
        for server in self._to(to):
            if server.id in self.assignments[where].replicas:
                command = LeaderAndIsr(BrokerId(9), CE, server.epoch, False, (self.role(where),), leaders)
                answers[int(server.id)] = server.replicas.apply(command, self.now)
                self.collect(server)
        return answers

    def tell_metadata(self, *, to: Iterable[int] = ()) -> None:
        roles = tuple(self.role(where) for where in self.states)
        for server in self._to(to):
            server.replicas.apply(UpdateMetadata(BrokerId(9), CE, server.epoch, roles, tuple(self.live())), self.now)
            self.collect(server)

    def stop(
        self, broker: int, where: TopicPartition = T0, *, delete: bool, epoch: int | None = None
    ) -> dict[TopicPartition, int]:
        server = self.servers[broker]
        told = LeaderEpoch(self.states[where].leader_epoch if epoch is None else epoch)
        command = StopReplica(BrokerId(9), CE, server.epoch, (Stop(where, told, delete),))
        errors = server.replicas.apply(command, self.now)
        self.collect(server)
        return errors

    # -- what happens to brokers -----------------------------------------------------------------------------------

    def checkpoint(self, broker: int) -> None:
        server = self.servers[broker]
        server.disk.watermarks = server.replicas.high_watermarks()

    def kill(self, broker: int, *, keeps: int | None = None) -> None:
        """`keeps`: what was written from this offset on was in the page cache only, and is lost."""
        server = self.servers[broker]
        server.alive = False
        if keeps is not None:
            for log in server.disk.logs.values():
                log.lose(keeps)

    def start(self, broker: int) -> None:
        """It has its disk, and knows nothing but what it is told."""
        self.servers[broker].disk.offline.clear()
        self.servers[broker] = self._server(BrokerId(broker), self.servers[broker].disk)

    def collect(self, server: Server) -> None:
        ready = server.replicas.ready()
        for reply in ready.replies:
            assert reply.token not in self.answers, "answered twice"
            self.answers[reply.token] = reply.results
        server.writes.extend(ready.writes)
        server.notes.extend(ready.notes)
        while (flush := server.replicas.next_flush()) is not None:
            server.replicas.flushed(flush.where, flush.cuts, flush.log.flush(), self.now)
            self.collect(server)
        for read in ready.reads:
            server.replicas.alter_partition.read(read.where, read.epoch, self.states[read.where], self.now)
            self.collect(server)

    def pass_time(self, ms: int) -> None:
        """All of it, alarm by alarm."""
        end = self.now + ms
        while True:
            alive = [server for server in self.servers.values() if server.alive]
            due = [server.replicas.deadline for server in alive]
            at = min((time for time in due if time is not None and time <= end), default=None)
            if at is None:
                break
            self.now = max(self.now, at)
            for server in alive:
                server.replicas.tick(self.now)
                self.collect(server)
        self.now = end

    # -- the store ---------------------------------------------------------------------------------------------

    def write_isrs(self, broker: int) -> None:
        """What it wants written is written, or refused, and it hears of it."""
        server = self.servers[broker]
        while server.writes:
            write = server.writes.pop(0)
            version = self.written(write)
            if version is None:
                server.replicas.alter_partition.refused(write)
            else:
                server.replicas.alter_partition.written(write, version, self.now)
            self.collect(server)

    def written(self, write: WriteIsr) -> Version | None:
        state = self.states[write.where]
        if state.version != write.state.version:
            return None
        self.states[write.where] = evolve(write.state, version=Version(state.version + 1))
        return self.states[write.where].version

    # -- clients -----------------------------------------------------------------------------------------------

    def token(self) -> int:
        self.tokens += 1
        return self.tokens

    def produce(
        self, broker: int, *records: str, acks: int = 1, where: TopicPartition = T0, timeout_ms: int = 30_000
    ) -> int:
        """One batch. The answer stands under the token when it is there."""
        token, server = self.token(), self.servers[broker]
        results = server.replicas.produce(token, acks, timeout_ms, [(where, batch(*records))], self.now)
        if results is not None:
            self.answers[token] = results
        self.collect(server)
        return token

    def error(self, token: int) -> ErrorCode | None:
        """None: it is not answered yet."""
        results = self.answers.get(token)
        return None if results is None else results[0].error

    def base_offset(self, token: int) -> int:
        [result] = self.answers[token]
        assert isinstance(result, Produced)
        return result.base_offset

    def consume(self, broker: int, offset: int, *, where: TopicPartition = T0, **more: Any) -> list[str]:
        """What a consumer gets there, from this offset on."""
        [result] = self.fetch_as_consumer(broker, offset, where=where, **more)
        assert not result.error, result.error
        return [
            record.decode()
            for each in decode(result.records)
            for place, record in enumerate(each.records)
            if each.base + place >= offset
        ]

    def fetch_as_consumer(
        self, broker: int, offset: int, *, where: TopicPartition = T0, leader_epoch: int = -1, **more: Any
    ) -> list[Fetched]:
        server = self.servers[broker]
        asked = Fetch((FetchPartition(where, offset, 1 << 20, leader_epoch),))
        results = server.replicas.fetch(self.token(), evolve(asked, **more), self.now)
        self.collect(server)
        assert results is not None
        return results

    def latest(self, broker: int, where: TopicPartition = T0) -> OffsetAnswer:
        return self.servers[broker].replicas.look_up(Lookup(where, -1))

    # -- followers ---------------------------------------------------------------------------------------------

    def ask(self, follower: int, where: TopicPartition = T0) -> LeaderRequest | None:
        """What it would ask its leader now."""
        server = self.servers[follower]
        role = server.replicas.partitions[where].role
        assert isinstance(role, FollowerRole), role
        return server.replicas.fetchers.next_request(role.leader, server.epoch, self.now)

    def serve(self, request: LeaderRequest) -> Answers:
        """At its leader, at once whatever there is."""
        server = self.servers[request.leader]
        answers: Answers | None
        if request.fetch is not None:
            asked = evolve(request.fetch, wait_ms=0, session=request.fetch.session if self.sessions else None)
            answers = server.replicas.fetch(self.token(), asked, self.now)
            assert answers is not None
        elif request.epochs:
            answers = [server.replicas.epoch_end(ask.where, ask.leader_epoch, ask.epoch) for ask in request.epochs]
        else:
            answers = [
                server.replicas.look_up(
                    Lookup(ask.where, -1 if ask.latest else -2, ask.leader_epoch), replica=BrokerId(0)
                )
                for ask in request.offsets
            ]
        self.collect(server)
        return answers

    def hear(self, follower: int, request: LeaderRequest, answers: Answers) -> None:
        server = self.servers[follower]
        server.replicas.fetchers.answered(request, answers, self.now)
        self.collect(server)

    def pull(self, *followers: int, rounds: int = 1) -> None:
        """Each asks once, is answered, and hears it; as often as said."""
        for _ in range(rounds):
            for follower in followers:
                request = self.ask(follower)
                if request is not None:
                    self.hear(follower, request, self.serve(request))
