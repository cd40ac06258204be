"""Rotten index files: each entry is checked against the batches before anything depends on it."""

from __future__ import annotations

from struct import pack, unpack_from

import pytest

from replica.core.partitions.log_config import LogConfig
from replica.storage.files import DamagedLog, Handles
from replica.storage.log_loader import KnownOffsets, open_log
from replica.storage.memory_directory import memory_directory
from replica.storage.unified_log import UnifiedLog
from tests.unit.replica.storage.logs import ALL, NOW, batch, records_in

DAY, HOUR = 86_400_000, 3_600_000


class Rotten:
    """A log that was closed in order, after which somebody changes one entry of an index of its first segment."""

    def __init__(self, *times: int, segment: int = 1000, interval: int = 0) -> None:
        said = {"segment.bytes": str(segment), "index.interval.bytes": str(interval), "retention.ms": str(DAY)}
        self.config = LogConfig.of(said)
        self.files = memory_directory()
        self.files.make_folder("t-0")
        log = open_log("t-0", self.config, Handles(self.files), "t-0", KnownOffsets())
        for time in times or tuple(NOW + at for at in range(30)):
            log.append_as_leader(batch(b"some value", time=time), 0, NOW)
        log.close()

    def opened(self, point: int = 30) -> UnifiedLog:
        return open_log("t-0", self.config, Handles(self.files), "t-0", KnownOffsets(point))

    def entry(self, suffix: str, at: int) -> tuple[int, int]:
        form, size = (">qi", 12) if suffix == ".timeindex" else (">ii", 8)
        data = self.files.get(f"t-0/{0:020d}{suffix}")
        return unpack_from(form, data, at % (len(data) // size) * size)

    def keep(self, suffix: str, *kept: int) -> None:
        """Of the entries these."""
        entries = [self.entry(suffix, at) for at in kept]
        path = f"t-0/{0:020d}{suffix}"
        self.files.put(path, b"".join(pack(">qi" if suffix == ".timeindex" else ">ii", *each) for each in entries))

    def put(self, suffix: str, at: int, *entry: int) -> None:
        form, size = (">qi", 12) if suffix == ".timeindex" else (">ii", 8)
        path = f"t-0/{0:020d}{suffix}"
        data = bytearray(self.files.get(path))
        begin = at % (len(data) // size) * size
        data[begin : begin + size] = pack(form, *entry)
        self.files.put(path, bytes(data))


@pytest.mark.parametrize("at", [-1, -2])
def test_retention_ignores_wrong_times_of_index(at: int) -> None:
    """Its last time reads as if it were a hundred days older; also when those before it were lost with it."""
    rotten = Rotten()
    time, offset = rotten.entry(".timeindex", at)
    rotten.put(".timeindex", at, time - 100 * DAY, offset)
    if at == -2:
        path = f"t-0/{0:020d}.timeindex"
        rotten.files.put(path, rotten.files.get(path)[at * 12 : -12])
    log = rotten.opened()
    assert len(log.segments) > 2
    assert log.delete_old_segments(NOW + DAY, log.end_offset) == 0
    assert log.start_offset == 0
    assert log.segments[0].greatest() == (NOW + log.segments[0].end - 1, log.segments[0].end - 1)


def test_retention_ignores_lost_index_entries() -> None:
    """Only an early entry is left, of old records: those behind it are new."""
    rotten = Rotten(NOW - 2 * DAY, *(NOW + at for at in range(29)))
    rotten.files.put(f"t-0/{0:020d}.timeindex", pack(">qi", NOW - 2 * DAY, 0))
    log = rotten.opened()
    assert log.segments[0].end > 1
    assert log.delete_old_segments(NOW, log.end_offset) == 0


def test_retention_deletes_segments_old_by_their_batches() -> None:
    rotten = Rotten()
    log = rotten.opened()
    closed, kept = len(log.segments) - 1, log.segments[-1].base
    assert log.delete_old_segments(NOW + DAY + kept, log.end_offset) == closed
    assert log.start_offset == kept


# -- places that are wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "position"), [(0, 1), (-2, 0)])
def test_record_is_found_despite_wrong_index_position(offset: int, position: int) -> None:
    """The entry points into a batch, or says of a batch that it holds what stands before it."""
    rotten = Rotten()
    said, place = rotten.entry(".index", -1)
    rotten.keep(".index", 0, 1, -1)
    rotten.put(".index", -1, said + offset, place + position)
    log = rotten.opened()
    for wanted in range(log.segments[0].end):
        assert records_in(log, wanted)[0].offset == wanted
    assert log.damage is None


def test_read_ends_with_batch_despite_wrong_index_position() -> None:
    rotten = Rotten()
    _, place = rotten.entry(".index", 3)
    rotten.put(".index", 3, rotten.entry(".index", 3)[0], place + 1)
    log = rotten.opened()
    assert len(log.read(0, place + 10, log.end_offset).records) == place
    assert log.damage is None


def test_truncation_despite_wrong_index_position() -> None:
    rotten = Rotten()
    offset, place = rotten.entry(".index", 3)
    rotten.put(".index", 3, offset, place + 1)
    log = rotten.opened()
    log.truncate_to(offset + 1)
    assert log.end_offset == offset + 1
    assert [each.offset for each in records_in(log)] == list(range(log.end_offset))


def test_log_opens_despite_wrong_index_position() -> None:
    """In the midst of a batch, of which eight bytes read as an offset. What stands there was durable."""
    rotten = Rotten(segment=100_000)
    offset, place = rotten.entry(".index", 9)
    rotten.keep(".index", *range(10))
    rotten.put(".index", 9, offset, place + 21)
    log = rotten.opened(point=20)
    assert [each.offset for each in records_in(log)] == list(range(30))


def test_index_is_not_rebuilt_from_damaged_log() -> None:
    """The place is wrong and so is the log, further on: that is told, and what was there to be looked at is left."""
    rotten = Rotten()
    offset, place = rotten.entry(".index", 2)
    _, later = rotten.entry(".index", 5)
    rotten.put(".index", 2, offset, place + 1)
    data = bytearray(rotten.files.get(f"t-0/{0:020d}.log"))
    data[later + 16] = 9
    rotten.files.put(f"t-0/{0:020d}.log", bytes(data))
    before = rotten.files.get(f"t-0/{0:020d}.index"), rotten.files.get(f"t-0/{0:020d}.timeindex")
    log = rotten.opened()
    with pytest.raises(DamagedLog, match=f"is damaged at byte {later}: .* magic 9"):
        log.read(offset, ALL, log.end_offset)
    assert (rotten.files.get(f"t-0/{0:020d}.index"), rotten.files.get(f"t-0/{0:020d}.timeindex")) == before


# -- times that are wrong ----------------------------------------------------------------------------------


def found(log: UnifiedLog, time: int) -> int:
    answer = log.find_timestamp(time)
    assert answer is not None
    return answer.offset


def test_time_is_found_despite_wrong_index_entry() -> None:
    """An entry in the midst says of a batch that it is older than it is, so that those before it would be, too."""
    rotten = Rotten(interval=200)
    (earlier, before), (_, offset) = rotten.entry(".timeindex", 0), rotten.entry(".timeindex", 1)
    assert offset - before > 2, "or there is nothing in between"
    rotten.put(".timeindex", 1, earlier + 1, offset)
    log = rotten.opened()
    assert [found(log, NOW + at) for at in range(30)] == list(range(30))


def test_time_is_found_despite_wrong_maximum_in_index() -> None:
    rotten = Rotten(interval=200)
    time, offset = rotten.entry(".timeindex", -1)
    rotten.put(".timeindex", -1, time - 1, offset)
    log = rotten.opened()
    assert found(log, time) == offset
    assert log.segments[0].greatest() == (time, offset)


def test_time_is_found_despite_lost_index_entries() -> None:
    rotten = Rotten(interval=200)
    rotten.keep(".timeindex", 0)
    log = rotten.opened()
    assert [found(log, NOW + at) for at in range(30)] == list(range(30))


def test_greatest_timestamp_is_of_a_record() -> None:
    rotten = Rotten(interval=200)
    time, offset = rotten.entry(".timeindex", -1)
    rotten.put(".timeindex", -1, time + DAY, offset)
    answer = rotten.opened().greatest_timestamp()
    assert answer is not None
    assert (answer.timestamp, answer.offset) == (NOW + 29, 29)


def test_times_in_disorder_need_no_index_rebuild() -> None:
    """The latest stands first: the segment is believed to be as late as that, and its files are left alone."""
    rotten = Rotten(NOW + HOUR, *(NOW + at for at in range(29)))
    path = f"t-0/{0:020d}"
    before = rotten.files.get(f"{path}.timeindex"), rotten.files.get(f"{path}.index")
    log = rotten.opened()
    assert found(log, NOW + HOUR) == 0
    assert log.find_timestamp(NOW + HOUR + 1) is None
    assert log.segments[0].greatest() == (NOW + HOUR, 0)
    assert not log.segments[0].indexes_are_rebuilt
    assert (rotten.files.get(f"{path}.timeindex"), rotten.files.get(f"{path}.index")) == before
