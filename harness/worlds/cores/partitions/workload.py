"""The operations of a script for clients of partitions, and its faults of brokers with data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from harness import faults
from harness.worlds.controller import administration
from harness.worlds.cores.controller.nodes import Note
from harness.worlds.cores.controller.workload import ControllerWorkload
from harness.worlds.cores.partitions.broker import PartitionBroker
from harness.worlds.cores.partitions.clients import Consumer, Deleter, Producer
from harness.worlds.cores.partitions.committers import Committer, HastyMember, Member, StaticMember
from harness.worlds.cores.partitions.session_consumers import SessionReader, uses_sessions
from harness.worlds.cores.partitions.simulator import PartitionsSimulator
from harness.worlds.cores.partitions.transactors import Transactor
from harness.worlds.disks import Crashed
from kraft_controller.core.names import TRANSACTIONS_TOPIC, TopicPartition, Version
from kraft_controller.core.store_requests import Create, Get, Multi, Node, Set, StoreRequests
from kraft_controller.wire import znodes

_COMMITTERS: Final[dict[str, type[Committer]]] = {
    "member": Member,
    "alone": Committer,
    "hasty": HastyMember,
    "named": StaticMember,
}
DELETER: Final = 99
"""The client number of the deleter."""
AGAIN_MS: Final = 20
"""The pause before a fault without a target is tried again."""
TRIES: Final = 40
K = TypeVar("K")


class PartitionsWorkload(ControllerWorkload):
    world: PartitionsSimulator

    def __init__(self, world: PartitionsSimulator) -> None:
        super().__init__(world)
        self.producers: dict[tuple[int, TopicPartition, str], Producer] = {}
        self.consumers: dict[tuple[int, TopicPartition], Consumer] = {}
        self._readers: dict[bool, SessionReader] = {}
        """The clients that fetch in sessions, by isolation level: True for read_committed."""
        self.committers: dict[tuple[int, int, str], Committer] = {}
        self.transactors: dict[int, Transactor] = {}

    # -- clients -----------------------------------------------------------------------------------------

    def _produce(self, op: faults.Produce) -> None:
        where = administration.where_of(op.topic, op.partition)
        key = op.client, where, op.acks
        if key not in self.producers:
            self.producers[key] = Producer(self.world, op.client, where, op.acks)
        self.producers[key].give(op.count)

    def _consume(self, op: faults.Consume) -> None:
        where = administration.where_of(op.topic, op.partition)
        if (op.client, where) in self.consumers:
            return
        committed = where.topic in self.world.transacted
        if uses_sessions(self.world.script.seed):
            if committed not in self._readers:
                self._readers[committed] = SessionReader(self.world, op.client, committed=committed)
            self.consumers[op.client, where] = self._readers[committed].consume(where)
        else:
            self.consumers[op.client, where] = Consumer(self.world, op.client, where, committed=committed)

    def _commit(self, op: faults.CommitPositions) -> None:
        key = op.client, op.group, op.part
        if key not in self.committers:
            self.committers[key] = _COMMITTERS[op.part](self.world, op.client, op.group)
        self.committers[key].give(op.count)

    def _transact(self, op: faults.Transact) -> None:
        if not self.world.checkers.replicas.exists(TopicPartition(TRANSACTIONS_TOPIC, 0)):
            self._ask(administration.create_transactions_topic(self.world.script.brokers, self.world.new_id()))
        if op.client not in self.transactors:
            self.transactors[op.client] = Transactor(self.world, op.client)
        numbers = dict.fromkeys((op.partition, op.other))
        partitions = tuple(administration.where_of(op.topic, number) for number in numbers)
        self.transactors[op.client].give(partitions, op.count, op.fate)

    def _delete_records(self, op: faults.DeleteRecords) -> None:
        Deleter(self.world, DELETER, administration.where_of(op.topic, op.partition), op.percent)

    def _allow(self, op: faults.AllowUnclean) -> None:
        self._ask(_set_unclean(administration.name_of(op.topic), op.unclean == "allowed"))

    # -- brokers -----------------------------------------------------------------------------------------

    def _phase(self) -> str:
        if self.world.controller() is None:
            return "no controller"
        states = [(truth.state, truth.factor) for truth in self.world.checkers.replicas.truths.values()]
        known = [(state, factor) for state, factor in states if state is not None]
        up = {broker.id for broker in self.world.brokers.values() if broker.up}
        if any(state.leader not in up for state, _ in known):
            return "a leader is away"
        return "all in sync" if all(len(state.isr) >= factor for state, factor in known) else "not all in sync"

    def _lose_power(self, op: faults.LosePower) -> None:
        if op.calls:
            aimed = self._named(op)  # the broker may be down
            aimed.disk.crash_in(op.calls, partial(self._lost_at, op, aimed))
        elif (broker := self._target(op)) is not None:
            broker.lose_power(op.loss)
            self.world.start_later(broker, op.down_ms)

    def _lost_at(self, op: faults.LosePower, broker: PartitionBroker, kind: str, _: str) -> Crashed:
        self.world.counted(f"crash {kind}")
        return Crashed(broker, op.loss, op.down_ms)

    def _wipe(self, op: faults.WipeBroker) -> None:
        if (broker := self._target(op)) is not None:
            broker.lose_disk()
            self.world.start_later(broker, op.down_ms)

    def _break_disk(self, op: faults.BreakDisk) -> None:
        if (broker := self._target(op)) is not None:
            broker.disk.fails(op.error, op.nth)
            self._undo(op.down_ms, broker.mend)

    def _cut(self, op: faults.CutBroker) -> None:
        if (broker := self._target(op)) is not None:
            self._change(self.world.wires.cut, broker.id, 1, op.for_ms)

    def _part(self, op: faults.PartBrokers) -> None:
        brokers = self.world.script.brokers
        one, other = (op.broker - 1) % brokers + 1, (op.other - 1) % brokers + 1
        if one != other:
            self._hit(op)
            self._change(self.world.wires.parted, (min(one, other), max(one, other)), 1, op.for_ms)

    def _slow(self, op: faults.SlowBroker) -> None:
        if (broker := self._target(op)) is not None:
            self._change(self.world.wires.slow, broker.id, op.more_ms * 1_000, op.for_ms)

    def _throttle(self, op: faults.ThrottleReplica, tries: int = TRIES) -> None:
        """Throttle a replica. Without a target, try again soon."""
        replicas = [
            (broker, where)
            for broker in self.world.brokers.values()
            if broker.up and not broker.paused
            for where in broker.throttleable()
        ]
        if replicas:
            broker, where = replicas[(op.nth - 1) % len(replicas)]
            self._hit(op)
            broker.throttle([where], 0)
            self._undo(op.for_ms, lambda: broker.soon(partial(broker.throttle, [], None)), broker)
        elif tries:
            self._undo(AGAIN_MS, partial(self._throttle, op, tries - 1))

    def _change(self, table: dict[K, int], key: K, by: int, for_ms: int) -> None:
        """Change a number of a table for a while. Overlapping faults add up, and an entry is removed at 0."""

        def add(more: int) -> None:
            table[key] = table.get(key, 0) + more
            if not table[key]:
                del table[key]

        add(by)
        self._undo(for_ms, partial(add, -by))

    def _ignore(self, _: faults.Replication) -> None:
        """Do nothing: the simulator has set up its brokers with it."""

    def _slow_store(self, op: faults.SlowStore) -> None:
        broker = self._target(op)
        if broker is None or broker.client is None:
            return
        client, by_us = broker.client, op.more_ms * 1_000

        def restore_speed() -> None:
            client.slow_us -= by_us

        client.slow_us += by_us
        self._undo(op.for_ms, restore_speed)

    PERFORM: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **ControllerWorkload.PERFORM,
        faults.Produce: _produce,
        faults.Consume: _consume,
        faults.CommitPositions: _commit,
        faults.Transact: _transact,
        faults.DeleteRecords: _delete_records,
        faults.AllowUnclean: _allow,
        faults.LosePower: _lose_power,
        faults.Blackout: ControllerWorkload._blackout,
        faults.WipeBroker: _wipe,
        faults.BreakDisk: _break_disk,
        faults.CutBroker: _cut,
        faults.PartBrokers: _part,
        faults.SlowBroker: _slow,
        faults.SlowStore: _slow_store,
        faults.ThrottleReplica: _throttle,
        faults.Replication: _ignore,
    }


def _set_unclean(topic: str, allowed: bool) -> StoreRequests[None]:
    path = znodes.config_path("topics", topic)
    data = znodes.config({"unclean.leader.election.enable": str(allowed).lower()})
    [node] = yield [Get(path)]
    yield [Multi((Set(path, data, Version(-1)) if isinstance(node, Node) else Create(path, data),))]
    note = Note(f"{znodes.CONFIG_CHANGES}/config_change_", znodes.config_change("topics", topic))
    yield [note]  # type: ignore[list-item]  # `Job` handles notes
