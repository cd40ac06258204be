"""FindCoordinator with many keys: what one request may cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft_controller.core.names import OFFSETS_TOPIC, BrokerId, TopicPartition
from kraft_controller.core.state import Endpoint
from replica.core.errors import ErrorCode, KafkaError
from replica.core.groups.partitioning import partition_of
from replica.runtime.handlers.coordinator_requests import (
    GROUP,
    KEYS_AT_ONCE,
    CoordinatorLookup,
    CoordinatorTopicLookup,
)
from replica.runtime.logs import Log
from replica.runtime.requests import ApiKey, Request
from replica.wire.schemas.group_schemas import FindCoordinatorRequest, FindCoordinatorResponse

PARTITIONS = 50


class Metadata:
    """Broker n leads partition n."""

    def leader(self, where: TopicPartition) -> BrokerId | None:
        return BrokerId(where.partition)

    def endpoint(self, broker: BrokerId, listener: str) -> Endpoint | None:
        return Endpoint(listener, f"h{broker}", 9092)


async def find(
    keys: list[str], count: Callable[[], Awaitable[int | None]], version: int = 4
) -> FindCoordinatorResponse:
    async def make() -> None:
        raise AssertionError

    topic = CoordinatorTopicLookup(OFFSETS_TOPIC, count, make, Log(1))
    body = FindCoordinatorRequest(key=keys[0], key_type=GROUP, coordinator_keys=keys)
    request = Request(ApiKey.FIND_COORDINATOR, version, 1, "client", body, "PLAINTEXT")
    return await CoordinatorLookup(Metadata(), {GROUP: topic}).find(request)


async def test_partitions_are_counted_once_for_many_keys() -> None:
    reads = 0

    async def count() -> int:
        nonlocal reads
        reads += 1
        return PARTITIONS

    keys = [f"group-{number}" for number in range(3 * KEYS_AT_ONCE + 1)]
    found = (await find(keys, count)).coordinators
    assert [each.key for each in found] == keys
    assert all(each.node_id == partition_of(each.key, PARTITIONS) for each in found)
    assert reads == 4
    assert (await find(keys[:1], count, version=3)).node_id == found[0].node_id


async def test_failed_count_fails_all_keys_after_one_attempt() -> None:
    attempts = 0

    async def count() -> int:
        nonlocal attempts
        attempts += 1
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the store did not answer")

    keys = [f"group-{number}" for number in range(2 * KEYS_AT_ONCE)]
    found = (await find(keys, count)).coordinators
    assert [each.key for each in found] == keys
    assert {each.error_code for each in found} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert attempts == 1
