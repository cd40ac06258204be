"""Requests to the group coordinator, from consumers, transactional producers and administrators.

The handlers translate them to messages of the core, and its replies to responses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import trio
from attrs import frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import (
    Ask,
    Commit,
    CommitInTransaction,
    Committed,
    DeleteGroup,
    DeleteOffsets,
    DescribedGroup,
    DescribeGroup,
    GroupDeleted,
    GroupIdentity,
    Heartbeat,
    HeartbeatAnswered,
    Join,
    Joined,
    Leave,
    LeavingMember,
    ListedGroups,
    ListGroups,
    MembersLeft,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsDeleted,
    OffsetsFetched,
    SupportedProtocol,
    Sync,
    Synced,
)
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from replica.runtime.requests import Handlers, Request, Turns, handler_table, handles
from replica.wire.schemas.group_schemas import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberResponse,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)
from replica.wire.schemas.transaction_schemas import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

GROUP_OPERATIONS: Final = 0x0148
"""The bits of READ, DELETE and DESCRIBE, all operations on a group. With an authorizer, the guard of the request
replaces them by the operations that the principal is authorized for."""
CLASSIC: Final = "classic"
LEAVERS_AT_ONCE: Final = 500
"""The number of members of one LeaveGroup request that leave before other tasks run."""
_LOADS_SINCE: Final = 2
"""The first version of TxnOffsetCommit whose clients retry on COORDINATOR_LOAD_IN_PROGRESS."""

R = TypeVar("R")


def handlers(groups: GroupCoordinatorRuntime, known: Callable[[TopicPartition], bool]) -> Handlers:
    """Return the handlers. `known` returns whether a partition exists; a commit for any other partition is refused."""
    requests = _GroupRequests(groups, known)
    return handler_table(
        handles(JOIN_GROUP, requests.join),
        handles(SYNC_GROUP, requests.sync),
        handles(HEARTBEAT, requests.heartbeat),
        handles(LEAVE_GROUP, requests.leave),
        handles(OFFSET_COMMIT, requests.commit),
        handles(TXN_OFFSET_COMMIT, requests.commit_in_transaction),
        handles(OFFSET_FETCH, requests.fetch),
        handles(DESCRIBE_GROUPS, requests.describe),
        handles(LIST_GROUPS, requests.list_groups),
        handles(DELETE_GROUPS, requests.delete),
        handles(OFFSET_DELETE, requests.delete_offsets),
    )


@frozen
class _GroupRequests:
    groups: GroupCoordinatorRuntime
    known: Callable[[TopicPartition], bool]

    async def _ask(self, ask: Ask, expected: type[R]) -> R:
        reply = await self.groups.ask(ask)
        assert isinstance(reply, expected)
        return reply

    # -- members ---------------------------------------------------------------------------------------------

    async def join(self, request: Request[JoinGroupRequest]) -> JoinGroupResponse:
        body, version = request.body, request.version
        session = body.session_timeout_ms
        ask = Join(
            _identity(body),
            body.protocol_type,
            tuple(SupportedProtocol(each.name, bytes(each.metadata)) for each in body.protocols),
            session,
            body.rebalance_timeout_ms if version >= 1 else session,
            client_id=request.client_id or "",
            client_host=f"/{request.host}",
            id_first=version >= 4,
            can_skip=version >= 9,
            reason=body.reason or "",
            connection=request.connection,
        )
        joined = await self._ask(ask, Joined)
        return JoinGroupResponse(
            error_code=joined.error,
            generation_id=joined.generation,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol if joined.protocol is not None or version >= 7 else "",
            leader=joined.leader,
            skip_assignment=joined.skip_assignment,
            member_id=joined.member,
            members=[
                JoinGroupResponseMember(member_id=each.member, group_instance_id=each.instance, metadata=each.metadata)
                for each in joined.members
            ],
        )

    async def sync(self, request: Request[SyncGroupRequest]) -> SyncGroupResponse:
        body = request.body
        given = {each.member_id: bytes(each.assignment) for each in body.assignments}
        synced = await self._ask(Sync(_identity(body), given, body.protocol_type, body.protocol_name), Synced)
        return SyncGroupResponse(
            error_code=synced.error,
            protocol_type=synced.protocol_type,
            protocol_name=synced.protocol,
            assignment=synced.assignment,
        )

    async def heartbeat(self, request: Request[HeartbeatRequest]) -> HeartbeatResponse:
        return HeartbeatResponse(
            error_code=(await self._ask(Heartbeat(_identity(request.body)), HeartbeatAnswered)).error
        )

    async def leave(self, request: Request[LeaveGroupRequest]) -> LeaveGroupResponse:
        body = request.body
        if request.version < 3:
            left = await self._ask(Leave(body.group_id, (LeavingMember(body.member_id),)), MembersLeft)
            return LeaveGroupResponse(error_code=left.each[0][1] if left.each else left.error)
        members: list[MemberResponse] = []
        for first in range(0, max(len(body.members), 1), LEAVERS_AT_ONCE):
            if first:
                await trio.lowlevel.checkpoint()
            leavers = tuple(
                LeavingMember(each.member_id, each.group_instance_id, each.reason or "")
                for each in body.members[first : first + LEAVERS_AT_ONCE]
            )
            left = await self._ask(Leave(body.group_id, leavers), MembersLeft)
            if left.error is not ErrorCode.NONE:
                return LeaveGroupResponse(error_code=left.error)
            members += [
                MemberResponse(member_id=leaver.member, group_instance_id=leaver.instance, error_code=error)
                for leaver, error in left.each
            ]
        return LeaveGroupResponse(members=members)

    # -- offsets -------------------------------------------------------------------------------------------

    async def commit(self, request: Request[OffsetCommitRequest]) -> OffsetCommitResponse:
        body = request.body
        offsets, unknown = self._offsets_of(body.topics)
        ask = Commit(_identity(body), offsets, body.retention_time_ms)
        errors = {**(await self._ask(ask, Committed)).errors, **unknown}
        return OffsetCommitResponse(topics=_by_topic(body.topics, errors))

    async def commit_in_transaction(self, request: Request[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse:
        body = request.body
        offsets, unknown = self._offsets_of(body.topics)
        ask = CommitInTransaction(_identity(body), body.producer_id, body.producer_epoch, offsets)
        errors = {**(await self._ask(ask, Committed)).errors, **unknown}
        if request.version < _LOADS_SINCE:
            loading, known = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
            errors = {where: known if error is loading else error for where, error in errors.items()}
        return TxnOffsetCommitResponse(topics=_by_topic(body.topics, errors))

    def _offsets_of(
        self, topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic]
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, ErrorCode]]:
        """Return the offsets to commit, and the errors of partitions that do not exist."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        unknown: dict[TopicPartition, ErrorCode] = {}
        for topic in topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                if self.known(where):
                    offsets[where] = OffsetAndMetadata(
                        each.committed_offset, each.committed_leader_epoch, each.committed_metadata or ""
                    )
                else:
                    unknown[where] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return offsets, unknown

    async def fetch(self, request: Request[OffsetFetchRequest]) -> OffsetFetchResponse:
        body = request.body
        if request.version < 8:
            topics, error = await self._fetch(body.group_id, body.topics, body.require_stable)
            # versions 0 and 1 have no error for the whole group
            if error is not ErrorCode.NONE and request.version < 2:
                topics = [
                    OffsetFetchResponseTopic(
                        name=topic.name,
                        partitions=[_no_offset(index, error) for index in topic.partition_indexes],
                    )
                    for topic in body.topics or ()
                ]
            return OffsetFetchResponse(topics=topics, error_code=error)
        answers = []
        named: set[str] = set()
        for group in body.groups:
            if group.group_id in named:
                # Refuse a repeated group: a few bytes of request would return all its offsets again.
                answers.append(
                    OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=ErrorCode.INVALID_REQUEST)
                )
                continue
            named.add(group.group_id)
            topics, error = await self._fetch(group.group_id, group.topics, body.require_stable)
            answers.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=error))
        return OffsetFetchResponse(groups=answers)

    async def _fetch(
        self, group: str, topics: list[OffsetFetchRequestTopic] | None, stable: bool
    ) -> tuple[list[OffsetFetchResponseTopic], ErrorCode]:
        wanted = None
        if topics is not None:
            wanted = tuple(TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes)
        fetched = await self._ask(OffsetFetch(group, wanted, stable), OffsetsFetched)
        found: dict[str, list[OffsetFetchResponsePartition]] = {}
        for where, offset in fetched.positions.items():
            found.setdefault(where.topic, []).append(_offset(where.partition, offset))
        return [
            OffsetFetchResponseTopic(name=name, partitions=partitions) for name, partitions in found.items()
        ], fetched.error

    # -- administration -----------------------------------------------------------------------------------------------

    async def describe(self, request: Request[DescribeGroupsRequest]) -> DescribeGroupsResponse:
        described, turns = [], Turns()
        for name in dict.fromkeys(request.body.groups):
            await turns.step()
            one = await self._ask(DescribeGroup(name), DescribedGroup)
            failed = one.error is not ErrorCode.NONE
            described.append(
                DescribeGroupsResponseGroup(
                    error_code=one.error,
                    group_id=name,
                    group_state="" if failed else one.state.value,
                    protocol_type=one.protocol_type,
                    protocol_data=one.protocol,
                    members=[
                        DescribedGroupMember(
                            member_id=each.member,
                            group_instance_id=each.instance,
                            client_id=each.client_id,
                            client_host=each.client_host,
                            member_metadata=each.metadata,
                            member_assignment=each.assignment,
                        )
                        for each in one.members
                    ],
                )
            )
            if request.body.include_authorized_operations and not failed:
                described[-1].authorized_operations = GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=described)

    async def list_groups(self, request: Request[ListGroupsRequest]) -> ListGroupsResponse:
        body = request.body
        listed = await self._ask(ListGroups(tuple(body.states_filter)), ListedGroups)
        types = {each.lower() for each in body.types_filter}
        return ListGroupsResponse(
            error_code=listed.error,
            groups=[
                ListedGroup(
                    group_id=each.group,
                    protocol_type=each.protocol_type,
                    group_state=each.state.value,
                    group_type=CLASSIC,
                )
                for each in listed.groups
                if not types or CLASSIC in types
            ],
        )

    async def delete(self, request: Request[DeleteGroupsRequest]) -> DeleteGroupsResponse:
        results, turns = [], Turns()
        for name in request.body.groups_names:
            await turns.step()
            results.append(
                DeletableGroupResult(group_id=name, error_code=(await self._ask(DeleteGroup(name), GroupDeleted)).error)
            )
        return DeleteGroupsResponse(results=results)

    async def delete_offsets(self, request: Request[OffsetDeleteRequest]) -> OffsetDeleteResponse:
        body = request.body
        asked = tuple(
            TopicPartition(topic.name, each.partition_index) for topic in body.topics for each in topic.partitions
        )
        deleted = await self._ask(DeleteOffsets(body.group_id, asked), OffsetsDeleted)
        failed = deleted.error is not ErrorCode.NONE
        return OffsetDeleteResponse(
            error_code=deleted.error,
            topics=[] if failed else _by_topic(body.topics, dict(deleted.errors)),
        )


def _identity(
    body: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | OffsetCommitRequest | TxnOffsetCommitRequest,
) -> GroupIdentity:
    """Return the sender of a request. The generation is -1 in JoinGroup, which has none, and in a commit that names
    none."""
    generation = -1 if isinstance(body, JoinGroupRequest) else body.generation_id
    return GroupIdentity(body.group_id, body.member_id, generation, body.group_instance_id)


def _by_topic(
    topics: Sequence[OffsetCommitRequestTopic]
    | Sequence[TxnOffsetCommitRequestTopic]
    | Sequence[OffsetDeleteRequestTopic],
    errors: dict[TopicPartition, ErrorCode],
) -> list[OffsetCommitResponseTopic]:
    """Return the errors in the order of the request."""
    return [
        OffsetCommitResponseTopic(
            topic.name,
            [
                OffsetCommitResponsePartition(
                    each.partition_index, errors[TopicPartition(topic.name, each.partition_index)]
                )
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]


def _offset(index: int, offset: OffsetAndMetadata | ErrorCode | None) -> OffsetFetchResponsePartition:
    if not isinstance(offset, OffsetAndMetadata):
        return _no_offset(index, ErrorCode.NONE if offset is None else offset)
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=ErrorCode.NONE,
    )


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error,
    )
