"""What a script asks of brokers and does to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import trio

from harness.checkers.records.history import ALL
from harness.faults import (
    CONTROLLER,
    AllowUnclean,
    Blackout,
    BounceBroker,
    BreakDisk,
    Consume,
    CreateTopic,
    CutBroker,
    DeleteRecords,
    Depart,
    ElectPreferred,
    Fault,
    GrowTopic,
    JoinGroup,
    KillBroker,
    LoseController,
    LosePower,
    LoseStore,
    Op,
    PartBrokers,
    PauseBroker,
    Produce,
    Reassign,
    Replication,
    SlowBroker,
    WipeBroker,
)
from harness.worlds.brokers.consumer import WRONG, Consumer
from harness.worlds.brokers.producer import Producer
from harness.worlds.brokers.topics import allow_unclean, create
from harness.worlds.brokers.trimmer import delete_records
from harness.worlds.controller.people import name_of, wanted_by, where_of
from harness.worlds.processes.brokers.member import Told
from harness.worlds.processes.brokers.members import Member, there_is
from harness.worlds.processes.brokers.wires import Way
from harness.worlds.processes.run import NO_DEATH
from harness.worlds.processes.workload import Workload
from kraft_controller.core.names import TopicPartition
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import ClientSettings
from replica.wire.fields import Api
from replica.wire.schemas.reassignment_schemas import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from replica.wire.schemas.topic_schemas import CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsTopic

if TYPE_CHECKING:
    from harness.worlds.processes.brokers.broker import Broker
    from harness.worlds.processes.brokers.world import BrokersWorld

REQUEST_S: Final = 3.0
PATIENCE_S: Final = 60.0
"""Of a producer, for one batch: longer than what a script does to brokers."""
LEAVE_S: Final = 60.0
STEADY_S: Final = 0.3
ONE: Final = 1
READERS: Final = 10_000
"""Where the numbers of consumers begin: in the history they are other clients than the producers."""
MEMBERS: Final = 20_000
TRIMMERS: Final = 40_000
SETTINGS: Final = ClientSettings(client_id="zab-harness", request_s=REQUEST_S, patience_s=PATIENCE_S)


class BrokersWorkload(Workload):
    def __init__(self, world: BrokersWorld) -> None:
        super().__init__(world)
        self._brokers_world = world
        self.topics: dict[int, int] = {}
        """How many partitions each was made with, or has grown to."""
        self.producers: dict[tuple[int, TopicPartition, int], Producer] = {}
        self.consumers: dict[tuple[int, TopicPartition], Consumer] = {}
        self.members: list[Member] = []
        self.departing = 0
        self._trimmers = count(TRIMMERS)
        self._one_departs = trio.Lock()

    def perform(self, op: Op) -> None:
        act = _PERFORM.get(type(op))
        if act is None:
            super().perform(op)
        else:
            act(self, op)

    def partitions(self) -> list[TopicPartition]:
        return [where_of(topic, number) for topic, count in self.topics.items() for number in range(count)]

    # -- clients -------------------------------------------------------------------------------------

    def new_client(self) -> Client:
        """Each has connections of its own: one that waits holds up nobody else."""
        return self._brokers_world.connected(Client(self._brokers_world.wires.bootstrap, SETTINGS))

    def producer(self, client: int, where: TopicPartition, acks: int) -> Producer:
        key = client, where, acks
        found = self.producers.get(key)
        if found is None:
            world = self._brokers_world
            found = self.producers[key] = Producer(world.records, self.new_client(), client, where, acks, PATIENCE_S)
            world.always(found.run)
        return found

    def _produce(self, op: Produce) -> None:
        where = where_of(op.topic, op.partition)
        if where in self.partitions():
            self.producer(op.client, where, ALL if op.acks == "all" else ONE).give(op.count)

    def _consume(self, op: Consume) -> None:
        where = where_of(op.topic, op.partition)
        if where in self.partitions() and (op.client, where) not in self.consumers:
            world = self._brokers_world
            made = Consumer(world.records, self.new_client(), READERS + op.client * 100 + len(self.consumers), where)
            self.consumers[op.client, where] = made
            world.always(made.run)

    def _join(self, op: JoinGroup) -> None:
        if op.topic not in self.topics:
            return
        self.member(op.client, op.topic, op.library, op.for_ms * self._brokers_world.scale / 1_000, op.ends == "killed")

    def member(
        self,
        client: int,
        topic: int,
        library: str,
        seconds: float,
        killed: bool = False,
        upto: Mapping[str, int] | None = None,
    ) -> Member:
        world, name = self._brokers_world, name_of(topic)
        hosts = ",".join(f"{host}:{port}" for host, port in world.wires.bootstrap)
        number = MEMBERS + client * 100 + len(self.members)
        began, group = world.began, f"members-{name}"
        told = Told(library, number, hosts, name, group, began, world.scale, seconds, upto)
        member = Member(world.records, told, lambda what: world.broken(NO_DEATH, what), killed=killed)
        self.members.append(member)
        world.counted(f"member {library}")
        world.always(member.run)
        return member

    # -- topics --------------------------------------------------------------------------------------

    def _create(self, op: CreateTopic) -> None:
        if op.topic not in self.topics:
            self.topics[op.topic] = op.partitions
            self._brokers_world.always(create, self.new_client(), op, self._brokers_world.script.brokers)

    def _allow(self, op: AllowUnclean) -> None:
        if op.topic in self.topics:
            self._brokers_world.always(allow_unclean, self.new_client(), op)

    def _delete_records(self, op: DeleteRecords) -> None:
        where, world = where_of(op.topic, op.partition), self._brokers_world
        if where in self.partitions():
            number = next(self._trimmers)
            world.always(delete_records, world.records, self.new_client(), number, where, op.percent)

    def _grow(self, op: GrowTopic) -> None:
        """It is not known when it is done, so nobody writes to what is new."""
        if op.topic in self.topics:
            count = self.topics[op.topic] + op.partitions
            topic = CreatePartitionsTopic(name=name_of(op.topic), count=count, assignments=None)
            self._administer(
                CREATE_PARTITIONS, CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=False)
            )

    def _reassign(self, op: Reassign) -> None:
        if op.topic in self.topics:
            wanted = list(wanted_by(op, self._brokers_world.script.brokers))
            part = ReassignablePartition(partition_index=op.partition, replicas=wanted)
            topics = [ReassignableTopic(name=name_of(op.topic), partitions=[part])]
            self._administer(ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest(topics=topics))

    def _elect(self, op: ElectPreferred) -> None:
        parts = [TopicPartitions(topic=name_of(op.topic), partitions=[op.partition])]
        self._administer(ELECT_LEADERS, ElectLeadersRequest(election_type=0, topic_partitions=parts, timeout_ms=1_000))

    def _administer(self, api: Api[Any, Any], body: object) -> None:
        self._brokers_world.beside(self._ask_controller, api, body)

    async def _ask_controller(self, api: Api[Any, Any], body: object) -> None:
        client = self.new_client()
        controller = await self._brokers_world.controller()
        if controller is not None:
            await self._try(client, api, body, controller)

    async def _try(self, client: Client, api: Api[Any, Any], body: object, broker: int | None = None) -> None:
        try:
            if broker is None:
                await client.ask(api, body)
            else:
                await client.ask_broker(broker, api, body)
        except WRONG as error:
            self._brokers_world.counted(f"{api.key.name.lower()} in vain: {type(error).__name__}")

    # -- processes -----------------------------------------------------------------------------------

    async def _strike(self, op: Any, act: Callable[[Any, Broker], Awaitable[None]]) -> None:
        broker = await self._who(op.broker)
        if broker is not None and broker.up:
            self._brokers_world.counted(f"hit {type(op).__name__}")
            await act(op, broker)

    async def _who(self, number: int) -> Broker | None:
        world = self._brokers_world
        if number == CONTROLLER:
            found = await world.controller()
            return None if found is None else world.brokers.get(found)
        return world.brokers[(number - 1) % len(world.brokers) + 1]

    async def _sleep(self, ms: int) -> None:
        await trio.sleep(ms * self._brokers_world.scale / 1_000)

    async def _kill(self, op: Any, broker: Broker) -> None:
        broker.kill()
        await broker.gone()
        await self._sleep(getattr(op, "down_ms", 0))
        self._brokers_world.revive(broker)

    def _depart(self, op: Depart) -> None:
        self.departing += 1
        self._brokers_world.always(self._depart_in_turn, op)

    async def _depart_in_turn(self, op: Depart) -> None:
        """As an operator has it: one at a time, and the next when all are in sync again."""
        async with self._one_departs:
            await self._brokers_world.in_sync()
            await self._strike(op, self._leave_and_return)
            await self._brokers_world.in_sync()
        self.departing -= 1

    async def _leave_and_return(self, op: Depart, broker: Broker) -> None:
        broker.terminate()
        with trio.move_on_after(LEAVE_S) as patience:
            await broker.gone()
        if patience.cancelled_caught:
            self._brokers_world.broken("no server hangs", f"broker {broker.sid} was told to end, and runs on")
        await self._sleep(op.down_ms)
        self._brokers_world.revive(broker)

    async def departed(self) -> None:
        """Until all that are to be restarted in good order have been."""
        await self._write_while(lambda: self.departing > 0)

    async def members_left(self) -> None:
        """Until all members of groups have had their time, which begins when they read something."""
        await self._write_while(lambda: any(not member.left.is_set() for member in self.members))

    async def _write_while(self, holds: Callable[[], bool]) -> None:
        """Whoever writes goes on meanwhile."""
        while holds():
            for producer in self.producers.values():
                if not producer.open:
                    producer.give(1)
            await trio.sleep(STEADY_S)

    async def _pause(self, op: PauseBroker, broker: Broker) -> None:
        life = broker.starts
        broker.pause()
        try:
            await self._sleep(op.for_ms)
        finally:
            if broker.starts == life:
                broker.resume()

    def _blackout(self, op: Blackout) -> None:
        world = self._brokers_world
        for broker in world.brokers.values():
            if broker.up:
                world.beside(self._kill, op, broker)

    # -- disks ---------------------------------------------------------------------------------------

    async def _wipe(self, op: WipeBroker, broker: Broker) -> None:
        broker.kill()
        await broker.gone()
        await self._brokers_world.will_lose(broker)
        broker.lose_disk()
        await self._sleep(op.down_ms)
        self._brokers_world.revive(broker)

    async def _break_disk(self, op: BreakDisk, broker: Broker) -> None:
        """If it fails, it does so once, or is full for as long. Who has no other disk ends, sooner or later."""
        world = self._brokers_world
        world.excused.add(broker.sid)
        broker.fail_disk(op.error, op.nth - 1)
        try:
            await self._sleep(op.down_ms)
        finally:
            if broker.up and broker.fails and op.error != "full":
                world.excused.discard(broker.sid)  # it has not come to that
            broker.is_well()
        world.revive(broker)

    # -- ways ----------------------------------------------------------------------------------------

    async def _close(self, ways: list[Way], for_ms: int) -> None:
        network = self._brokers_world.network
        network.block(ways)
        try:
            await self._sleep(for_ms)
        finally:
            network.unblock(ways)

    async def _lose_store(self, op: LoseStore, broker: Broker) -> None:
        await self._close(self._brokers_world.wires.to_store(broker.sid), op.for_ms)

    async def _lose_controller(self, op: LoseController, broker: Broker) -> None:
        await self._close(self._brokers_world.wires.to_orders(broker.sid), op.for_ms)

    async def _cut(self, op: CutBroker, broker: Broker) -> None:
        await self._close(self._brokers_world.wires.to_data(broker.sid), op.for_ms)

    def _part(self, op: PartBrokers) -> None:
        world = self._brokers_world
        one, other = ((number - 1) % len(world.brokers) + 1 for number in (op.broker, op.other))
        if one != other:
            world.counted("hit PartBrokers")
            world.beside(self._close, world.wires.between(one, other), op.for_ms)

    async def _slow(self, op: SlowBroker, broker: Broker) -> None:
        world = self._brokers_world
        ways, more_s = world.wires.said_by(broker.sid), op.more_ms * world.scale / 1_000
        for way in ways:
            world.network.slow(*way, more_s)
        try:
            await self._sleep(op.for_ms)
        finally:
            for way in ways:
                world.network.slow(*way, -more_s)

    def _set_up(self, _: Replication) -> None:
        """The brokers have it in their files since before they began."""


_STRIKES: Final[dict[type, Any]] = {
    KillBroker: BrokersWorkload._kill,
    LosePower: BrokersWorkload._kill,
    BounceBroker: BrokersWorkload._kill,
    WipeBroker: BrokersWorkload._wipe,
    BreakDisk: BrokersWorkload._break_disk,
    PauseBroker: BrokersWorkload._pause,
    LoseStore: BrokersWorkload._lose_store,
    LoseController: BrokersWorkload._lose_controller,
    CutBroker: BrokersWorkload._cut,
    SlowBroker: BrokersWorkload._slow,
}


def _striking(act: Any) -> Callable[[Any, Any], None]:
    def perform(workload: BrokersWorkload, op: Any) -> None:
        world = workload._brokers_world
        world.beside(workload._strike, op, lambda op, broker: act(workload, op, broker))

    return perform


_PERFORM: Final[dict[type, Callable[[Any, Any], None]]] = {
    Produce: BrokersWorkload._produce,
    Consume: BrokersWorkload._consume,
    JoinGroup: BrokersWorkload._join,
    CreateTopic: BrokersWorkload._create,
    AllowUnclean: BrokersWorkload._allow,
    DeleteRecords: BrokersWorkload._delete_records,
    GrowTopic: BrokersWorkload._grow,
    Reassign: BrokersWorkload._reassign,
    ElectPreferred: BrokersWorkload._elect,
    Blackout: BrokersWorkload._blackout,
    PartBrokers: BrokersWorkload._part,
    Depart: BrokersWorkload._depart,
    Replication: BrokersWorkload._set_up,
    **{kind: _striking(act) for kind, act in _STRIKES.items()},
}


def can(item: Fault | Op) -> bool:
    """A deleted topic begins anew, with the same offsets: nobody could say what was lost."""
    if isinstance(item, JoinGroup):
        return there_is(item.library)
    return type(item) in _PERFORM and not (isinstance(item, Produce) and item.acks == "none")
