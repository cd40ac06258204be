"""What a script asks of brokers, and does to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from harness.checkers.records.history import ALL
from harness.checkers.transactions import Journal
from harness.faults import (
    AllowUnclean,
    Blackout,
    BreakDisk,
    Consume,
    CreateTopic,
    CutBroker,
    DeleteRecords,
    DeleteTopic,
    LosePower,
    Op,
    PartBrokers,
    Produce,
    Replication,
    Transact,
    WipeBroker,
)
from harness.worlds.brokers.consumer import Consumer
from harness.worlds.brokers.producer import Producer
from harness.worlds.brokers.topics import allow_unclean, create
from harness.worlds.brokers.transactions import CommittedReader, Transactor
from harness.worlds.brokers.trimmer import delete_records
from harness.worlds.controller.people import where_of
from harness.worlds.stack.brokers.broker import DATA_FROM, PORT, Broker, Person, host_of
from harness.worlds.stack.brokers.sockets import PROCESS
from harness.worlds.stack.controller.broker import EARS_FROM
from harness.worlds.stack.controller.workload import ControllerWorkload
from kraft_controller.core.names import TopicPartition
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import ClientSettings

if TYPE_CHECKING:
    from harness.worlds.stack.brokers.world import BrokersWorld

CLIENTS_FROM: Final = 4_000
READERS: Final = 10_000
"""Where the numbers of consumers begin: in the history they are other clients than the producers."""
TRIMMERS: Final = 20_000
REQUEST_S: Final = 1.0
PATIENCE_S: Final = 10.0
SETTINGS: Final = ClientSettings(client_id="zab-harness", request_s=REQUEST_S, patience_s=PATIENCE_S)


class BrokersWorkload(ControllerWorkload):
    def __init__(self, world: BrokersWorld) -> None:
        super().__init__(world)
        self._brokers_world = world
        self._places = count(CLIENTS_FROM)
        self._trimmers = count(TRIMMERS)
        self.producers: dict[tuple[int, TopicPartition, int], Producer] = {}
        self.consumers: dict[tuple[int, TopicPartition], Consumer] = {}
        self.topics: dict[int, int] = {}
        """With how many partitions each is made. What grows later is not used: nobody says when it is there."""
        self.written: dict[TopicPartition, None] = {}
        """Whatever somebody has written to."""
        self.journal = Journal()
        self.transacted = {op.topic for op in world.script.ops if isinstance(op, Transact)}
        """Topics in which all is written in transactions, and nobody reads what they have not committed."""
        self.transactors: dict[int, Transactor] = {}
        self.committed: dict[TopicPartition, None] = {}
        """Whatever a transaction has written to."""

    def perform(self, op: Op, _: object) -> None:
        act = self._PARTITION_OPS.get(type(op))
        if act is None:
            super().perform(op, _)
        else:
            act(self, op)

    # -- clients -----------------------------------------------------------------------------------------

    def person(self, act: Callable[[Client], Awaitable[None]]) -> None:
        """At a place of its own in the network."""
        self._brokers_world.beside(self._act, Person(self._brokers_world, next(self._places)), act)

    async def _act(self, person: Person, act: Callable[[Client], Awaitable[None]]) -> None:
        PROCESS.set(person)
        await act(self.new_client())

    def new_client(self) -> Client:
        brokers = range(1, self._brokers_world.script.brokers + 1)
        return Client([(host_of(broker), PORT) for broker in brokers], SETTINGS)

    def producer(self, client: int, where: TopicPartition, acks: int) -> Producer:
        key = client, where, acks
        found = self.producers.get(key)
        if found is None:
            self.written[where] = None
            tape = self._brokers_world.records
            found = self.producers[key] = Producer(tape, self.new_client(), client, where, acks, PATIENCE_S)
            self.person(lambda _, made=found: made.run())  # type: ignore[misc]
        return found

    def _produce(self, op: Produce) -> None:
        if op.topic not in self.transacted and op.partition < self.topics.get(op.topic, 0):
            self.producer(op.client, where_of(op.topic, op.partition), ALL if op.acks == "all" else 1).give(op.count)

    def _consume(self, op: Consume) -> None:
        where = where_of(op.topic, op.partition)
        if op.topic in self.transacted:
            if op.partition < self.topics.get(op.topic, 0):
                reader = CommittedReader(self.new_client(), where, self.journal.reads.append)
                self.person(lambda _: reader.run())
        elif op.partition < self.topics.get(op.topic, 0) and (op.client, where) not in self.consumers:
            number = READERS + op.client * 100 + len(self.consumers)
            made = Consumer(self._brokers_world.records, self.new_client(), number, where)
            self.consumers[op.client, where] = made
            self.person(lambda _: made.run())

    def _transact(self, op: Transact) -> None:
        if max(op.partition, op.other) >= self.topics.get(op.topic, 0):
            return
        found = self.transactors.get(op.client)
        if found is None:
            found = self.transactors[op.client] = Transactor(self.journal, self.new_client(), op.client, PATIENCE_S)
            self.person(lambda _, made=found: made.run())  # type: ignore[misc]
        places = tuple(dict.fromkeys(where_of(op.topic, number) for number in (op.partition, op.other)))
        self.committed.update(dict.fromkeys(places))
        found.give(places, op.count, op.fate)

    def _make_topic(self, op: CreateTopic) -> None:
        if op.topic in self.topics:
            return
        self.topics[op.topic] = op.partitions
        brokers = self._brokers_world.script.brokers
        self.person(lambda client: create(client, op, brokers))

    def _delete_records(self, op: DeleteRecords) -> None:
        if op.topic not in self.transacted and op.partition < self.topics.get(op.topic, 0):
            where, tape, number = where_of(op.topic, op.partition), self._brokers_world.records, next(self._trimmers)
            self.person(lambda client: delete_records(tape, client, number, where, op.percent))

    def _allow(self, op: AllowUnclean) -> None:
        if op.topic in self.topics:
            self.person(lambda client: allow_unclean(client, op))

    # -- brokers -----------------------------------------------------------------------------------------

    def _one(self, op: Any) -> Broker | None:
        same: Any = self._who(op)
        return same  # type: ignore[no-any-return]

    def _lose_power(self, op: LosePower) -> None:
        if (broker := self._one(op)) is not None:
            broker.lose_power(op.loss)
            self._brokers_world.start_later(broker, op.down_ms)

    def _blackout(self, op: Blackout) -> None:
        world = self._brokers_world
        self._hit(op)
        for broker in world.full_brokers():
            broker.lose_power(op.loss)
            world.start_later(broker, op.down_ms + int(broker.random.random() * 200))

    def _wipe(self, op: WipeBroker) -> None:
        if (broker := self._one(op)) is not None:
            broker.lose_disk()
            self._brokers_world.start_later(broker, op.down_ms)

    def _break_disk(self, op: BreakDisk) -> None:
        if (broker := self._one(op)) is not None:
            broker.break_disk(op.error, op.nth)
            world = self._brokers_world
            world.push_fault_end(world.now + op.down_ms * 1_000, self._mend, broker, None)

    def _mend(self, broker: Broker, _: None) -> None:
        broker.mend()
        if not broker.up:
            self._brokers_world.start_later(broker, 1)

    # -- ways --------------------------------------------------------------------------------------------

    def _shut(self, ways: list[tuple[int, int]], for_ms: int) -> None:
        world = self._brokers_world
        for way in ways:
            world.network.block(*way)
        world.push_fault_end(world.now + for_ms * 1_000, self._open, ways, None)

    def _open(self, ways: list[tuple[int, int]], _: None) -> None:
        for way in ways:
            self._brokers_world.network.unblock(*way)

    def _cut(self, op: CutBroker) -> None:
        """From other brokers, and from clients that there are."""
        if (broker := self._one(op)) is not None:
            known = range(CLIENTS_FROM, next(self._places))
            others = [-each for each in known] + [each.place for each in self._brokers_world.full_brokers()]
            self._shut(_both(broker.place, others), op.for_ms)

    def _part(self, op: PartBrokers) -> None:
        world = self._brokers_world
        one, other = ((number - 1) % world.script.brokers + 1 for number in (op.broker, op.other))
        if one != other:
            self._hit(op)
            ways = [
                *_both(-(DATA_FROM + one), [-(DATA_FROM + other)]),
                *_both(-(EARS_FROM + one), [-(EARS_FROM + other)]),
            ]
            self._shut(ways, op.for_ms)

    def _keep_topic(self, _: DeleteTopic) -> None:
        """One that is made again has the same offsets for other values: nobody could say what was lost."""
        self._brokers_world.counted("topic not deleted")

    def _set_up(self, _: Replication) -> None:
        """The world has looked at it before it began."""

    _PARTITION_OPS: Final[dict[type, Callable[[Any, Any], None]]] = {
        Produce: _produce,
        Consume: _consume,
        Transact: _transact,
        DeleteRecords: _delete_records,
        AllowUnclean: _allow,
        LosePower: _lose_power,
        Blackout: _blackout,
        WipeBroker: _wipe,
        BreakDisk: _break_disk,
        CutBroker: _cut,
        PartBrokers: _part,
        Replication: _set_up,
        DeleteTopic: _keep_topic,
        CreateTopic: _make_topic,
    }


def _both(one: int, others: list[int]) -> list[tuple[int, int]]:
    return [way for other in others if other != one for way in ((one, other), (other, one))]
