"""A member of a consumer group that reads one topic: it joins, syncs, sends heartbeats, commits and leaves.

It uses the assignor `range` in the encoding of Kafka's clients, so clients with this assignor can be members of the
same group. The coordinator may choose any member as the leader, which assigns the partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import pack
from typing import Final, TypeVar

from attrs import evolve

from replica.cli.topic import leaders_of
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import raise_for
from replica.wire.fields import Api
from replica.wire.group_records import assigned_in, topics_of
from replica.wire.schemas.group_schemas import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from zab.cli.kit.failures import Failed

Q = TypeVar("Q")
R = TypeVar("R")

PROTOCOL: Final = "range"
SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 60_000
HEARTBEAT_S: Final = 3.0
COMMIT_S: Final = 5.0
NO_OFFSET: Final = -1
_JOIN_ANEW: Final = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
)


class Rebalance(Exception):
    """A rebalance has begun, or the group has removed this member: it must join again before it continues to read."""


class GroupMember:
    def __init__(self, client: Client, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.member_id = ""
        self.generation = -1
        self._client = client

    async def join(self) -> list[int]:
        """Join the group. When all members have joined, return the partitions that are assigned to this member."""
        while True:
            try:
                joined = await self._join()
                assignments = await self._assign(joined) if joined.leader == joined.member_id else []
                reply = await self._ask(
                    SYNC_GROUP,
                    SyncGroupRequest(
                        self.group,
                        self.generation,
                        self.member_id,
                        protocol_type="consumer",
                        protocol_name=PROTOCOL,
                        assignments=assignments,
                    ),
                )
            except Rebalance:
                continue
            return [where.partition for where in assigned_in(reply.assignment) if where.topic == self.topic]

    async def heartbeat(self) -> None:
        """Send a heartbeat. Raise `Rebalance` if the member must join again."""
        await self._ask(HEARTBEAT, HeartbeatRequest(self.group, self.generation, self.member_id))

    async def committed(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return the committed offset of each partition that has one."""
        topics = [OffsetFetchRequestTopic(name=self.topic, partition_indexes=list(partitions))]
        reply = await self._ask(OFFSET_FETCH, OffsetFetchRequest(group_id=self.group, topics=topics), version_max=7)
        found = {}
        for topic in reply.topics:
            for part in topic.partitions:
                raise_for(part.error_code, f"group {self.group}: partition {part.partition_index}")
                if part.committed_offset != NO_OFFSET:
                    found[part.partition_index] = part.committed_offset
        return found

    async def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets. If the member must join again before it can commit, commit nothing and raise `Rebalance`."""
        if not offsets:
            return
        parts = [
            OffsetCommitRequestPartition(partition_index=number, committed_offset=offset, committed_metadata="")
            for number, offset in offsets.items()
        ]
        topics = [OffsetCommitRequestTopic(self.topic, parts)]
        await self._ask(OFFSET_COMMIT, OffsetCommitRequest(self.group, self.generation, self.member_id, topics=topics))

    async def leave(self) -> None:
        if self.member_id:
            await self._ask(
                LEAVE_GROUP,
                LeaveGroupRequest(
                    group_id=self.group, member_id=self.member_id, members=[MemberIdentity(member_id=self.member_id)]
                ),
            )

    # -- requests ------------------------------------------------------------------------------------------------

    async def _join(self) -> JoinGroupResponse:
        body = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription([self.topic]))],
        )
        while True:
            reply = await self._ask(
                JOIN_GROUP, evolve(body, member_id=self.member_id), expected=ErrorCode.MEMBER_ID_REQUIRED
            )
            self.member_id, self.generation = reply.member_id, reply.generation_id
            if reply.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                return reply

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        async def known() -> list[int]:
            return [where.partition for where in await leaders_of(self._client, self.topic, ())]

        numbers = await self._client.patiently(known)
        members = {one.member_id: self._topics_of(one) for one in joined.members}
        others = {topic for topics in members.values() for topic in topics} - {self.topic}
        partitions = {self.topic: numbers}
        if others:
            for topic in (await self._client.metadata(sorted(others))).topics:
                partitions[topic.name or ""] = sorted(each.partition_index for each in topic.partitions)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=assignment(mine))
            for member, mine in in_ranges(members, partitions).items()
        ]

    def _topics_of(self, member: JoinGroupResponseMember) -> frozenset[str]:
        topics = topics_of(member.metadata)
        if topics is None:
            raise Failed(
                f"group {self.group}: the subscription of member {member.member_id} is not in the format of Kafka's "
                f"consumers. Stop that member, or use another group"
            )
        return topics

    async def _ask(
        self, api: Api[Q, R], body: Q, version_max: int | None = None, expected: ErrorCode = ErrorCode.NONE
    ) -> R:
        def error_of(response: R) -> int:
            if isinstance(response, OffsetCommitResponse):
                codes = [part.error_code for topic in response.topics for part in topic.partitions]
            else:
                codes = [getattr(response, "error_code", ErrorCode.NONE)]
            return next((code for code in codes if code not in (ErrorCode.NONE, expected)), 0)

        try:
            return await self._client.ask_coordinator(self.group, api, body, error_of, version_max)
        except KafkaError as error:
            if error.code not in _JOIN_ANEW:
                raise
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            raise Rebalance(str(error)) from error


# -- subscriptions and assignments -----------------------------------------------------------------------------


def subscription(topics: Sequence[str]) -> bytes:
    """Encode the topics that a member reads, in version 0 of Kafka's ConsumerProtocolSubscription."""
    return pack(">hi", 0, len(topics)) + b"".join(map(_text, topics)) + pack(">i", -1)


def assignment(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """Encode an assignment in version 0 of Kafka's ConsumerProtocolAssignment."""
    pieces = [pack(">hi", 0, len(partitions))]
    for topic, numbers in partitions.items():
        pieces += [_text(topic), pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join((*pieces, pack(">i", -1)))


def in_ranges(
    members: Mapping[str, Iterable[str]], partitions: Mapping[str, Sequence[int]]
) -> dict[str, dict[str, list[int]]]:
    """Assign to each member a contiguous range of the partitions of each topic that it reads, in the order of member
    ids. Kafka's range assignor does the same, except that it also considers group instance ids and racks."""
    made: dict[str, dict[str, list[int]]] = {member: {} for member in members}
    for topic, numbers in partitions.items():
        readers = sorted(member for member, topics in members.items() if topic in topics)
        begin = 0
        for place, member in enumerate(readers):
            size = len(numbers) // len(readers) + (place < len(numbers) % len(readers))
            if size:
                made[member][topic] = list(numbers[begin : begin + size])
            begin += size
    return made


def _text(text: str) -> bytes:
    raw = text.encode()
    return pack(">h", len(raw)) + raw
