"""Making, growing and deleting topics: each topic of a request is a case of its own, and all of them go on together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import trio

from kraft_controller.core.names import TopicId, metric_name, wrong_beside
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.described import Layers, of_topic
from replica.runtime.metadata import MetadataCache
from replica.runtime.requests import ApiKey, Body, Handlers, Request
from replica.runtime.topics import Manual, Topics

_SHOWN: Final = ("name", "value", "config_source")
TOGETHER_MAX: Final = 50
"""So many topics of one request are dealt with at a time."""


def handlers(topics: Topics, cache: MetadataCache, layers: Callable[[], Layers]) -> Handlers:
    """`layers`: what holds for topics that say nothing themselves."""

    async def create(request: Request) -> Body:
        body = request.body
        asked: list[Body] = body["topics"]
        twice = _twice(one["name"] for one in asked)
        made_here: dict[str, str] = {}

        async def one(topic: Body) -> Body:
            name = topic["name"]
            if name in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name} stands in the request more than once")
            if (other := made_here.get(metric_name(name))) is not None:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong_beside(name, other))
            values = _values(topic)
            manual = _manual(topic)
            check_only = body["validate_only"]
            made = await topics.create(
                name, topic["num_partitions"], topic["replication_factor"], values, manual, check_only=check_only
            )
            made_here[metric_name(name)] = name
            if not check_only:
                await topics.led(name, len(made.replicas), body["timeout_ms"])
            return {
                "topic_id": made.id,
                "num_partitions": len(made.replicas),
                "replication_factor": len(made.replicas[0]),
                "configs": [{name: entry[name] for name in _SHOWN} for entry in of_topic(values, layers())],
            }

        found: dict[int, Body] = {}
        for places in _rounds(topic["name"] for topic in asked):
            answers = await _each([asked[place] for place in places], lambda topic: {"name": topic["name"]}, one)
            found |= zip(places, answers, strict=True)
        return {"topics": [found[place] for place in range(len(asked))]}

    async def grow(request: Request) -> Body:
        body = request.body
        asked: list[Body] = body["topics"]
        twice = _twice(one["name"] for one in asked)

        async def one(topic: Body) -> Body:
            name, check_only = topic["name"], body["validate_only"]
            if name in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name} stands in the request more than once")
            manual = topic["assignments"]
            rows = None if manual is None else [each["broker_ids"] for each in manual]
            await topics.grow(name, topic["count"], rows, check_only=check_only)
            if not check_only:
                await topics.led(name, topic["count"], body["timeout_ms"])
            return {}

        return {"results": await _each(asked, lambda topic: {"name": topic["name"]}, one)}

    async def delete(request: Request) -> Body:
        body = request.body
        asked = body["topics"] or [{"name": name, "topic_id": None} for name in body["topic_names"]]

        def shown(topic: Body) -> Body:
            name, ident = topic["name"], topic["topic_id"]
            if ident is not None and name is None:
                name = cache.name_of(TopicId(ident))
            elif name is not None:
                ident = cache.topic_id(name)
            return {"name": name if name is not None or request.version >= 6 else "", "topic_id": ident}

        async def one(topic: Body) -> Body:
            name, ident = topic["name"], topic["topic_id"]
            if (name is None) == (ident is None):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is named, or given by its id: one of both")
            if name is None:
                name = cache.name_of(TopicId(ident))
                if name is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {ident}")
            known = cache.topic_id(name)
            await topics.delete(name)
            await topics.gone(name, known, body["timeout_ms"])
            return {}

        return {"responses": await _each(asked, shown, one)}

    return {ApiKey.CREATE_TOPICS: create, ApiKey.CREATE_PARTITIONS: grow, ApiKey.DELETE_TOPICS: delete}


def _twice(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _rounds(names: Iterable[str]) -> list[list[int]]:
    """Places of the request that may go on together. Of topics that would be one in metrics each waits for what becomes
    of those before it: together, each would look for the others before they are there."""
    rounds: list[list[int]] = []
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        number = seen[metric_name(name)]
        seen[metric_name(name)] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(place)
    return rounds


def _values(topic: Body) -> dict[str, str]:
    values = {}
    for each in topic["configs"]:
        if each["value"] is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{each['name']} has no value")
        values[each["name"]] = each["value"]
    return values


def _manual(topic: Body) -> Manual | None:
    if not topic["assignments"]:
        return None
    if topic["num_partitions"] != -1 or topic["replication_factor"] != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "replicas are named, so the numbers of partitions and of replicas must be -1"
        )
    named: Mapping[int, list[int]] = {each["partition_index"]: each["broker_ids"] for each in topic["assignments"]}
    if len(named) != len(topic["assignments"]):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the replicas of one partition are named twice")
    return named


async def _each(asked: list[Body], shown: Callable[[Body], Body], act: Callable[[Body], Awaitable[Body]]) -> list[Body]:
    """All at once, and what became of each in the order in which they were asked."""
    found: list[Body] = [{} for _ in asked]
    turnstile = trio.CapacityLimiter(TOGETHER_MAX)

    async def one(place: int, wanted: Body) -> None:
        base = shown(wanted)
        try:
            async with turnstile:
                found[place] = {**base, **await act(wanted)}
        except KafkaError as error:
            found[place] = {**base, "error_code": error.code, "error_message": error.text}

    async with trio.open_nursery() as nursery:
        for place, wanted in enumerate(asked):
            nursery.start_soon(one, place, wanted)
    return found
