"""`FindCoordinator`: whom to ask about a group, or about a transactional id. The first one who asks causes the topic to
be made in which they are remembered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import trio
from attrs import define, field

from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.state import Endpoint
from replica.core.errors import ErrorCode, KafkaError
from replica.core.groups.partitioning import partition_of
from replica.runtime.logs import Log
from replica.runtime.requests import ApiKey, Handlers, Request
from replica.wire.schemas.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1


class Metadata(Protocol):
    """What is asked of the broker's picture of the cluster."""

    def leader(self, where: TopicPartition) -> BrokerId | None: ...
    def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None: ...


@define(eq=False)
class Remembering:
    """The topic that coordinators of one type live on.

    partitions   how many it has, None where there is none
    make         makes it; there may be one by then
    """

    topic: str
    partitions: Callable[[], Awaitable[int | None]]
    make: Callable[[], Awaitable[None]]
    log: Log
    _making: trio.Lock = field(factory=trio.Lock)

    async def count(self) -> int:
        """How many partitions it has. Where there is none, it is made; `KafkaError` until that is done."""
        async with self._making:  # one of those who ask is enough
            count = await self._look()
        if count is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic} is being made")
        return count

    async def _look(self) -> int | None:
        """What keeps the topic from being made, too few brokers say, may pass: clients come again."""
        topic = self.topic
        try:
            count = await self.partitions()
            if count is None:
                self.log.say("coordinators-topic-made", topic=topic)
                await self.make()
                count = await self.partitions()
        except KafkaError as error:
            self.log.warn_rate_limited("coordinators-topic-not-made", topic, topic=topic, why=error)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic}: {error.text}") from error
        return count


def handlers(metadata: Metadata, remembering: Mapping[int, Remembering]) -> Handlers:
    """`remembering`: by the type of the coordinator."""
    return {ApiKey.FIND_COORDINATOR: Coordinators(metadata, remembering).find}


@define(eq=False)
class Coordinators:
    metadata: Metadata
    remembering: Mapping[int, Remembering]

    async def find(self, request: Request[FindCoordinatorRequest]) -> FindCoordinatorResponse:
        body, kind = request.body, request.body.key_type
        if request.version >= 4:
            return FindCoordinatorResponse(
                coordinators=[await self._one(key, kind, request.listener) for key in body.coordinator_keys]
            )
        one = await self._one(body.key, kind, request.listener)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    async def _one(self, key: str, kind: int, listener: str) -> Coordinator:
        try:
            broker, endpoint = await self._find(key, kind, listener)
        except KafkaError as error:
            return Coordinator(key, node_id=-1, port=-1, error_code=error.code, error_message=error.text)
        return Coordinator(key, broker, endpoint.host, endpoint.port)

    async def _find(self, key: str, kind: int, listener: str) -> tuple[BrokerId, Endpoint]:
        remembering = self.remembering.get(kind)
        if remembering is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"coordinators of type {kind} are not served by this broker")
        where = TopicPartition(remembering.topic, partition_of(key, await remembering.count()))
        leader = self.metadata.leader(where)
        if leader is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{where} has no leader now, as far as is known here")
        endpoint = self.metadata.endpoint(leader, listener)
        if endpoint is None:
            text = f"broker {leader}, which leads {where}, has no listener {listener}"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        return leader, endpoint
