"""Everything at once, from a seed: three replicas and a controller that lets the dead leave the ISR and elects of those
in sync. Machines die and lose what their page cache held, fetches and their answers are lost or late, ISR changes
wait, are lost, or succeed without anybody hearing of it, and commands reach brokers late.

After each step:
    - no record that was acknowledged with acks=all is missing at who leads, unless all who were in sync died
    - what a watermark has exposed is there for ever, unchanged
    - replicas agree on what is before both their watermarks, and never hold two records of one offset and one epoch
At the end, when all are alive and nothing more is lost, everybody has everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest
from attrs import evolve

from kraft_controller.core.commands import Command, LeaderAndIsr, UpdateMetadata
from kraft_controller.core.names import NO_LEADER, BrokerId, Version
from replica.core.errors import ErrorCode
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.leader_role import LeaderRole
from replica.core.replica_messages import LeaderRequest, Produced, ReadIsr, WriteIsr
from replica.core.replica_settings import ReplicaSettings
from tests.unit.replica.world import CE, T0, Answers, Server, World

SEEDS = int(os.environ.get("REPLICA_SEEDS", "150"))
STEPS = 400


class Chaos(World):
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        super().__init__(
            3,
            settings=ReplicaSettings(
                lag_time_max_ms=2_000,
                fetch_backoff_ms=100,
                isr_backoff_ms=100,
                min_insync=self.chance.choice((1, 1, 2)),
                fetch_diverges=self.chance.random() < 0.8,
                follower_reads=self.chance.random() < 0.5,
                sync_writes=self.chance.random() < 0.2,
            ),
            sessions=seed % 2 == 1,
        )
        self.brokers = (1, 2, 3)
        self.deaths = self.chance.choice((0.003, 0.01, 0.02))
        self.trace: list[str] = []
        self.reads: list[tuple[Server, ReadIsr]] = []
        self.isr_writes: list[tuple[Server, WriteIsr]] = []
        self.orders: dict[int, list[tuple[int, Command]]] = {1: [], 2: [], 3: []}
        self.travelling: list[tuple[Server, LeaderRequest]] = []
        self.answered: list[tuple[Server, LeaderRequest, Answers]] = []
        self.registered: dict[int, int] = {number: self.servers[number].epoch for number in self.brokers}
        """As the controller sees it: broker and life."""
        self.lossy: set[int] = set()
        """Who has lost something that the controller has not seen yet."""
        self.acknowledged: dict[int, bytes] = {}
        self.exposed: dict[int, bytes] = {}
        self.pending: dict[int, bytes] = {}
        self.made = 0
        self.create()

    # -- what is not done at once ------------------------------------------------------------------------------

    def collect(self, server: Server) -> None:
        ready = server.replicas.ready()
        for reply in ready.replies:
            self.answers[reply.token] = reply.results
        server.notes.extend(ready.notes)
        self.isr_writes.extend((server, write) for write in ready.writes)
        self.reads.extend((server, read) for read in ready.reads)
        while (flush := server.replicas.next_flush()) is not None:
            server.replicas.flushed(flush.where, flush.cuts, flush.log.flush(), self.now)
            self.collect(server)

    def here(self, server: Server) -> bool:
        return server.alive and self.servers[server.id] is server

    # -- the controller ----------------------------------------------------------------------------------------

    def control(self) -> None:
        """It compares who is registered with who it knows, as one event, and sends what follows."""
        now = {int(each.id): int(each.epoch) for each in self.live()}
        if now == self.registered:
            return
        gone = [number for number, epoch in self.registered.items() if now.get(number) != epoch]
        new = [number for number, epoch in now.items() if self.registered.get(number) != epoch]
        self.registered = now
        self.lossy -= set(gone)
        state = self.states[T0]
        isr = tuple(each for each in state.isr if each not in gone) or state.isr
        candidates = [each for each in self.assignments[T0].replicas if each in isr and each in now]
        leader = state.leader if state.leader in candidates and state.leader not in gone else None
        if leader is None:
            leader = candidates[0] if candidates else NO_LEADER
        if leader != state.leader or isr != state.isr or leader in gone:
            after = state.next(CE, leader=leader, isr=isr)
            self.states[T0] = evolve(after, version=Version(state.version + 1))
            new = list(now)
        self.trace.append(f"controller: {self.states[T0]}")
        self.order(new)

    def order(self, to: list[int]) -> None:
        for number in to:
            server = self.servers[number]
            if server.alive:
                role = self.role(T0)
                leaders = tuple(broker for broker in self.live() if broker.id == role.state.leader)
                self.orders[number].append(
                    (server.epoch, LeaderAndIsr(BrokerId(9), CE, server.epoch, True, (role,), leaders))
                )
        roles = (self.role(T0),)
        for number in self.brokers:
            server = self.servers[number]
            command = UpdateMetadata(BrokerId(9), CE, server.epoch, roles, tuple(self.live()))
            self.orders[number].append((server.epoch, command))

    def deliver_order(self) -> None:
        number = self.chance.choice(self.brokers)
        server = self.servers[number]
        if self.orders[number]:
            epoch, command = self.orders[number].pop(0)
            if server.alive and epoch == server.epoch:
                self.trace.append(f"{number} hears {type(command).__name__}")
                server.replicas.apply(command, self.now)
                self.collect(server)

    # -- brokers die ---------------------------------------------------------------------------------------------

    def crash(self) -> None:
        number = self.chance.choice(self.brokers)
        server = self.servers[number]
        if not server.alive:
            return
        loses = self.chance.random() < 0.7
        state = self.states[T0]
        # Any of these may stand in the store in a moment, also one that was asked for by who is dead by then.
        asked = [write.state.isr for _, write in self.isr_writes if write.state.version == state.version]
        for isr in [set(state.isr), *map(set, asked)]:
            seen = [
                each
                for each in isr - {number}
                if self.servers[each].alive and self.servers[each].epoch == self.registered.get(each)
            ]
            if number in isr and not seen:
                # The last one in sync. What it loses is lost. And it may not die at all while the controller still
                # takes somebody to be in sync who has lost something.
                if self.lossy & isr:
                    return
                loses = False
        if loses:
            self.lossy.add(number)
        if self.chance.random() < 0.5:
            self.checkpoint(number)
        if loses:
            for log in server.disk.logs.values():
                log.lose_some(self.chance)
        server.alive = False
        self.trace.append(f"{number} dies{' and loses its tail' if loses else ''}")
        if self.chance.random() < 0.3:
            self.revive(number)  # before anybody has seen it go

    def revive(self, number: int) -> None:
        if not self.servers[number].alive:
            self.start(number)
            self.trace.append(f"{number} is back as {self.servers[number].epoch}")

    # -- fetching ------------------------------------------------------------------------------------------------

    def fetch(self) -> None:
        number = self.chance.choice(self.brokers)
        server = self.servers[number]
        partition = server.replicas.partitions.get(T0)
        if not server.alive or partition is None or not isinstance(partition.role, FollowerRole):
            return
        busy = [each for each, *_ in (*self.travelling, *self.answered) if each is server]
        if busy and self.chance.random() < 0.8:
            return  # one at a time, but for one that has been given up
        request = server.replicas.fetchers.next_request(partition.role.leader, server.epoch, self.now)
        if request is not None:
            self.travelling.append((server, request))

    def exchange(self) -> None:
        """Asked, answered and heard, without a hitch."""
        number = self.chance.choice(self.brokers)
        server = self.servers[number]
        partition = server.replicas.partitions.get(T0)
        role = None if partition is None else partition.role
        if server.alive and isinstance(role, FollowerRole) and self.servers[role.leader].alive:
            self.pull(number)

    def arrive(self) -> None:
        if not self.travelling:
            return
        place = 0 if self.chance.random() < 0.8 else self.chance.randrange(len(self.travelling))
        server, request = self.travelling.pop(place)
        leader = self.servers[request.leader]
        if not leader.alive or self.chance.random() < 0.1:
            if self.here(server):
                server.replicas.fetchers.failed(request, self.now)
            return
        answers = self.serve(request)
        if self.chance.random() < 0.9:
            self.answered.append((server, request, answers))
        elif self.here(server):
            server.replicas.fetchers.failed(request, self.now)

    def answer(self) -> None:
        if self.answered:
            server, request, answers = self.answered.pop(0)
            if self.here(server):
                server.replicas.fetchers.answered(request, answers, self.now)
                self.collect(server)

    # -- the store -----------------------------------------------------------------------------------------------

    def store(self) -> None:
        if self.reads and self.chance.random() < 0.5:
            server, read = self.reads.pop(0)
            if self.here(server):
                server.replicas.alter_partition.read(read.where, read.epoch, self.states[T0], self.now)
                self.collect(server)
        elif self.isr_writes:
            server, write = self.isr_writes.pop(0)
            if not self.here(server) and self.chance.random() < 0.5:
                return
            lost = self.chance.random()
            version = None
            if lost > 0.1:
                # Who is to join must be registered: that is checked in the same transaction.
                there = all(self.servers[each].alive for each in write.joins)
                if not there and lost >= 0.25:
                    if self.here(server):
                        server.replicas.alter_partition.unwanted(write, self.now)
                        self.collect(server)
                    return
                version = self.written(write) if there else None
                self.trace.append(f"ISR {write.state.isr} at {write.state.version}: {version}")
            if not self.here(server):
                return
            if lost < 0.25:
                server.replicas.alter_partition.lost(write)
            elif version is None:
                server.replicas.alter_partition.refused(write)
            else:
                server.replicas.alter_partition.written(write, version, self.now)
            self.collect(server)

    # -- clients -------------------------------------------------------------------------------------------------

    def write(self) -> None:
        number = self.chance.choice(self.brokers)
        server = self.servers[number]
        partition = server.replicas.partitions.get(T0)
        if server.alive and partition is not None and isinstance(partition.role, LeaderRole):
            self.made += 1
            record = f"r{self.made}"
            acks = self.chance.choice((-1, -1, 1))
            token = self.produce(number, record, acks=acks, timeout_ms=3_000)
            if acks == -1:
                self.pending[token] = record.encode()

    def disk(self) -> None:
        server = self.servers[self.chance.choice(self.brokers)]
        if server.alive:
            for log in server.disk.logs.values():
                log.flush()

    # -- judging -------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        self.check_clean()
        for token, record in list(self.pending.items()):
            results = self.answers.get(token)
            if results is not None:
                del self.pending[token]
                [result] = results
                assert isinstance(result, Produced)
                if result.error is ErrorCode.NONE:
                    self.acknowledged[result.base_offset] = record
        histories: dict[tuple[int, int], bytes] = {}
        prefixes = []
        for server in self.servers.values():
            log = server.disk.logs[T0]
            written = log.written()
            for offset, (epoch, record) in written.items():
                assert histories.setdefault((offset, epoch), record) == record, f"two records at {offset} of {epoch}"
            partition = server.replicas.partitions.get(T0)
            if server.alive and partition is not None:
                watermark = partition.high_watermark
                assert watermark <= log.end_offset
                for offset in range(watermark):
                    record = written[offset][1]
                    assert self.exposed.setdefault(offset, record) == record, f"{offset} was exposed as another"
                prefixes.append([written[offset] for offset in range(watermark)])
        for one in prefixes:
            for other in prefixes:
                both = min(len(one), len(other))
                assert one[:both] == other[:both]
        leader = self.states[T0].leader
        if leader != NO_LEADER and self.servers[leader].alive:
            server = self.servers[leader]
            partition = server.replicas.partitions.get(T0)
            role = None if partition is None else partition.role
            if isinstance(role, LeaderRole) and role.epoch == self.states[T0].leader_epoch:
                written = server.disk.logs[T0].written()
                for known in (self.acknowledged, self.exposed):
                    for offset, record in known.items():
                        assert offset in written, f"{offset} is lost at {leader}"
                        assert written[offset][1] == record, f"{offset} has changed at {leader}"

    def step(self) -> None:
        acts: list[Callable[[], None]] = [
            self.write, self.fetch, self.arrive, self.answer, self.fetch, self.arrive, self.answer, self.exchange,
            self.exchange, self.exchange, self.store, self.deliver_order, self.deliver_order,
        ]  # fmt: skip
        act = self.chance.choice(acts)
        luck = self.chance.random()
        if luck < self.deaths:
            act = self.crash
        elif luck < 0.04:
            number = self.chance.choice(self.brokers)
            act = lambda: self.revive(number)  # noqa: E731
        elif luck < 0.08:
            act = self.control
        elif luck < 0.10:
            act = self.disk
        elif luck < 0.16:
            self.pass_time(self.chance.choice((10, 100, 1_000)))
        act()
        self.judge()

    def heal(self) -> None:
        """All are alive, the controller has seen it, and nothing is lost any more."""
        for number in self.brokers:
            self.revive(number)
        self.control()
        self.order(list(self.brokers))
        for _ in range(60):
            for number in self.brokers:
                server = self.servers[number]
                for epoch, command in self.orders[number]:
                    if epoch == server.epoch:
                        server.replicas.apply(command, self.now)
                        self.collect(server)
                self.orders[number].clear()
            self.travelling.clear()
            self.answered.clear()
            for number in self.brokers:
                partition = self.servers[number].replicas.partitions[T0]
                if isinstance(partition.role, FollowerRole):
                    self.pull(number)
            for server, write in self.isr_writes:
                if self.here(server):
                    version = self.written(write)
                    if version is None:
                        server.replicas.alter_partition.refused(write)
                    else:
                        server.replicas.alter_partition.written(write, version, self.now)
            self.isr_writes.clear()
            for server, read in self.reads:
                if self.here(server):
                    server.replicas.alter_partition.read(read.where, read.epoch, self.states[T0], self.now)
            self.reads.clear()
            for server in self.servers.values():
                self.collect(server)
            self.pass_time(100)
            self.judge()


@pytest.mark.mechanism(26, 19)
@pytest.mark.parametrize("block", range(10))
def test_random(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        run(seed)


def run(seed: int) -> Chaos:
    chaos = Chaos(seed)
    try:
        for _ in range(STEPS):
            chaos.step()
        chaos.heal()
        logs = [chaos.log(number).written() for number in chaos.brokers]
        assert logs[0] == logs[1] == logs[2]
        assert set(chaos.isr()) == {1, 2, 3}
        assert {chaos.hw(number) for number in chaos.brokers} == {len(logs[0])}
    except Exception as error:
        error.add_note(f"seed {seed}\n" + "\n".join(chaos.trace[-40:]))
        raise
    return chaos
