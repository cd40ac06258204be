"""The operations of a script on brokers: clients, members of groups, and administration through the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import trio

from harness import faults
from harness.worlds.brokers.consumer import Consumer
from harness.worlds.brokers.requests import REQUEST_ERRORS
from harness.worlds.brokers.workload import BrokerClients
from harness.worlds.controller.administration import name_of, wanted_by
from harness.worlds.processes.brokers.fleet import PATIENCE_S, Fleet
from harness.worlds.processes.brokers.member import MemberOptions
from harness.worlds.processes.brokers.members import Member, installed
from harness.worlds.processes.brokers.nemesis import FAULTS, BrokersNemesis
from harness.worlds.processes.cluster import NO_DEATH
from harness.worlds.processes.workload import Workload
from replica.runtime.admin_client.group_admin import describe
from replica.wire.fields import Api
from replica.wire.schemas import reassignment_schemas
from replica.wire.schemas.topic_schemas import CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsTopic

MEMBERS: Final = 20_000
POSITION_READERS: Final = 30_000
"""The first numbers of clients that are members of groups, and of clients that look up group positions at the end."""
LAST_MEMBER: Final = 90
DESCRIBE_S: Final = 10.0
"""The time limit for the description of a group whose members stall."""


class BrokersWorkload(Workload):
    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet.cluster)
        self.fleet = fleet
        self.broker_clients = BrokerClients(fleet, fleet.recorder, fleet.cluster.script, PATIENCE_S)
        self.nemesis = BrokersNemesis(fleet, lambda: fleet.in_sync(self.broker_clients.partitions(), [""]))
        self.members: list[Member] = []

    def perform(self, op: faults.Op) -> None:
        act = _PERFORM.get(type(op))
        if act is not None:
            act(self, op)
        elif not self.nemesis.perform(op) and not self.broker_clients.perform(op):
            super().perform(op)

    # -- members of groups -----------------------------------------------------------------------------

    def _join(self, op: faults.JoinGroup) -> None:
        if op.topic in self.broker_clients.topics:
            self._member(op.client, op.topic, op.library, op.for_ms * self._cluster.scale / 1_000, op.ends == "killed")

    def _member(
        self,
        client: int,
        topic: int,
        library: str,
        seconds: float,
        killed: bool = False,
        upto: Mapping[str, int] | None = None,
    ) -> Member:
        cluster, name = self._cluster, name_of(topic)
        hosts = ",".join(f"{host}:{port}" for host, port in self.fleet.links.bootstrap)
        number = MEMBERS + client * 100 + len(self.members)
        options = MemberOptions(
            library, number, hosts, name, f"members-{name}", cluster.began, cluster.scale, seconds, upto
        )
        member = Member(self.fleet.recorder, options, lambda what: cluster.violated(NO_DEATH, what), killed=killed)
        self.members.append(member)
        cluster.counted(f"member {library}")
        cluster.spawn(member.run)
        return member

    async def dismiss_members(self, waits_for: list[str]) -> None:
        for member in self.members:
            waits_for[0] = f"client {member.options.number} to leave {member.options.group}"
            member.leave()
            await member.left.wait()

    async def read_on(self, ends: Mapping[Any, int], waits_for: list[str]) -> None:
        """Start a last member in every group, and wait until it has read all partitions to their ends."""
        libraries = {member.options.topic: member.options.library for member in self.members}
        for topic in list(self.broker_clients.topics):
            name = name_of(topic)
            if name in libraries:
                upto = {str(where.partition): end for where, end in ends.items() if where.topic == name}
                member = self._member(LAST_MEMBER, topic, libraries[name], 0.0, upto=upto)
                waits_for[0] = f"{member.options.group} to reach the offsets {upto}"
                await member.left.wait()

    async def describe_members(self) -> str:
        """Describe the groups whose members have not left, and these members."""
        present = [member for member in self.members if not member.left.is_set()]
        texts = []
        for group in dict.fromkeys(member.options.group for member in present):
            described: object = f"{group} could not be described within {DESCRIBE_S:g} s"
            with trio.move_on_after(DESCRIBE_S):
                try:
                    described = await describe(self.fleet.new_client(), group)
                except REQUEST_ERRORS as error:
                    described = f"{group} could not be described: {error}"
            texts.append(str(described))
        return "\n".join([*texts, *[await member.describe() for member in present]])

    def group_position_readers(self) -> Iterator[Consumer]:
        """Yield consumers that look up the positions of the groups of members."""
        groups = {member.options.topic: member.options.group for member in self.members}
        for number, where in enumerate(self.broker_clients.partitions()):
            if where.topic in groups:
                consumer = Consumer(self.fleet.recorder, self.fleet.new_client(), POSITION_READERS + number, where)
                consumer.group = groups[where.topic]
                yield consumer

    # -- administration --------------------------------------------------------------------------------

    def _grow(self, op: faults.GrowTopic) -> None:
        """Add partitions. No client writes to them, as the time of their creation is unknown."""
        if op.topic in self.broker_clients.topics:
            count = self.broker_clients.topics[op.topic] + op.partitions
            topic = CreatePartitionsTopic(name=name_of(op.topic), count=count, assignments=None)
            body = CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=False)
            self._cluster.spawn_until_healed(self._ask_controller, CREATE_PARTITIONS, body)

    def _reassign(self, op: faults.Reassign) -> None:
        if op.topic in self.broker_clients.topics:
            wanted = list(wanted_by(op, self._cluster.script.brokers))
            part = reassignment_schemas.ReassignablePartition(partition_index=op.partition, replicas=wanted)
            topics = [reassignment_schemas.ReassignableTopic(name=name_of(op.topic), partitions=[part])]
            body = reassignment_schemas.AlterPartitionReassignmentsRequest(topics=topics)
            self._cluster.spawn_until_healed(
                self._ask_controller, reassignment_schemas.ALTER_PARTITION_REASSIGNMENTS, body
            )

    def _elect(self, op: faults.ElectPreferred) -> None:
        parts = [reassignment_schemas.TopicPartitions(topic=name_of(op.topic), partitions=[op.partition])]
        body = reassignment_schemas.ElectLeadersRequest(election_type=0, topic_partitions=parts, timeout_ms=1_000)
        self._cluster.spawn_until_healed(self._ask_controller, reassignment_schemas.ELECT_LEADERS, body)

    async def _ask_controller(self, api: Api[Any, Any], body: object) -> None:
        client = self.fleet.new_client()
        controller = await self.fleet.controller()
        if controller is not None:
            try:
                await client.ask_broker(controller, api, body)
            except REQUEST_ERRORS as error:
                self._cluster.counted(f"{api.key.name.lower()} in vain: {type(error).__name__}")

    def _ignore(self, _: faults.Replication) -> None:
        """Do nothing: the brokers were configured before the run."""


_PERFORM: Final[dict[type, Callable[[Any, Any], None]]] = {
    faults.JoinGroup: BrokersWorkload._join,
    faults.GrowTopic: BrokersWorkload._grow,
    faults.Reassign: BrokersWorkload._reassign,
    faults.ElectPreferred: BrokersWorkload._elect,
    faults.Replication: BrokersWorkload._ignore,
}
_CAN: Final = (
    *_PERFORM,
    *FAULTS,
    faults.Produce,
    faults.Consume,
    faults.CreateTopic,
    faults.AllowUnclean,
    faults.DeleteRecords,
)


def can(item: faults.Fault | faults.Op) -> bool:
    """Return whether an item is supported. Topics are not deleted: a new topic would reuse offsets and hide losses."""
    if isinstance(item, faults.JoinGroup):
        return installed(item.library)
    return type(item) in _CAN and not (isinstance(item, faults.Produce) and item.acks == "none")
