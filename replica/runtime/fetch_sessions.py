"""Fetch sessions at work: what a client says of its session becomes a request of everything in it, and of the answer he
is sent what is news.

So the handler of a consumer's fetch knows nothing of sessions. What a client may read, and how much, is looked at for
all that is in his session, each time. A follower's request passes as it is: the core keeps its session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final

from attrs import evolve

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetch_session_cache import BEGIN, END, NO_SESSION, FetchSession, FetchSessionCache, Wish
from replica.runtime.handlers.fetch import in_session
from replica.runtime.requests import Body, Handler, Reply, Request

_WISH: Final = ("fetch_offset", "partition_max_bytes", "current_leader_epoch", "last_fetched_epoch", "log_start_offset")
_TOLD: Final = ("high_watermark", "last_stable_offset", "log_start_offset")


def in_sessions(fetch: Handler, sessions: FetchSessionCache, now: Callable[[], int], inter_broker: str) -> Handler:
    async def answer(request: Request) -> Reply:
        body = request.body
        if in_session(request, inter_broker):
            return await fetch(request)
        ident, epoch, owner = body["session_id"], body["session_epoch"], request.principal
        if epoch in (BEGIN, END):
            sessions.close(ident, owner)
            if epoch == END:
                return await fetch(request)
            wishes = dict(_wishes(body))
            reply = await fetch(request)
            assert reply is not None
            begun = sessions.begin(owner, wishes, now())
            if begun is not None:
                _news(reply, begun)
                reply = {**reply, "session_id": begun.id}
            return reply
        forgotten = [
            TopicPartition(topic["topic"], number)
            for topic in body["forgotten_topics_data"]
            for number in topic["partitions"]
        ]
        try:
            session = sessions.go_on(ident, epoch, owner, dict(_wishes(body)), forgotten, now())
        except KafkaError as error:
            return {"error_code": error.code, "session_id": NO_SESSION, "responses": []}
        if not sessions.holds(session):  # it asks for nothing any more
            return {"session_id": NO_SESSION, "responses": []}
        reply = await fetch(evolve(request, body={**body, "topics": _topics(session), "forgotten_topics_data": []}))
        assert reply is not None
        if reply.get("error_code"):
            return reply
        if not sessions.holds(session):
            return {"error_code": ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "session_id": NO_SESSION, "responses": []}
        return {**reply, "session_id": session.id, "responses": _news(reply, session)}

    return answer


def _wishes(body: Body) -> Iterator[tuple[TopicPartition, Wish]]:
    for topic in body["topics"]:
        for part in topic["partitions"]:
            yield TopicPartition(topic["topic"], part["partition"]), tuple(part[name] for name in _WISH)


def _topics(session: FetchSession) -> list[Body]:
    """In the order in which they are to be served, so a topic may stand there more than once."""
    return [
        {
            "topic": topic,
            "partitions": [
                {"partition": where.partition, **dict(zip(_WISH, session.wishes[where], strict=True))}
                for where in wheres
            ],
        }
        for topic, wheres in groupby(tuple(session.wishes), lambda where: where.topic)
    ]


def _news(reply: Body, session: FetchSession) -> list[Body]:
    """By topic, what the client has not been told yet."""
    topics: dict[str, list[Body]] = {}
    for topic in reply["responses"]:
        for part in topic["partitions"]:
            where = TopicPartition(topic["topic"], part["partition_index"])
            told = tuple(part.get(name, -1) for name in _TOLD)
            elsewhere = part.get("diverging_epoch") is not None or part.get("preferred_read_replica", -1) >= 0
            always = bool(part["error_code"]) or elsewhere
            if session.answered(where, told, records=bool(part.get("records")), always=always):
                topics.setdefault(where.topic, []).append(part)
    return [{"topic": name, "partitions": parts} for name, parts in topics.items()]
