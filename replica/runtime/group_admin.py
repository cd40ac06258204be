"""What people ask about groups, put together from what brokers answer: who reads what, how far, how much is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.client import Client, raise_for
from replica.wire.group_records import assigned_in
from replica.wire.schemas.data import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from replica.wire.schemas.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
)

EARLIEST: Final = -2
LATEST: Final = -1


@frozen
class Summary:
    group: str
    state: str
    protocol_type: str
    coordinator: int


@frozen
class Member:
    id: str
    instance: str | None
    client: str
    host: str
    assigned: tuple[TopicPartition, ...]


@frozen
class Progress:
    """In one partition. None: nothing was committed, or nobody leads the partition who could say where it ends."""

    where: TopicPartition
    committed: int | None
    end: int | None
    metadata: str = ""
    member: Member | None = None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(self.end - self.committed, 0)


@frozen
class Described:
    group: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[Member, ...] = ()
    progress: tuple[Progress, ...] = field(default=())


# -- looking -----------------------------------------------------------------------------------------------


async def list_groups(client: Client, states: Iterable[str] = ()) -> list[Summary]:
    """Every broker knows its own only, so all of them are asked."""
    wanted = list(states)
    await client.patiently(lambda: client.metadata([]))
    found = []
    for broker in client.brokers:

        async def once(broker: int = broker) -> ListGroupsResponse:
            reply = await client.ask_broker(broker, LIST_GROUPS, ListGroupsRequest(states_filter=wanted))
            # A cluster in which there never was a group has nobody to ask for one.
            if reply.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise_for(reply.error_code, f"groups of broker {broker}")
            return reply

        reply = await client.patiently(once)
        found += [Summary(each.group_id, each.group_state, each.protocol_type, broker) for each in reply.groups]
    return sorted(found, key=lambda summary: summary.group)


async def describe(client: Client, group: str) -> Described:
    reply = await client.ask_coordinator(
        group, DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group]), lambda body: int(body.groups[0].error_code)
    )
    [said] = reply.groups
    members = tuple(
        Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            assigned_in(bytes(each.member_assignment)) if said.protocol_type == "consumer" else (),
        )
        for each in said.members
    )
    committed = await positions(client, group)
    owners = {where: member for member in members for where in member.assigned}
    wheres = sorted({*committed, *owners})
    ends = await offsets_at(client, dict.fromkeys(wheres, LATEST))
    progress = tuple(
        Progress(
            where,
            committed[where][0] if where in committed else None,
            ends.get(where),
            committed[where][1] if where in committed else "",
            owners.get(where),
        )
        for where in wheres
    )
    return Described(
        group,
        said.group_state,
        said.protocol_type,
        said.protocol_data,
        await client.patiently(lambda: client.coordinator(group)),
        members,
        progress,
    )


async def positions(client: Client, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """All that was committed: offset and metadata."""
    reply = await client.ask_coordinator(
        group,
        OFFSET_FETCH,
        OffsetFetchRequest(group_id=group, topics=None),
        lambda body: int(body.error_code),
        version_max=7,
    )
    return {
        TopicPartition(topic.name, each.partition_index): (each.committed_offset, each.metadata or "")
        for topic in reply.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


async def offsets_at(client: Client, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Of the first record that is not older; LATEST and EARLIEST are times, too. What nobody leads is left out; where
    every record is older it is the end."""
    found: dict[TopicPartition, int] = {}
    if not times:
        return found
    topics = sorted({where.topic for where in times})
    leaders = await client.patiently(lambda: client.leaders(topics))
    by_leader: dict[int, list[TopicPartition]] = {}
    for where in sorted(times):
        if where in leaders:
            by_leader.setdefault(leaders[where], []).append(where)
    beyond = []
    for leader, wheres in by_leader.items():
        for where, offset in (await _list_offsets(client, leader, {where: times[where] for where in wheres})).items():
            if offset >= 0:
                found[where] = offset
            elif times[where] >= 0:
                beyond.append(where)
    if beyond:
        found |= await offsets_at(client, dict.fromkeys(beyond, LATEST))
    return found


async def _list_offsets(client: Client, leader: int, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for where, time in times.items():
        topics.setdefault(where.topic, []).append(ListOffsetsPartition(partition_index=where.partition, timestamp=time))
    body = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )

    async def once() -> dict[TopicPartition, int]:
        reply = await client.ask_broker(leader, LIST_OFFSETS, body)
        offsets = {}
        for topic in reply.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                raise_for(each.error_code, f"offsets of {where}")
                offsets[where] = each.offset
        return offsets

    return await client.patiently(once)


# -- changing ------------------------------------------------------------------------------------------------


async def commit(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """As nobody's member, which is allowed while nobody is one. `KafkaError` at the first that is refused."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for where, offset in sorted(offsets.items()):
        entry = OffsetCommitRequestPartition(
            partition_index=where.partition, committed_offset=offset, committed_metadata=""
        )
        topics.setdefault(where.topic, []).append(entry)
    body = OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    await client.ask_coordinator(group, OFFSET_COMMIT, body, _first_error)


async def delete(client: Client, group: str) -> None:
    await client.ask_coordinator(
        group, DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group]), lambda body: int(body.results[0].error_code)
    )


async def delete_offsets(client: Client, group: str, wheres: Iterable[TopicPartition]) -> None:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for where in wheres:
        topics.setdefault(where.topic, []).append(OffsetDeleteRequestPartition(partition_index=where.partition))
    body = OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    await client.ask_coordinator(group, OFFSET_DELETE, body, lambda reply: int(reply.error_code) or _first_error(reply))


def _first_error(reply: OffsetCommitResponse | OffsetDeleteResponse) -> int:
    return next(
        (
            int(each.error_code)
            for topic in reply.topics
            for each in topic.partitions
            if each.error_code != ErrorCode.NONE
        ),
        0,
    )


async def partitions_of(client: Client, topics: Iterable[str]) -> list[TopicPartition]:
    names = list(topics)
    reply = await client.patiently(lambda: client.metadata(names))
    for topic in reply.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic.name}")
    return sorted(
        TopicPartition(topic.name or "", each.partition_index) for topic in reply.topics for each in topic.partitions
    )
