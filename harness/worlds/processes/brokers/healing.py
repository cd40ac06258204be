"""After the last fault: all brokers serve, everything is led and in sync with all, and everything is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import trio

from harness.checkers.records.history import ALL
from harness.worlds.brokers.consumer import WRONG, Consumer
from harness.worlds.brokers.reader import look_at_all, read_all
from harness.worlds.controller.people import name_of
from harness.worlds.processes.healing import Healing
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.wire.schemas.cluster_schemas import MetadataResponse

if TYPE_CHECKING:
    from harness.worlds.processes.brokers.world import BrokersWorld

LOOK_S: Final = 0.1
LOOKERS: Final = 30_000
LAST_MEMBER: Final = 90
LAST: Final = 9_000
"""Numbers of clients begin here that write and read when all is healed."""


class BrokersHealing(Healing):
    def __init__(self, world: BrokersWorld) -> None:
        super().__init__(world)
        self._brokers_world = world

    async def recover(self, waits_for: list[str]) -> None:
        await super().recover(waits_for)
        await self.settle(waits_for)

    async def settle(self, waits_for: list[str]) -> None:
        """As some broker describes it."""
        client = self._brokers_world.workload.new_client()
        while True:
            try:
                reply = await client.metadata(None)
            except WRONG as error:
                waits_for[0] = f"a broker that answers: {error}"
            else:
                missing = self._missing(reply)
                if missing is None:
                    return
                waits_for[0] = missing
            await trio.sleep(LOOK_S)

    def _missing(self, reply: MetadataResponse) -> str | None:
        world = self._brokers_world
        absent = sorted(world.brokers.keys() - {each.node_id for each in reply.brokers})
        if absent:
            return f"brokers {absent} to be known"
        if reply.controller_id not in world.brokers:
            return "a controller"
        known = {(topic.name, part.partition_index) for topic in reply.topics for part in topic.partitions}
        unknown = [where for where in world.workload.partitions() if where not in known]
        if unknown:
            return f"{unknown[0]} to be there"
        for topic in reply.topics:
            for part in topic.partitions:
                where = f"{topic.name}-{part.partition_index}"
                if part.error_code != ErrorCode.NONE or part.leader_id < 0:
                    return f"a leader of {where}"
                lagging = sorted(set(part.replica_nodes) - set(part.isr_nodes))
                if lagging:
                    return f"brokers {lagging} to be in sync in {where}"
        return None

    async def read_back(self, waits_for: list[str]) -> None:
        await super().read_back(waits_for)
        world = self._brokers_world
        world.records.settled()
        workload, partitions = world.workload, world.workload.partitions()
        for number, where in enumerate(partitions):
            workload.producer(LAST + number, where, ALL).give(1)
        for producer in workload.producers.values():
            waits_for[0] = f"what was sent to {producer.where} to be answered"
            await producer.answered()
        for member in workload.members:
            waits_for[0] = f"a member of {member.told.group} to leave it"
            member.leave()
            await member.left.wait()
        ends = await read_all(world.records, workload.new_client(), partitions, LAST + len(partitions), waits_for)
        await self._read_on(ends, waits_for)
        await look_at_all([*workload.consumers.values(), *self._groups()], waits_for)

    async def _read_on(self, ends: Mapping[TopicPartition, int], waits_for: list[str]) -> None:
        """A last member of every group comes to the end of all that there is: then no record is left out."""
        workload = self._brokers_world.workload
        libraries = {member.told.topic: member.told.library for member in workload.members}
        for topic in list(workload.topics):
            name = name_of(topic)
            if name in libraries:
                upto = {str(where.partition): end for where, end in ends.items() if where.topic == name}
                member = workload.member(LAST_MEMBER, topic, libraries[name], 0.0, upto=upto)
                waits_for[0] = f"{member.told.group} to come to {upto}"
                await member.left.wait()

    def _groups(self) -> Iterator[Consumer]:
        """Somebody who looks where the groups of members are."""
        world = self._brokers_world
        groups = {member.told.topic: member.told.group for member in world.workload.members}
        for number, where in enumerate(world.workload.partitions()):
            if where.topic in groups:
                consumer = Consumer(world.records, world.workload.new_client(), LOOKERS + number, where)
                consumer.group = groups[where.topic]
                yield consumer
