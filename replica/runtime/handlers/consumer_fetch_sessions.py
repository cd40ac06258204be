"""Fetch sessions of consumers, in front of the handler of Fetch.

`replica.core.fetching.fetch_context` has the rules. This handler passes the fields of requests and responses to it, and
lets other tasks run between its passes through many partitions. The sessions of followers are kept by the replica
manager: their requests only lose repeated partitions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Final

import trio
from attrs import evolve

from kraft_controller.core.names import TopicPartition
from replica.core.errors import KafkaError
from replica.core.fetching.fetch_context import FetchContext, fetch_context, without_repeats
from replica.core.fetching.fetch_session_cache import NO_SESSION, FetchSessionCache, RequestFields
from replica.runtime.handlers.fetch_requests import in_session
from replica.runtime.requests import STEPS_PER_TURN, Handler, Request
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
        await _turn_after(topics)
        if in_session(request, inter_broker):
            return await fetch(request)
        ident, epoch, owner = body.session_id, body.session_epoch, request.principal
        try:
            context = fetch_context(sessions, ident, epoch, owner, _requests(topics), _forgotten(body), now())
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=NO_SESSION)
        if context is None:
            return await fetch(request)
        if not context.full:
            if not context.requests:
                return FetchResponse(session_id=NO_SESSION)
            topics = _topics(context.requests)
            request = evolve(request, body=evolve(body, topics=topics, forgotten_topics_data=[]))
        await _turn_after(topics)
        reply = await fetch(request)
        if reply.error_code:
            return reply
        await _turn_after(topics)
        try:
            reply.session_id = context.settle(now())
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=NO_SESSION)
        reply.responses = _included(reply.responses, context)
        return reply

    return answer


async def _turn_after(topics: list[FetchTopic]) -> None:
    """Let other tasks run if there are many partitions. A tiny request may fetch all partitions of a large session."""
    if sum(len(topic.partitions) for topic in topics) > STEPS_PER_TURN:
        await trio.lowlevel.checkpoint()


def _without_repeats(topics: list[FetchTopic]) -> list[FetchTopic]:
    """Return each partition once."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return topics
    found = without_repeats(((topic.topic, part.partition), part) for topic in topics for part in topic.partitions)
    if len(found) == sum(len(topic.partitions) for topic in topics):
        return topics
    return [
        FetchTopic(topic=name, partitions=[part for _, part in parts])
        for name, parts in groupby(found.items(), lambda each: each[0][0])
    ]


def _requests(topics: Iterable[FetchTopic]) -> Iterator[tuple[TopicPartition, RequestFields]]:
    for topic in topics:
        for part in topic.partitions:
            yield TopicPartition(topic.topic, part.partition), _fields_of(part)


def _forgotten(body: FetchRequest) -> Iterator[TopicPartition]:
    for topic in body.forgotten_topics_data:
        for number in topic.partitions:
            yield TopicPartition(topic.topic, number)


def _topics(requests: Mapping[TopicPartition, RequestFields]) -> list[FetchTopic]:
    """Return the partitions in the order of `requests`. A topic may be in the list more than once."""
    return [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchRequestPartition(where.partition, **dict(zip(_FIELDS, requests[where], strict=True)))
                for where in wheres
            ],
        )
        for topic, wheres in groupby(requests, lambda where: where.topic)
    ]


def _included(responses: Iterable[FetchableTopicResponse], context: FetchContext) -> list[FetchableTopicResponse]:
    """Return those partitions that the context includes in the response."""
    topics: dict[str, list[PartitionData]] = {}
    for topic in responses:
        name = topic.topic
        for part in topic.partitions:
            offsets = part.high_watermark, part.last_stable_offset, part.log_start_offset
            where = TopicPartition(name, part.partition_index)
            if context.includes(
                where,
                part.error_code,
                offsets,
                bool(part.records),
                part.diverging_epoch,
                part.preferred_read_replica,
            ):
                topics.setdefault(name, []).append(part)
    return [FetchableTopicResponse(topic=name, partitions=parts) for name, parts in topics.items()]
