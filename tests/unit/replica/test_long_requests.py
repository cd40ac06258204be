"""The requests whose lists are so long that other tasks run between their steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replica.runtime.network.connection_shell import has_long_lists
from replica.wire.api import ApiKey
from replica.wire.schemas.data_schemas import PartitionProduceData, ProduceRequest, TopicProduceData

LONG_FRAME = bytes(1 << 20)


def produce(partitions: int) -> Any:
    data = [PartitionProduceData(index=number, records=b"") for number in range(partitions)]
    body = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    return SimpleNamespace(api=ApiKey.PRODUCE, body=body)


@pytest.mark.parametrize(("partitions", "is_long"), [(1, False), (100, False), (101, True)])
def test_produce_request_is_long_by_its_partitions_and_not_by_its_records(partitions: int, is_long: bool) -> None:
    assert has_long_lists(produce(partitions), LONG_FRAME) is is_long


def test_any_other_request_is_long_by_its_bytes() -> None:
    request: Any = SimpleNamespace(api=ApiKey.METADATA, body=None)
    assert has_long_lists(request, LONG_FRAME)
    assert not has_long_lists(request, LONG_FRAME[: 16 << 10])
