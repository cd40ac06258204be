"""`zab-broker consume`: what is damaged is said, and not printed."""

from __future__ import annotations

import pytest

from kraft_controller.cli.common import Failed
from kraft_controller.core.names import TopicPartition
from replica.cli.consume import Position, _records
from tests.unit.replica.storage.logs import numbered


def test_a_batch_that_does_not_fit_its_checksum_ends_the_command_behind_what_came_before_it() -> None:
    position = Position(TopicPartition("t", 0), 0, None)
    sound, rotten = numbered(0, 0, b"a", b"b"), bytearray(numbered(2, 0, b"cccc"))
    rotten[-3] ^= 1
    found = _records(position, sound + bytes(rotten))
    assert [(record.value, after) for _, record, after in found] == [(b"a", 1), (b"b", 2)]
    position.offset = 2
    with pytest.raises(Failed, match="t-0: the batch at offset 2 is damaged: "):
        _records(position, bytes(rotten))
