"""`CreateTopics`, `CreatePartitions` and `DeleteTopics`. The topics of a request are handled concurrently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import trio

from kraft_controller.core.names import metric_name, wrong_beside
from replica.core.errors import ErrorCode, KafkaError
from replica.core.metadata_cache import MetadataCache
from replica.runtime.configuration.config_layers import Layers, of_topic
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.runtime.store.topic_manager import Manual, TopicManager
from replica.wire.schemas.topic_schemas import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

Q = TypeVar("Q")
R = TypeVar("R", CreatableTopicResult, CreatePartitionsTopicResult, DeletableTopicResult)

TOGETHER_MAX: Final = 50
"""The maximum number of topics of one request that are handled concurrently."""


def handlers(topics: TopicManager, cache: MetadataCache, layers: Callable[[], Layers]) -> Handlers:
    """Return the handlers. `layers` returns the broker configuration, which applies to keys that a topic does not
    set."""

    async def create(request: Request[CreateTopicsRequest]) -> CreateTopicsResponse:
        body = request.body
        asked = body.topics
        repeated = _repeated(one.name for one in asked)
        created: dict[str, str] = {}

        async def one(topic: CreatableTopic, result: CreatableTopicResult) -> None:
            name = topic.name
            if name in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name} is in the request more than once")
            if (other := created.get(metric_name(name))) is not None:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong_beside(name, other))
            values = _values(topic)
            manual = _manual(topic)
            check_only = body.validate_only
            topic_created = await topics.create(
                name, topic.num_partitions, topic.replication_factor, values, manual, check_only=check_only
            )
            created[metric_name(name)] = name
            if not check_only:
                await topics.led(name, len(topic_created.replicas), body.timeout_ms)
            result.topic_id = topic_created.id
            result.num_partitions = len(topic_created.replicas)
            result.replication_factor = len(topic_created.replicas[0])
            result.configs = [
                CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)
                for entry in of_topic(values, layers())
            ]

        found: dict[int, CreatableTopicResult] = {}
        for places in _rounds(topic.name for topic in asked):
            answers = await _each(
                [asked[place] for place in places],
                lambda topic: CreatableTopicResult(name=topic.name),
                one,
            )
            found |= zip(places, answers, strict=True)
        return CreateTopicsResponse(topics=[found[place] for place in range(len(asked))])

    async def grow(request: Request[CreatePartitionsRequest]) -> CreatePartitionsResponse:
        body = request.body
        asked = body.topics
        repeated = _repeated(one.name for one in asked)

        async def one(topic: CreatePartitionsTopic, result: CreatePartitionsTopicResult) -> None:
            name, check_only = topic.name, body.validate_only
            if name in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name} is in the request more than once")
            manual = topic.assignments
            rows = None if manual is None else [each.broker_ids for each in manual]
            await topics.grow(name, topic.count, rows, check_only=check_only)
            if not check_only:
                await topics.led(name, topic.count, body.timeout_ms)

        return CreatePartitionsResponse(
            results=await _each(asked, lambda topic: CreatePartitionsTopicResult(name=topic.name), one)
        )

    async def delete(request: Request[DeleteTopicsRequest]) -> DeleteTopicsResponse:
        body = request.body
        asked = body.topics or [DeleteTopicState(name=name) for name in body.topic_names]

        def shown(topic: DeleteTopicState) -> DeletableTopicResult:
            name, ident = topic.name, topic.topic_id
            if ident is not None and name is None:
                name = cache.name_of(ident)
            elif name is not None:
                ident = cache.topic_id(name)
            return DeletableTopicResult(name if name is not None or request.version >= 6 else "", ident)

        async def one(topic: DeleteTopicState, result: DeletableTopicResult) -> None:
            name, ident = topic.name, topic.topic_id
            if (name is None) == (ident is None):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic must have either a name or an id")
            if name is None:
                assert ident is not None
                name = cache.name_of(ident)
                if name is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {ident}")
            known = cache.topic_id(name)
            await topics.delete(name)
            await topics.gone(name, known, body.timeout_ms)

        return DeleteTopicsResponse(responses=await _each(asked, shown, one))

    return handler_table(
        handles(CREATE_TOPICS, create), handles(CREATE_PARTITIONS, grow), handles(DELETE_TOPICS, delete)
    )


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _rounds(names: Iterable[str]) -> list[list[int]]:
    """Group the indexes of the requested topics into rounds. The topics of a round are created concurrently.

    Topics with the same metric name are in different rounds; otherwise the check for collisions could miss one of
    them.
    """
    rounds: list[list[int]] = []
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        number = seen[metric_name(name)]
        seen[metric_name(name)] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(place)
    return rounds


def _values(topic: CreatableTopic) -> dict[str, str]:
    values = {}
    for each in topic.configs:
        if each.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{each.name} has no value")
        values[each.name] = each.value
    return values


def _manual(topic: CreatableTopic) -> Manual | None:
    if not topic.assignments:
        return None
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "the request assigns replicas, so num_partitions and replication_factor must be -1",
        )
    named: Mapping[int, Sequence[int]] = {each.partition_index: each.broker_ids for each in topic.assignments}
    if len(named) != len(topic.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the request assigns replicas to one partition twice")
    return named


async def _each(asked: list[Q], shown: Callable[[Q], R], act: Callable[[Q, R], Awaitable[None]]) -> list[R]:
    """Apply `act` to all topics concurrently, and return their results in the order of the request."""
    found = [shown(topic) for topic in asked]
    limiter = trio.CapacityLimiter(TOGETHER_MAX)

    async def one(topic: Q, result: R) -> None:
        try:
            async with limiter:
                await act(topic, result)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.text

    async with trio.open_nursery() as nursery:
        for topic, result in zip(asked, found, strict=True):
            nursery.start_soon(one, topic, result)
    return found
