"""`Fetch`, by consumers and by the replicas of other brokers.

A consumer's request names all partitions to fetch: `handlers.consumer_fetch_sessions`, which calls this handler, has
added those of the fetch session. The core keeps the sessions of followers
(`replica.core.fetching.follower_fetch_sessions`).
"""

from __future__ import annotations

from typing import Final

import trio

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.fetching.fetch_session_cache import END
from replica.core.replica_messages import CONSUMER, Fetch, Fetched, FetchPartition, FetchSessionPlace, SessionFetched
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime
from replica.runtime.requests import STEPS_PER_TURN, Handlers, Request, Turns, handler_table, handles
from replica.wire.schemas.data_schemas import (
    FETCH,
    AbortedTransaction,
    DivergingEpoch,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

ANY_REPLICA_SINCE: Final = 11
READ_COMMITTED: Final = 1


def handlers(replicas: ReplicaManagerRuntime, inter_broker: str) -> Handlers:
    """Return the handlers. `inter_broker`: the listener at which a request may name a replica id."""

    async def fetch(request: Request[FetchRequest]) -> FetchResponse:
        body = request.body
        committed = body.isolation_level == READ_COMMITTED
        if body.replica_id >= 0 and request.listener != inter_broker:
            results = [
                Fetched(TopicPartition(topic.topic, part.partition), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                for topic in body.topics
                for part in topic.partitions
            ]
        else:
            results = await replicas.fetch(await _asked(request, inter_broker))
        if isinstance(results, SessionFetched):
            if len(results) > STEPS_PER_TURN:
                await trio.lowlevel.checkpoint()
            return _in_session(results)
        given, turns = iter(results), Turns()
        responses = []
        for topic in body.topics:
            partitions = []
            for _ in topic.partitions:
                await turns.step()
                partitions.append(_part(next(given), committed))
            responses.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
        return FetchResponse(responses=responses)

    return handler_table(handles(FETCH, fetch))


def in_session(request: Request[FetchRequest], inter_broker: str) -> bool:
    """Return whether a request is a follower's, and opens or continues a fetch session."""
    body = request.body
    return body.replica_id >= 0 and request.listener == inter_broker and body.session_epoch != END


def _in_session(found: SessionFetched) -> FetchResponse:
    topics: dict[str, list[PartitionData]] = {}
    for part in found:
        topics.setdefault(part.where.topic, []).append(_part(part, committed=False))
    return FetchResponse(
        error_code=found.error,
        session_id=found.id,
        responses=[FetchableTopicResponse(topic=name, partitions=parts) for name, parts in topics.items()],
    )


def _place(body: FetchRequest) -> FetchSessionPlace:
    forgotten = tuple(
        TopicPartition(topic.topic, number) for topic in body.forgotten_topics_data for number in topic.partitions
    )
    return FetchSessionPlace(body.session_id, body.session_epoch, forgotten)


async def _asked(request: Request[FetchRequest], inter_broker: str) -> Fetch:
    body = request.body
    parts, turns = [], Turns()
    for topic in body.topics:
        name = topic.topic
        for part in topic.partitions:
            await turns.step()
            parts.append(
                FetchPartition(
                    TopicPartition(name, part.partition),
                    part.fetch_offset,
                    max(part.partition_max_bytes, 0),
                    part.current_leader_epoch,
                    part.last_fetched_epoch,
                    part.log_start_offset,
                )
            )
    replica, state = body.replica_id, body.replica_state
    return Fetch(
        tuple(parts),
        BrokerId(replica) if replica >= 0 else CONSUMER,
        BrokerEpoch(-1 if state is None else state.replica_epoch),
        body.max_wait_ms,
        body.min_bytes,
        max(body.max_bytes, 0),
        body.isolation_level == READ_COMMITTED,
        body.rack_id,
        request.version >= ANY_REPLICA_SINCE,
        _place(body) if in_session(request, inter_broker) else None,
    )


def _part(result: Fetched, committed: bool) -> PartitionData:
    end, leader = result.diverging, result.leader
    return PartitionData(
        partition_index=result.where.partition,
        error_code=result.error,
        high_watermark=result.high_watermark,
        last_stable_offset=result.stable_offset,
        log_start_offset=result.start_offset,
        diverging_epoch=None if end is None else DivergingEpoch(epoch=end.epoch, end_offset=end.end_offset),
        current_leader=None if leader is None else LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
        aborted_transactions=[
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in result.aborted
        ]
        if committed
        else None,
        preferred_read_replica=result.preferred,
        records=result.records,
    )
