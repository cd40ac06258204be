"""Records: read back byte for byte, and torn or corrupt by the documented rule alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.storage.model import batch, z
from zab.core.batch import Batch, pack
from zab.core.errors import DamagedError
from zab.core.zxid import COUNTER_MAX, NOTHING, Zxid, make
from zab.storage.disk import SECTOR
from zab.storage.segment import (
    END,
    FILE_HEAD,
    MARK,
    OVERHEAD,
    RECORD_HEAD,
    Segment,
    decode_segment,
    encode_record,
    encode_segment,
    scan,
)
from zab.storage.torn_tail import contradiction


def file_of(
    batches: list[Batch], previous: Zxid = NOTHING, *, groups: bool = True, room: int = 0
) -> tuple[Segment, bytes, list[int]]:
    """A log file with each batch in a group of its own, or all in one; and where each record begins."""
    segment, data = encode_segment(batches[0].first, previous, 0)
    offsets = []
    for each in batches:
        offsets.append(len(data))
        synced = len(data) if groups else FILE_HEAD
        data += b"".join(encode_record(each, previous, synced, len(data), segment.seed))
        previous = each.last
    return segment, data + bytes(room), offsets


payloads = st.lists(st.one_of(st.binary(max_size=30), st.sampled_from([b"", bytes(40), b"\xff" * 40, MARK + END])))
histories = st.lists(st.tuples(st.booleans(), payloads.filter(bool)), min_size=1, max_size=8)


def history_of(drawn: list[tuple[bool, list[bytes]]]) -> list[Batch]:
    batches: list[Batch] = []
    epoch, counter = 1, 1
    for new_epoch, each in drawn:
        if new_epoch:
            epoch, counter = epoch + 1, 1
        batches.append(pack(make(epoch, counter), each))
        counter += len(each)
    return batches


@given(histories, st.integers(0, 700))
def test_records_round_trip(drawn: list[tuple[bool, list[bytes]]], room: int) -> None:
    batches = history_of(drawn)
    segment, data, offsets = file_of(batches, room=room)
    found = scan(data, decode_segment(segment.name, data))
    assert found.batches == batches
    assert (found.trouble, found.last, found.last_at) == (None, batches[-1].last, offsets[-1])
    assert found.end == len(data) - room
    assert found.synced == offsets[-1]


@given(histories, st.data())
def test_scan_between_two_zxids_keeps_overlapping_batches(
    drawn: list[tuple[bool, list[bytes]]], data: st.DataObject
) -> None:
    batches = history_of(drawn)
    segment, content, _ = file_of(batches)
    zxids = [Zxid(each.first + index) for each in batches for index in range(each.count)]
    after = data.draw(st.sampled_from([NOTHING, *zxids]))
    until = data.draw(st.sampled_from(zxids))
    found = scan(content, segment, after=after, until=until)
    wanted = [each for each in batches if each.last > after and each.first <= until]
    if after < until:
        assert found.batches == wanted
    ends: dict[int, Zxid] = {}
    for zxid in zxids:
        if zxid <= after and zxid <= found.last:
            ends[zxid >> 32] = zxid
    assert found.epoch_ends == list(ends.values())


def test_file_with_another_name_than_its_content() -> None:
    segment, data, _ = file_of([batch("1/5", b"a")], z("1/4"))
    assert decode_segment("log.100000005", data) == segment
    with pytest.raises(DamagedError, match=r"log.6: offset 0: the header says that this is log.100000005"):
        decode_segment("log.6", data)
    with pytest.raises(DamagedError, match="shorter than its header"):
        decode_segment("log.100000005", data[:20])
    _, allocated = encode_segment(z("1/5"), z("1/4"), 5000)
    with pytest.raises(DamagedError, match="38 bytes, but 5000 were allocated: the end was cut off"):
        decode_segment("log.100000005", allocated)
    for offset in range(FILE_HEAD):
        broken = bytearray(data)
        broken[offset] ^= 0x80
        with pytest.raises(DamagedError):
            decode_segment("log.100000005", bytes(broken))


def test_a_sound_record_in_the_wrong_place_is_none() -> None:
    batches = [batch("1/1", b"aaaa"), batch("1/2", b"bbbb"), batch("1/3", b"cccc")]
    segment, data, offsets = file_of(batches)
    size = offsets[1] - offsets[0]
    one, two, three = (data[at : at + size] for at in offsets)
    for order in ([two, one, three], [one, three], [one, one, two], [one, two, two], [one, three, two]):
        found = scan(data[:FILE_HEAD] + b"".join(order), segment)
        assert found.trouble is not None
        assert found.batches == batches[: len(found.batches)]


def test_a_sound_record_of_another_history_is_misplaced() -> None:
    """The record is in its place but after another history: no crash leaves that."""
    segment, data, offsets = file_of([batch("1/1", b"a"), batch("1/2", b"b")])
    for first in ("1/4", "2/1"):  # the numbers of a new epoch fit behind anything: only its `previous` tells
        stranger = b"".join(encode_record(batch(first, b"c"), z("1/3"), 0, len(data), segment.seed))
        found = scan(data + stranger, segment)
        assert found.misplaced
        assert found.trouble == "a sound record that should follow 1/3, but comes after 1/2"
        assert found.end == offsets[1] + OVERHEAD + len(batch("1/2", b"b").body)


@pytest.mark.parametrize(
    ("wrong", "previous"),
    [
        (Batch(make(1, 3), 1, b"\x90"), make(1, 1)),  # a hole
        (Batch(make(1, 1), 1, b"\x90"), make(1, 1)),  # the same again
        (Batch(make(2, 2), 1, b"\x90"), make(1, 1)),  # a new epoch, not from its beginning
        (Batch(make(1, 2), 0, b"\x90"), make(1, 1)),  # nothing
        (Batch(make(1, 2), COUNTER_MAX, b"\x90"), make(1, 1)),  # more than an epoch has numbers for
        (Batch(make(1, 2), 2, b"\x90", config=True), make(1, 1)),  # a membership change is alone
    ],
)
def test_record_beyond_the_limits_is_misplaced(wrong: Batch, previous: Zxid) -> None:
    segment, data, _ = file_of([batch("1/1", b"a")])
    data += b"".join(encode_record(wrong, previous, FILE_HEAD, len(data), segment.seed))
    assert scan(data, segment).misplaced


def test_a_damaged_body_below_the_snapshot_is_skipped() -> None:
    segment, data, offsets = file_of([batch("1/1", b"a"), batch("1/2", b"b", b"c"), batch("1/4", b"d")])
    broken = bytearray(data)
    broken[offsets[1] + RECORD_HEAD] ^= 1
    found = scan(bytes(broken), segment, after=z("1/3"))
    assert (found.trouble, found.skipped) == (None, [(offsets[1], z("1/3"))])
    assert [each.first for each in found.batches] == [z("1/4")]
    found = scan(bytes(broken), segment, after=z("1/2"))
    assert (found.trouble, found.last) == ("the checksum of the record at 1/2 is wrong", z("1/1"))


# -- torn or corrupt -----------------------------------------------------------------------------------

LONG = [batch("1/1", b"a" * 100), batch("1/2", b"b" * 1500), batch("1/3", b"c" * 600), batch("1/4", b"d" * 20)]


def verdict(segment: Segment, data: bytes) -> str:
    """Return the verdict on a file, with all records in its last group or not."""
    found = scan(data, segment)
    if found.trouble is None:
        return "clean"
    if found.misplaced or contradiction(data, segment, found.end, found.last) is not None:
        return "corrupt"
    return "torn"


def test_every_way_to_lose_sectors_of_the_last_group_is_torn() -> None:
    segment, data, offsets = file_of(LONG, groups=False)
    first = FILE_HEAD // SECTOR
    sectors = range(first, len(data) // SECTOR + 1)
    for lost in range(1, 1 << len(sectors)):
        content = bytearray(data)
        for index, sector in enumerate(sectors):
            if lost >> index & 1:
                start, stop = max(offsets[0], sector * SECTOR), min(len(data), (sector + 1) * SECTOR)
                content[start:stop] = bytes(stop - start)
        for whole in (bytes(content), bytes(content) + bytes(3000), bytes(content).rstrip(b"\0")):
            assert verdict(segment, whole) in ("torn", "clean"), f"sectors {lost:b}"
            batches = scan(whole, segment).batches
            assert batches == LONG[: len(batches)]


def test_every_prefix_of_the_last_group_is_torn() -> None:
    segment, data, offsets = file_of(LONG, groups=False)
    for length in range(offsets[0], len(data)):
        for room in (0, 3000):
            cut = data[:length] + bytes(room)
            assert verdict(segment, cut) == ("clean" if length in offsets else "torn"), f"cut to {length}"


def test_record_lost_from_an_earlier_group_is_corrupt() -> None:
    """The losses are the same, but the last record proves that everything before it was durable."""
    segment, data, offsets = file_of(LONG)
    for sector in range(offsets[3] // SECTOR):
        content = bytearray(data)
        start, stop = max(offsets[0], sector * SECTOR), (sector + 1) * SECTOR
        content[start:stop] = bytes(stop - start)
        assert verdict(segment, bytes(content)) == "corrupt"


def test_a_record_written_to_its_end_is_not_torn() -> None:
    segment, data, offsets = file_of(LONG, groups=False)
    for offset in range(offsets[0], len(data)):
        for change in (0x01, 0x80):
            broken = bytearray(data)
            broken[offset] ^= change
            assert verdict(segment, bytes(broken)) == "corrupt", f"byte {offset}"
            assert verdict(segment, bytes(broken) + bytes(2000)) == "corrupt", f"byte {offset}"


def test_the_one_ambiguity() -> None:
    """A sector of zeros in the very last group, and damage beside it: taken for torn, and the docs say so."""
    segment, data, offsets = file_of([batch("1/1", b"a"), batch("1/2", bytes(3 * SECTOR), b"b" * 60)])
    broken = bytearray(data)
    broken[-30] ^= 1
    assert verdict(segment, bytes(broken)) == "torn"
    witnessed = data + b"".join(encode_record(batch("1/4", b"c"), z("1/3"), len(data), len(data), segment.seed))
    assert verdict(segment, witnessed) == "clean"
    broken = bytearray(witnessed)
    broken[offsets[1] + 200] ^= 1
    assert verdict(segment, bytes(broken)) == "corrupt"
