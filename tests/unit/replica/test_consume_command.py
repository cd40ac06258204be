"""`zab-broker consume`: what is damaged is said, and not printed."""

from __future__ import annotations

import pytest

from kraft_controller.core.names import TopicPartition
from replica.cli.consume_command import Position, _records
from tests.unit.replica.storage.logs import ALL, NOW, MemoryLog, numbered
from tests.unit.replica.storage.transactional import ABORT, COMMIT, Writers, end
from zab.cli.kit.failures import Failed


def test_damaged_batch_ends_the_command_after_the_records_before_it() -> None:
    position = Position(TopicPartition("t", 0), 0, None)
    sound, rotten = numbered(0, 0, b"a", b"b"), bytearray(numbered(2, 0, b"cccc"))
    rotten[-3] ^= 1
    found = _records(position, sound + bytes(rotten))
    assert [(record.value, after) for _, record, after in found] == [(b"a", 1), (b"b", 2)]
    position.offset = 2
    with pytest.raises(Failed, match="t-0: the batch at offset 2 is damaged: "):
        _records(position, bytes(rotten))


def test_read_committed_skips_only_aborted_records_of_a_producer() -> None:
    position = Position(TopicPartition("t", 0), 1, None)
    log, writers = MemoryLog(), Writers()
    writers.write(log, 7, "a", "b")
    log.append_as_leader(numbered(0, 0, b"plain"), 0, NOW)
    end(log, 7, ABORT)
    writers.write(log, 7, "c")
    end(log, 7, COMMIT)
    fetched = log.read(1, ALL, log.end_offset)
    aborted = [(each.first_offset, each.producer_id) for each in log.aborted_in(fetched)]
    found = _records(position, fetched.records, aborted)
    assert [(record.value, after) for _, record, after in found] == [(b"plain", 3), (b"c", 6)]
    everything = _records(position, fetched.records)
    assert [record.value for _, record, _ in everything] == [b"b", b"plain", b"c"]
