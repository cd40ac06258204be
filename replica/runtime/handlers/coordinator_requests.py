"""`FindCoordinator`: find the broker that coordinates a group or a transactional id.

The coordinator is the leader of the internal topic's partition that stores the group or the transactional id. The
first lookup creates the topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

import trio
from attrs import define, field

from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.state import Endpoint
from replica.core.errors import ErrorCode, KafkaError
from replica.core.groups.partitioning import partition_of
from replica.runtime.logs import Log
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.wire.schemas.group_schemas import (
    FIND_COORDINATOR,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP: Final = 0
TRANSACTION: Final = 1
KEYS_AT_ONCE: Final = 256
"""The number of keys of one request that are looked up before other tasks run."""


class LeaderLookup(Protocol):
    """The part of the metadata cache that coordinator lookups use."""

    def leader(self, where: TopicPartition) -> BrokerId | None: ...
    def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None: ...


@define(eq=False)
class CoordinatorTopicLookup:
    """The internal topic of one type of coordinator, created by the first lookup.

    partitions   returns the number of its partitions; None if the topic does not exist
    make         creates the topic, unless it exists
    """

    topic: str
    partitions: Callable[[], Awaitable[int | None]]
    make: Callable[[], Awaitable[None]]
    log: Log
    _creation: trio.Lock = field(factory=trio.Lock)

    async def count(self) -> int:
        """Return the number of partitions. Create the topic if it is missing. Raise `KafkaError` on an error, or if the
        topic is still missing afterwards."""
        async with self._creation:  # only one lookup at a time creates the topic
            count = await self._create_if_missing()
        if count is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic} is being created")
        return count

    async def _create_if_missing(self) -> int | None:
        """Create the topic if it is missing. Return the number of its partitions; None if it is still missing. All
        errors are reported as retriable, since the cause may be temporary."""
        topic = self.topic
        try:
            count = await self.partitions()
            if count is None:
                self.log.say("coordinator_topic_created", topic=topic)
                await self.make()
                count = await self.partitions()
        except KafkaError as error:
            self.log.warn_rate_limited("coordinator_topic_creation_failed", topic, topic=topic, why=error)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic}: {error.text}") from error
        return count


def handlers(metadata: LeaderLookup, topics: Mapping[int, CoordinatorTopicLookup]) -> Handlers:
    """Return the handlers. `topics`: the internal topic for each coordinator type."""
    return handler_table(handles(FIND_COORDINATOR, CoordinatorLookup(metadata, topics).find))


@define(eq=False)
class CoordinatorLookup:
    metadata: LeaderLookup
    topics: Mapping[int, CoordinatorTopicLookup]

    async def find(self, request: Request[FindCoordinatorRequest]) -> FindCoordinatorResponse:
        body, kind = request.body, request.body.key_type
        if request.version >= 4:
            return FindCoordinatorResponse(coordinators=await self._all(body.coordinator_keys, kind, request.listener))
        [one] = await self._all([body.key], kind, request.listener)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    async def _all(self, keys: Sequence[str], kind: int, listener: str) -> list[Coordinator]:
        """Look up all keys. Read the number of partitions once for every `KEYS_AT_ONCE` keys, not for every key: each
        read lets other tasks run, which costs a pass of the event loop."""
        found: list[Coordinator] = []
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE]
            try:
                topic = self._topic(kind)
                count = await topic.count()
            except KafkaError as error:
                return found + [_failed(key, error) for key in keys[start:]]
            found.extend(self._one(key, topic.topic, count, listener) for key in some)
        return found

    def _topic(self, kind: int) -> CoordinatorTopicLookup:
        topic = self.topics.get(kind)
        if topic is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"unsupported coordinator type {kind}: use 0 (group) or 1 (transaction)"
            )
        return topic

    def _one(self, key: str, topic: str, partitions: int, listener: str) -> Coordinator:
        try:
            broker, endpoint = self._find(TopicPartition(topic, partition_of(key, partitions)), listener)
        except KafkaError as error:
            return _failed(key, error)
        return Coordinator(key, broker, endpoint.host, endpoint.port)

    def _find(self, where: TopicPartition, listener: str) -> tuple[BrokerId, Endpoint]:
        leader = self.metadata.leader(where)
        if leader is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{where} has no live leader")
        endpoint = self.metadata.endpoint(leader, listener)
        if endpoint is None:
            text = f"broker {leader}, the leader of {where}, has no listener {listener}"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        return leader, endpoint


def _failed(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(key, node_id=-1, port=-1, error_code=error.code, error_message=error.text)
