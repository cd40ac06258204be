"""Administration of consumer groups: list, describe and delete them, and read, set and delete their offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import raise_for
from replica.wire.group_records import assigned_in
from replica.wire.schemas.data_schemas import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from replica.wire.schemas.group_schemas import (
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
    OffsetFetchResponse,
)

EARLIEST: Final = -2
LATEST: Final = -1


@frozen
class GroupSummary:
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
    """A group's progress in a partition. `committed` is None without a commit; `end` is None if the partition has no
    leader."""

    where: TopicPartition
    committed: int | None
    end: int | None
    metadata: str = ""
    member: Member | None = None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(self.end - self.committed, 0)


@frozen
class GroupDescription:
    group: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[Member, ...] = ()
    progress: tuple[Progress, ...] = field(default=())


# -- reading -----------------------------------------------------------------------------------------------


async def list_groups(client: Client, states: Iterable[str] = ()) -> list[GroupSummary]:
    """Return the groups of all brokers: each broker lists only the groups that it coordinates."""
    have_topic = await have_coordinators(client)
    found = []
    for broker in client.brokers:
        found += await groups_of(client, broker, states, have_topic=have_topic)
    return sorted(found, key=lambda summary: summary.group)


async def have_coordinators(client: Client) -> bool:
    """Return whether the offsets topic exists. Without it no broker can coordinate a group."""
    [topic] = (await client.patiently(lambda: client.metadata([OFFSETS_TOPIC]))).topics
    return bool(topic.partitions)


async def groups_of(
    client: Client, broker: int, states: Iterable[str] = (), *, have_topic: bool = True
) -> list[GroupSummary]:
    """Return the groups of one coordinator. Without the offsets topic, COORDINATOR_NOT_AVAILABLE is no error."""
    body = ListGroupsRequest(states_filter=list(states))

    async def once() -> ListGroupsResponse:
        reply = await client.ask_broker(broker, LIST_GROUPS, body)
        if have_topic or reply.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            raise_for(reply.error_code, f"groups of broker {broker}")
        return reply

    reply = await client.patiently(once)
    return [GroupSummary(each.group_id, each.group_state, each.protocol_type, broker) for each in reply.groups]


EndsOf: TypeAlias = Callable[[Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]
"""Returns the high watermarks of these partitions. Those that are unknown are left out."""


async def describe(client: Client, group: str, ends_of: EndsOf | None = None) -> GroupDescription:
    """Describe a group. `ends_of` replaces the lookup of high watermarks, which fails if a leader cannot be reached."""
    reply = await client.ask_coordinator(
        group, DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group]), lambda body: int(body.groups[0].error_code)
    )
    [found] = reply.groups
    members = tuple(
        Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            assigned_in(bytes(each.member_assignment)) if found.protocol_type == "consumer" else (),
        )
        for each in found.members
    )
    committed = await committed_offsets(client, group)
    owners = {where: member for member in members for where in member.assigned}
    wheres = sorted({*committed, *owners})
    ends = await (offsets_at(client, dict.fromkeys(wheres, LATEST)) if ends_of is None else ends_of(wheres))
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
    return GroupDescription(
        group,
        found.group_state,
        found.protocol_type,
        found.protocol_data,
        await client.patiently(lambda: client.coordinator(group)),
        members,
        progress,
    )


async def committed_offsets(client: Client, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """Return the committed offset and its metadata for each partition that has one."""
    body = OffsetFetchRequest(group_id=group, topics=None)
    return _committed_in(
        await client.ask_coordinator(group, OFFSET_FETCH, body, lambda reply: int(reply.error_code), version_max=7)
    )


async def committed_at(client: Client, coordinator: int, group: str) -> dict[TopicPartition, tuple[int, str]]:
    """Do the same for a group with a known coordinator."""
    body = OffsetFetchRequest(group_id=group, topics=None)
    reply = await client.ask_broker(coordinator, OFFSET_FETCH, body, version_max=7)
    raise_for(reply.error_code, f"group {group}")
    return _committed_in(reply)


def _committed_in(reply: OffsetFetchResponse) -> dict[TopicPartition, tuple[int, str]]:
    return {
        TopicPartition(topic.name, each.partition_index): (each.committed_offset, each.metadata or "")
        for topic in reply.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


async def offsets_at(client: Client, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return for each partition the offset of the first record at or after the given timestamp; the high watermark if
    there is none.

    LATEST and EARLIEST are allowed as timestamps. Partitions without a leader are left out.
    """
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
        offsets = await offsets_at_leader(client, leader, {where: times[where] for where in wheres})
        for where, offset in offsets.items():
            if offset >= 0:
                found[where] = offset
            elif times[where] >= 0:
                beyond.append(where)
    if beyond:
        found |= await offsets_at(client, dict.fromkeys(beyond, LATEST))
    return found


async def offsets_at_leader(
    client: Client, leader: int, times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offsets of these partitions, which this broker leads; -1 if no record has the timestamp or a later
    one."""
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
    """Commit offsets for a group without members. Raises `KafkaError` if a partition is refused; others may be
    committed."""
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
