"""The partition of a key, which is the same for all clients, and the report of a run that failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from replica.cli.produce_command import Producer, murmur2
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import ClientSettings
from replica.wire.compression import Codec


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_others(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFF_FFFF


class FailingClient:
    """Acknowledges some batches, and fails then."""

    settings = ClientSettings()

    def __init__(self, acknowledged: int) -> None:
        self._left = acknowledged

    async def patiently(self, act: Callable[[], Awaitable[Any]]) -> None:
        if not self._left:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "t-1")
        self._left -= 1


@pytest.mark.parametrize(
    ("acknowledged", "text"),
    [
        (0, "0 records written to t; stopped at line 1 of the input"),
        (1, "2 records written to t; stopped at line 2 of the input, with 1 of the later lines written"),
        (2, "4 records written to t; stopped at line 5 of the input"),
        (3, "6 records written to t; stopped at line 6 of the input, with 1 of the later lines written"),
        (4, "8 records written to t; stopped at line 9 of the input"),
    ],
)
async def test_report_of_a_failed_run_counts_acknowledged_records(acknowledged: int, text: str) -> None:
    """The keys alternate between two partitions, with a batch for each in every chunk of four lines."""
    keys = [b"a", b"b"]
    assert [(murmur2(key) & 0x7FFF_FFFF) % 3 for key in keys] == [1, 2]
    producer = Producer(cast(Client, FailingClient(acknowledged)), "t", "all", Codec.NONE)
    producer._partitions = [0, 1, 2]
    with pytest.raises(KafkaError):
        for _ in range(3):
            await producer.send([(key, b"value") for key in (*keys, *keys)])
    assert producer.stopped() == text
