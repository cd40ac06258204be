"""Files beside a log that have rotted: what they say is looked after in the log before anything hangs on it."""

from __future__ import annotations

from struct import pack, unpack_from

import pytest

from replica.storage.config import LogConfig
from replica.storage.file_log import FileLog
from replica.storage.files import Handles
from replica.storage.memory_files import MemoryFiles
from replica.storage.recovery import Known, open_log
from tests.unit.replica.storage.logs import NOW, batch

DAY = 86_400_000


class Rotten:
    """A log that was closed in order, after which somebody changes one entry of an index of its first segment."""

    def __init__(self, *times: int) -> None:
        self.config = LogConfig.of({"segment.bytes": "1000", "index.interval.bytes": "0", "retention.ms": str(DAY)})
        self.files = MemoryFiles()
        self.files.make_folder("t-0")
        log = open_log("t-0", self.config, Handles(self.files), "t-0", Known())
        for time in times or tuple(NOW + at for at in range(30)):
            log.append_as_leader(batch(b"some value", time=time), 0, NOW)
        log.close()

    def opened(self) -> FileLog:
        return open_log("t-0", self.config, Handles(self.files), "t-0", Known(30))

    def entry(self, suffix: str, at: int) -> tuple[int, int]:
        form, size = (">qi", 12) if suffix == ".timeindex" else (">ii", 8)
        data = self.files.get(f"t-0/{0:020d}{suffix}")
        return unpack_from(form, data, at % (len(data) // size) * size)

    def put(self, suffix: str, at: int, *entry: int) -> None:
        form, size = (">qi", 12) if suffix == ".timeindex" else (">ii", 8)
        path = f"t-0/{0:020d}{suffix}"
        data = bytearray(self.files.get(path))
        begin = at % (len(data) // size) * size
        data[begin : begin + size] = pack(form, *entry)
        self.files.put(path, bytes(data))


@pytest.mark.parametrize("at", [-1, -2])
def test_what_an_index_says_of_a_time_deletes_nothing(at: int) -> None:
    """Its last time reads as if it were a hundred days older; also when those before it were lost with it."""
    rotten = Rotten()
    time, offset = rotten.entry(".timeindex", at)
    rotten.put(".timeindex", at, time - 100 * DAY, offset)
    if at == -2:
        path = f"t-0/{0:020d}.timeindex"
        rotten.files.put(path, rotten.files.get(path)[at * 12 : -12])
    log = rotten.opened()
    assert len(log.segments) > 2
    assert log.retire(NOW + DAY, log.end_offset) == 0
    assert log.start_offset == 0
    assert log.segments[0].greatest() == (NOW + log.segments[0].end - 1, log.segments[0].end - 1)


def test_what_an_index_has_lost_deletes_nothing() -> None:
    """Only an early entry is left, of old records: those behind it are new."""
    rotten = Rotten(NOW - 2 * DAY, *(NOW + at for at in range(29)))
    rotten.files.put(f"t-0/{0:020d}.timeindex", pack(">qi", NOW - 2 * DAY, 0))
    log = rotten.opened()
    assert log.segments[0].end > 1
    assert log.retire(NOW, log.end_offset) == 0


def test_what_is_old_by_its_batches_goes() -> None:
    rotten = Rotten()
    log = rotten.opened()
    closed, kept = len(log.segments) - 1, log.segments[-1].base
    assert log.retire(NOW + DAY + kept, log.end_offset) == closed
    assert log.start_offset == kept
