"""How a key finds its partition: as with every other client, or a key's records would stand in two partitions."""

from __future__ import annotations

import pytest

from replica.cli.produce_command import murmur2


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
