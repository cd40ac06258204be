"""`CreateTopics`, `CreatePartitions` and `DeleteTopics`.

A handler first writes the changes of all topics to the store, up to `TOGETHER_MAX` concurrently. It then waits until
the controller has executed them. The timeout of the request covers both steps for all topics together, but the writes
have at least `WRITE_S`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import trio
from attrs import frozen

from kraft_controller.core.names import TopicId, metric_name, wrong_beside
from replica.core.errors import ErrorCode, KafkaError
from replica.core.metadata_cache import MetadataCache
from replica.runtime.configuration.config_layers import Layers, of_topic
from replica.runtime.requests import Handlers, Request, Turns, handler_table, handles
from replica.runtime.store.topic_manager import CreatedTopic, Manual, TopicManager
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
"""The maximum number of topics of one request that are written concurrently."""
WRITE_S: Final = 1.0
"""The minimum time for the writes of one request, even if its timeout is shorter."""


def handlers(topics: TopicManager, cache: MetadataCache, layers: Callable[[], Layers]) -> Handlers:
    """Return the handlers. `layers` returns the broker configuration, which applies to keys that a topic does not
    set."""

    async def create(request: Request[CreateTopicsRequest]) -> CreateTopicsResponse:
        body, time = request.body, _RequestTime.of(request.body.timeout_ms)
        pairs = [(topic, CreatableTopicResult(name=topic.name)) for topic in body.topics]
        repeated = _repeated(topic.name for topic in body.topics)
        created: dict[str, CreatedTopic] = {}
        names: dict[str, str] = {}
        """The created topics by metric name."""

        async def write(topic: CreatableTopic, _: CreatableTopicResult) -> None:
            name = topic.name
            if name in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name} is in the request more than once")
            if (other := names.get(metric_name(name))) is not None:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong_beside(name, other))
            values = _values(topic)
            created[name] = await topics.create(
                name,
                topic.num_partitions,
                topic.replication_factor,
                values,
                _manual(topic),
                check_only=body.validate_only,
            )
            names[metric_name(name)] = name

        async def wait(topic: CreatableTopic, result: CreatableTopicResult) -> None:
            made = created[topic.name]
            if not body.validate_only:
                await topics.led(topic.name, len(made.replicas), time.left_ms)
            result.topic_id = made.id
            result.num_partitions = len(made.replicas)
            result.replication_factor = len(made.replicas[0])
            result.configs = [
                CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)
                for entry in of_topic(_values(topic), layers())
            ]

        for places in _rounds(topic.name for topic in body.topics):
            await _write_each([pairs[place] for place in places], write, time, "created")
        await _wait_for_each(pairs, wait)
        return CreateTopicsResponse(topics=[result for _, result in pairs])

    async def grow(request: Request[CreatePartitionsRequest]) -> CreatePartitionsResponse:
        body, time = request.body, _RequestTime.of(request.body.timeout_ms)
        pairs = [(topic, CreatePartitionsTopicResult(name=topic.name)) for topic in body.topics]
        repeated = _repeated(topic.name for topic in body.topics)

        async def write(topic: CreatePartitionsTopic, _: CreatePartitionsTopicResult) -> None:
            name = topic.name
            if name in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name} is in the request more than once")
            manual = topic.assignments
            rows = None if manual is None else [each.broker_ids for each in manual]
            await topics.grow(name, topic.count, rows, check_only=body.validate_only)

        async def wait(topic: CreatePartitionsTopic, _: CreatePartitionsTopicResult) -> None:
            await topics.led(topic.name, topic.count, time.left_ms)

        await _write_each(pairs, write, time, "enlarged")
        if not body.validate_only:
            await _wait_for_each(pairs, wait)
        return CreatePartitionsResponse(results=[result for _, result in pairs])

    async def delete(request: Request[DeleteTopicsRequest]) -> DeleteTopicsResponse:
        body, time = request.body, _RequestTime.of(request.body.timeout_ms)
        asked = body.topics or [DeleteTopicState(name=name) for name in body.topic_names]
        deleted: dict[str, TopicId | None] = {}
        """The ids of the deleted topics, as far as this broker knew them."""

        def shown(topic: DeleteTopicState) -> DeletableTopicResult:
            name, ident = topic.name, topic.topic_id
            if ident is not None and name is None:
                name = cache.name_of(ident)
            elif name is not None:
                ident = cache.topic_id(name)
            return DeletableTopicResult(name if name is not None or request.version >= 6 else "", ident)

        async def write(topic: DeleteTopicState, result: DeletableTopicResult) -> None:
            name, ident = topic.name, topic.topic_id
            if (name is None) == (ident is None):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic must have either a name or an id")
            if result.name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {ident}")
            name = result.name
            known = cache.topic_id(name)
            await topics.delete(name)
            deleted[name] = known

        async def wait(_: DeleteTopicState, result: DeletableTopicResult) -> None:
            assert result.name is not None
            await topics.unknown(result.name, deleted[result.name], time.left_ms)

        pairs = [(topic, shown(topic)) for topic in asked]
        await _write_each(pairs, write, time, "deleted")
        await _wait_for_each(pairs, wait)
        await topics.until_deleted(deleted, time.left_ms)
        return DeleteTopicsResponse(responses=[result for _, result in pairs])

    return handler_table(
        handles(CREATE_TOPICS, create), handles(CREATE_PARTITIONS, grow), handles(DELETE_TOPICS, delete)
    )


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _rounds(names: Iterable[str]) -> list[list[int]]:
    """Group the indexes of the requested topics into rounds. The topics of a round are created concurrently.

    Topics with the same metric name are in different rounds, since concurrent creations would not detect that their
    names collide.
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


async def _write_each(
    pairs: Sequence[tuple[Q, R]], write: Callable[[Q, R], Awaitable[None]], time: _RequestTime, done: str
) -> None:
    """Write the change of each topic, up to `TOGETHER_MAX` concurrently. A topic whose write has not ended in time gets
    REQUEST_TIMED_OUT. `done` names the change in the error message."""
    late = f"the topic was not {done} within the time limit of the request, or it is unknown whether it was"
    for _, result in pairs:
        result.error_code, result.error_message = ErrorCode.REQUEST_TIMED_OUT, late
    left = iter(pairs)

    async def work() -> None:
        for topic, result in left:
            await trio.lowlevel.checkpoint()
            await _record_error(result, write(topic, result))

    with trio.move_on_at(time.write_until):
        async with trio.open_nursery() as nursery:
            for _ in range(min(TOGETHER_MAX, len(pairs))):
                nursery.start_soon(work)


async def _wait_for_each(pairs: Sequence[tuple[Q, R]], wait: Callable[[Q, R], Awaitable[None]]) -> None:
    """Wait for each written change, one after the other. `wait` raises REQUEST_TIMED_OUT after the deadline of the
    request, but not for a change that is complete."""
    turns = Turns(20)
    for topic, result in pairs:
        if result.error_code == ErrorCode.NONE:
            await turns.step()
            await _record_error(result, wait(topic, result))


async def _record_error(
    result: CreatableTopicResult | CreatePartitionsTopicResult | DeletableTopicResult, act: Awaitable[None]
) -> None:
    try:
        await act
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.text
    else:
        result.error_code, result.error_message = ErrorCode.NONE, None


@frozen
class _RequestTime:
    """The time limit of one request, for all its topics together (`timeout_ms`).

    write_until   the end of the writes to the store, which have at least `WRITE_S`: Apache Kafka writes all topics
                  whatever the timeout, and clients use a timeout of 0 to not wait
    wait_until    the end of the wait for the controller
    """

    write_until: float
    wait_until: float

    @classmethod
    def of(cls, timeout_ms: int) -> _RequestTime:
        now = trio.current_time()
        wait_until = now + max(timeout_ms, 0) / 1000
        return cls(max(wait_until, now + WRITE_S), wait_until)

    @property
    def left_ms(self) -> int:
        """The milliseconds until `wait_until`, rounded up; 0 after it."""
        return max(math.ceil((self.wait_until - trio.current_time()) * 1000), 0)
