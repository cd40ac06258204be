"""What a script asks of partitions, and what it does to the brokers that hold them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from harness.faults import (
    AllowUnclean,
    Blackout,
    BreakDisk,
    CommitPositions,
    Consume,
    CutBroker,
    DeleteRecords,
    LosePower,
    Op,
    PartBrokers,
    Produce,
    Replication,
    SlowBroker,
    SlowStore,
    WipeBroker,
)
from harness.worlds.controller import administration
from harness.worlds.cores.controller.nodes import NodesClient, Note
from harness.worlds.cores.controller.workload import ControllerWorkload
from harness.worlds.cores.crashed import Crashed
from harness.worlds.cores.partitions.clients import Consumer, Deleter, Producer
from harness.worlds.cores.partitions.members import Committer, Hasty, Member, Named
from harness.worlds.cores.partitions.wires import add
from kraft_controller.core.names import TopicPartition, Version
from kraft_controller.core.store_requests import Create, Get, Multi, Node, Set, StoreRequests
from kraft_controller.wire import znodes

if TYPE_CHECKING:
    from harness.worlds.cores.partitions.broker import PartitionBroker
    from harness.worlds.cores.partitions.world import PartitionsWorld


_COMMITTERS: Final[dict[str, type[Committer]]] = {"member": Member, "alone": Committer, "hasty": Hasty, "named": Named}
DELETER: Final = 99
"""Its number, among clients."""


class PartitionsWorkload(ControllerWorkload):
    world: PartitionsWorld

    def __init__(self, world: PartitionsWorld) -> None:
        super().__init__(world)
        self.producers: dict[tuple[int, TopicPartition, str], Producer] = {}
        self.consumers: dict[tuple[int, TopicPartition], Consumer] = {}
        self.committers: dict[tuple[int, int, str], Committer] = {}

    def perform(self, op: Op, _: object) -> None:
        act = self._PARTITION_OPS.get(type(op))
        if act is None:
            super().perform(op, _)
        else:
            act(self, op)

    # -- clients -----------------------------------------------------------------------------------------

    def _produce(self, op: Produce) -> None:
        where = administration.where_of(op.topic, op.partition)
        key = op.client, where, op.acks
        if key not in self.producers:
            self.producers[key] = Producer(self.world, op.client, where, op.acks)
        self.producers[key].give(op.count)

    def _consume(self, op: Consume) -> None:
        where = administration.where_of(op.topic, op.partition)
        if (op.client, where) not in self.consumers:
            self.consumers[op.client, where] = Consumer(self.world, op.client, where)

    def _commit(self, op: CommitPositions) -> None:
        key = op.client, op.group, op.part
        if key not in self.committers:
            kind = _COMMITTERS[op.part]
            self.committers[key] = kind(self.world, op.client, op.group)
        self.committers[key].give(op.count)

    def _delete_records(self, op: DeleteRecords) -> None:
        Deleter(self.world, DELETER, administration.where_of(op.topic, op.partition), op.percent)

    def _allow(self, op: AllowUnclean) -> None:
        self._ask(_set_unclean(administration.name_of(op.topic), op.unclean == "allowed"))

    # -- brokers -----------------------------------------------------------------------------------------

    def _partition_broker(self, op: Any) -> PartitionBroker | None:
        found: Any = self._who(op)
        return found  # type: ignore[no-any-return]

    def _phase(self) -> str:
        if self.world.controller() is None:
            return "no controller"
        states = [(truth.state, truth.factor) for truth in self.world.keeper.truths.values()]
        known = [(state, factor) for state, factor in states if state is not None]
        up = {broker.id for broker in self.world.brokers.values() if broker.up}
        if any(state.leader not in up for state, _ in known):
            return "a leader is away"
        return "all in sync" if all(len(state.isr) >= factor for state, factor in known) else "not all in sync"

    def _lose_power(self, op: LosePower) -> None:
        if op.calls:
            aimed = self.world.brokers[(max(op.broker, 1) - 1) % self.world.script.brokers + 1]  # it need not be up
            aimed.disk.crash_in(op.calls, partial(self._lost_at, op, aimed))
        elif (broker := self._partition_broker(op)) is not None:
            broker.lose_power(op.loss)
            self.world.start_later(broker, op.down_ms)

    def _lost_at(self, op: LosePower, broker: PartitionBroker, where: str) -> Crashed:
        self.world.counted_call(where)
        return Crashed(broker, op.loss, op.down_ms, False)

    def _blackout(self, op: Blackout) -> None:
        self._hit(op)
        for broker in self.world.brokers.values():
            broker.lose_power(op.loss)
            self.world.start_later(broker, op.down_ms + int(broker.random.random() * 200))

    def _wipe(self, op: WipeBroker) -> None:
        if (broker := self._partition_broker(op)) is not None:
            broker.lose_disk()
            self.world.start_later(broker, op.down_ms)

    def _fail_disk(self, op: BreakDisk) -> None:
        if (broker := self._partition_broker(op)) is not None:
            broker.disk.fails(op.error, op.nth)
            self.world.push_fault_end(self.world.now + op.down_ms * 1_000, self._mend, broker, None)

    @staticmethod
    def _mend(broker: PartitionBroker, _: None) -> None:
        broker.mend()

    def _cut(self, op: CutBroker) -> None:
        if (broker := self._partition_broker(op)) is not None:
            add(self.world.wires.cut, broker.id, 1)
            self.world.push_fault_end(self.world.now + op.for_ms * 1_000, self._uncut, broker, None)

    def _uncut(self, broker: PartitionBroker, _: None) -> None:
        add(self.world.wires.cut, broker.id, -1)

    def _part(self, op: PartBrokers) -> None:
        brokers = self.world.script.brokers
        one, other = (op.broker - 1) % brokers + 1, (op.other - 1) % brokers + 1
        if one != other:
            self._hit(op)
            pair = min(one, other), max(one, other)
            add(self.world.wires.parted, pair, 1)
            self.world.push_fault_end(self.world.now + op.for_ms * 1_000, self._join, pair, None)

    def _join(self, pair: tuple[int, int], _: None) -> None:
        add(self.world.wires.parted, pair, -1)

    def _slow(self, op: SlowBroker) -> None:
        if (broker := self._partition_broker(op)) is not None:
            by = broker.id, op.more_ms * 1_000
            add(self.world.wires.slow, *by)
            self.world.push_fault_end(self.world.now + op.for_ms * 1_000, self._quick, by, None)

    def _quick(self, by: tuple[int, int], _: None) -> None:
        add(self.world.wires.slow, by[0], -by[1])

    def _slow_store(self, op: SlowStore) -> None:
        broker = self._partition_broker(op)
        if broker is not None and broker.client is not None:
            by = broker.client, op.more_ms * 1_000
            broker.client.slow_us += by[1]
            self.world.push_fault_end(self.world.now + op.for_ms * 1_000, self._quick_store, *by)

    @staticmethod
    def _quick_store(client: NodesClient, by_us: int) -> None:
        client.slow_us -= by_us

    def _set_up(self, _: Replication) -> None:
        """The world has looked at it before it began."""

    _PARTITION_OPS: Final[dict[type, Callable[[Any, Any], None]]] = {
        Produce: _produce,
        Consume: _consume,
        CommitPositions: _commit,
        DeleteRecords: _delete_records,
        AllowUnclean: _allow,
        LosePower: _lose_power,
        Blackout: _blackout,
        WipeBroker: _wipe,
        BreakDisk: _fail_disk,
        CutBroker: _cut,
        PartBrokers: _part,
        SlowBroker: _slow,
        SlowStore: _slow_store,
        Replication: _set_up,
    }


def _set_unclean(topic: str, allowed: bool) -> StoreRequests[None]:
    path = znodes.config_path("topics", topic)
    data = znodes.config({"unclean.leader.election.enable": str(allowed).lower()})
    [node] = yield [Get(path)]
    yield [Multi((Set(path, data, Version(-1)) if isinstance(node, Node) else Create(path, data),))]
    note = Note(f"{znodes.CONFIG_CHANGES}/config_change_", znodes.config_change("topics", topic))
    yield [note]  # type: ignore[list-item]  # who carries it out knows of notes
