"""Fetch sessions of consumers (KIP-227), in front of the handler of Fetch.

An incremental request is expanded to all partitions of the session, and the response is reduced to the partitions that
changed. So the handler needs no sessions, and authorization and quotas always cover the whole session. A follower's
request passes unchanged, since the core keeps its session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final

import trio
from attrs import evolve

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_session_cache import (
    BEGIN,
    END,
    NO_SESSION,
    FetchSession,
    FetchSessionCache,
    RequestFields,
)
from replica.runtime.handlers.fetch_requests import MANY, in_session
from replica.runtime.requests import Handler, Request
from replica.wire.schemas.data_schemas import (
    FetchableTopicResponse,
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_FIELDS: Final = (
    "fetch_offset",
    "partition_max_bytes",
    "current_leader_epoch",
    "last_fetched_epoch",
    "log_start_offset",
)
_fields_of = attrgetter(*_FIELDS)


def in_sessions(
    fetch: Handler[FetchRequest, FetchResponse], sessions: FetchSessionCache, now: Callable[[], int], inter_broker: str
) -> Handler[FetchRequest, FetchResponse]:
    async def answer(request: Request[FetchRequest]) -> FetchResponse:
        body = request.body
        if (topics := _without_repeats(body.topics)) is not body.topics:
            body = evolve(body, topics=topics)
            request = evolve(request, body=body)
        await _turn_after(body.topics)
        if in_session(request, inter_broker):
            return await fetch(request)
        ident, epoch, owner = body.session_id, body.session_epoch, request.principal
        if epoch in (BEGIN, END):
            sessions.close(ident, owner)
            if epoch == END:
                return await fetch(request)
            requests = dict(_requests(body))
            await _turn_after(body.topics)
            reply = await fetch(request)
            await _turn_after(body.topics)
            begun = sessions.begin(owner, requests, now())
            if begun is not None:
                _changed_partitions(reply, begun)
                reply.session_id = begun.id
            return reply
        forgotten = [
            TopicPartition(topic.topic, number) for topic in body.forgotten_topics_data for number in topic.partitions
        ]
        try:
            session = sessions.go_on(ident, epoch, owner, dict(_requests(body)), forgotten, now())
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=NO_SESSION)
        if not sessions.holds(session):  # the request removed its last partition
            return FetchResponse(session_id=NO_SESSION)
        topics = _topics(session)
        await _turn_after(topics)
        reply = await fetch(evolve(request, body=evolve(body, topics=topics, forgotten_topics_data=[])))
        if reply.error_code:
            return reply
        await _turn_after(topics)
        if not sessions.holds(session):
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=NO_SESSION)
        reply.session_id, reply.responses = session.id, _changed_partitions(reply, session)
        return reply

    return answer


async def _turn_after(topics: list[FetchTopic]) -> None:
    """Let other tasks run if there are many partitions: each pass through them takes long."""
    if sum(len(topic.partitions) for topic in topics) > MANY:
        await trio.lowlevel.checkpoint()


def _without_repeats(topics: list[FetchTopic]) -> list[FetchTopic]:
    """Return the partitions with each one once. As in Apache Kafka, a repeated partition has the place of the first
    request for it and the fields of the last."""
    found = {(topic.topic, part.partition): part for topic in topics for part in topic.partitions}
    if len(found) == sum(len(topic.partitions) for topic in topics):
        return topics
    return [
        FetchTopic(topic=name, partitions=[part for _, part in parts])
        for name, parts in groupby(found.items(), lambda each: each[0][0])
    ]


def _requests(body: FetchRequest) -> Iterator[tuple[TopicPartition, RequestFields]]:
    for topic in body.topics:
        for part in topic.partitions:
            yield TopicPartition(topic.topic, part.partition), _fields_of(part)


def _topics(session: FetchSession) -> list[FetchTopic]:
    """Return the partitions in the order of the session. A topic may be in the list more than once."""
    return [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchRequestPartition(where.partition, **dict(zip(_FIELDS, session.requests[where], strict=True)))
                for where in wheres
            ],
        )
        for topic, wheres in groupby(tuple(session.requests), lambda where: where.topic)
    ]


def _changed_partitions(reply: FetchResponse, session: FetchSession) -> list[FetchableTopicResponse]:
    """Return the partitions to send: those with records, an error, a diverging epoch or another replica to read from,
    and those whose offsets changed since the last response. Record the offsets that are sent."""
    topics: dict[str, list[PartitionData]] = {}
    for topic in reply.responses:
        for part in topic.partitions:
            where = TopicPartition(topic.topic, part.partition_index)
            sent = part.high_watermark, part.last_stable_offset, part.log_start_offset
            elsewhere = part.diverging_epoch is not None or part.preferred_read_replica >= 0
            always = bool(part.error_code) or elsewhere
            if session.answered(where, sent, records=bool(part.records), always=always):
                topics.setdefault(where.topic, []).append(part)
    return [FetchableTopicResponse(topic=name, partitions=parts) for name, parts in topics.items()]
