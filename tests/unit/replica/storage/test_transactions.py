"""A read_committed consumer sees all of a transaction or nothing of it, whatever happens to the log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.partition_log import AbortedTxn, AppendOrigin
from replica.storage.compaction import emptied
from replica.storage.files import Handles
from replica.storage.log_cleaner import clean, examine_log
from replica.storage.log_loader import KnownOffsets, open_log
from replica.storage.memory_directory import memory_directory
from replica.storage.transaction_index import decode, decode_sound, encode
from replica.storage.unified_log import UnifiedLog
from replica.wire.batch import CONTROL, TRANSACTIONAL, parse_header, stamp, walk
from replica.wire.records import Record, batch_of, build, control_batch
from tests.unit.replica.storage.logs import ALL, NOW, MemoryLog, batch, list_log, of_producer, values_in
from tests.unit.replica.storage.transactional import (
    ABORT,
    COMMIT,
    Disk,
    Writers,
    aborted,
    committed,
    end,
    in_transaction,
)


@pytest.fixture(params=["files", "list"])
def log(request: pytest.FixtureRequest) -> UnifiedLog:
    return Disk().log if request.param == "files" else list_log("t-0", Disk().config)


def code_of(caught: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return caught.value.code


# -- all or nothing --------------------------------------------------------------------------------------


def test_open_transaction_hides_itself_and_later_records(log: UnifiedLog) -> None:
    writers = Writers()
    log.append_as_leader(batch(b"before"), 0, NOW)
    writers.write(log, 7, "a", "b")
    log.append_as_leader(batch(b"behind"), 0, NOW)
    assert log.last_stable_offset(log.end_offset) == 1
    assert committed(log) == ["before"]
    end(log, 7, COMMIT)
    assert committed(log) == ["before", "a", "b", "behind"]


def test_only_aborted_records_of_producer_are_skipped(log: UnifiedLog) -> None:
    writers = Writers()
    writers.write(log, 7, "one")
    end(log, 7, COMMIT)
    writers.write(log, 7, "two")
    writers.write(log, 8, "other")
    writers.write(log, 7, "two again")
    end(log, 7, ABORT)
    end(log, 8, COMMIT)
    writers.write(log, 7, "three")
    end(log, 7, COMMIT)
    for step in (1, 100, 200, ALL):  # also when the answer begins in the midst of it
        assert committed(log, step=step) == ["one", "other", "three"]
    assert aborted(log) == [(7, 2, 5)]
    assert committed(log, since=4, step=1) == ["three"]


def test_oldest_open_transaction_holds_back_later_ones(log: UnifiedLog) -> None:
    writers = Writers()
    writers.write(log, 1, "slow")
    for producer in (2, 3):
        writers.write(log, producer, f"{producer}")
        end(log, producer, COMMIT if producer == 2 else ABORT)
    assert (log.last_stable_offset(log.end_offset), committed(log)) == (0, [])
    end(log, 1, ABORT)
    assert log.last_stable_offset(log.end_offset) == log.end_offset
    assert committed(log) == ["2"]
    assert [entry.stable_offset for entry in log._aborted(0, ALL)] == [0, 6]


def test_uncommitted_marker_decides_nothing(log: UnifiedLog) -> None:
    """A leader that is elected without it would have the transaction open again."""
    Writers().write(log, 7, "a", "b")
    marker = end(log, 7, COMMIT)
    assert log.last_stable_offset(marker) == 0
    assert committed(log, marker) == []
    assert log.last_stable_offset(marker + 1) == marker + 1
    log.on_high_watermark_updated(marker)
    assert log.last_stable_offset(marker) == 0
    log.on_high_watermark_updated(marker + 1)
    assert committed(log, marker + 1) == ["a", "b"]


def test_marker_without_transaction_completes_nothing(log: UnifiedLog) -> None:
    writers = Writers()
    end(log, 7, ABORT)
    writers.write(log, 7, "a")
    for _ in range(3):
        end(log, 7, COMMIT)
    end(log, 7, ABORT)
    assert aborted(log) == []
    assert committed(log) == ["a"]


# -- who may write ---------------------------------------------------------------------------------------


def test_fenced_producer_cannot_write(log: UnifiedLog) -> None:
    writers = Writers()
    writers.write(log, 7, "zombie")
    end(log, 7, ABORT, epoch=1)
    for data in (in_transaction(7, 1, b"late"), of_producer(7, 1, b"late")):
        with pytest.raises(KafkaError, match="epoch 0 of producer 7 is fenced by epoch 1") as caught:
            log.append_as_leader(data, 0, NOW)
        assert code_of(caught) is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(in_transaction(7, -1, b"position"), 0, NOW, origin=AppendOrigin.COORDINATOR)
    assert code_of(caught) is ErrorCode.INVALID_PRODUCER_EPOCH
    writers.write(log, 7, "again", epoch=1)
    end(log, 7, COMMIT, epoch=1)
    assert committed(log) == ["again"]


def test_fenced_coordinator_cannot_complete_transaction(log: UnifiedLog) -> None:
    writers = Writers()
    writers.write(log, 7, "a")
    end(log, 7, COMMIT, coordinator=5)
    writers.write(log, 7, "b")
    at = log.end_offset
    with pytest.raises(KafkaError, match="epoch 5 has already written a marker") as caught:
        end(log, 7, ABORT, coordinator=4)
    assert code_of(caught) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(KafkaError) as caught:
        end(log, 7, ABORT, epoch=-1, coordinator=5)
    assert code_of(caught) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.end_offset == at, "what is refused is not written"
    end(log, 7, COMMIT, coordinator=5)
    assert committed(log) == ["a", "b"]


def test_producer_with_open_transaction_cannot_write_outside_it(log: UnifiedLog) -> None:
    Writers().write(log, 7, "a")
    with pytest.raises(KafkaError, match="open since offset 0") as caught:
        log.append_as_leader(of_producer(7, 1, b"beside"), 0, NOW)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE
    again = log.append_as_leader(in_transaction(7, 0, b"a"), 0, NOW)
    assert again.duplicate, "what is sent twice is told first"


def test_coordinator_writes_for_producer_without_sequences(log: UnifiedLog) -> None:
    for value in (b"one", b"two"):
        log.append_as_leader(in_transaction(7, -1, value, key=b"k"), 0, NOW, origin=AppendOrigin.COORDINATOR)
    assert committed(log) == []
    end(log, 7, ABORT)
    assert committed(log) == []
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(in_transaction(7, -1, b"of a client"), 0, NOW)
    assert code_of(caught) is ErrorCode.INVALID_RECORD


def test_active_producers_are_described(log: UnifiedLog) -> None:
    writers = Writers()
    log.append_as_leader(of_producer(9, 4, b"plain"), 0, NOW)
    writers.write(log, 7, "a", "b")
    writers.write(log, 8, "c")
    end(log, 8, COMMIT, coordinator=3)
    told = [
        (each.producer_id, each.epoch, each.last_sequence, each.coordinator_epoch, each.txn_start)
        for each in log.active_producers()
    ]
    assert told == [(7, 0, 1, -1, 1), (8, 0, 0, 3, -1), (9, 0, 4, -1, -1)]


# -- followers, cuts, and what goes ------------------------------------------------------------------------


def test_follower_has_producer_state_of_leader(log: UnifiedLog) -> None:
    writers, leader = Writers(), MemoryLog()
    for producer, kind in ((1, COMMIT), (2, ABORT), (3, None)):
        writers.write(leader, producer, f"{producer}")
        if kind is not None:
            end(leader, producer, kind)
    log.append_as_follower(leader.read(0, ALL, leader.end_offset).records)
    assert log.producers == leader.producers
    assert aborted(log) == aborted(leader) == [(2, 2, 3)]
    assert committed(log) == committed(leader) == ["1"]


def test_follower_stores_nothing_of_batches_with_a_marker_that_is_too_short(log: UnifiedLog) -> None:
    record = Record(1, NOW, b"", b"")
    marker = build([record], producer_id=7, producer_epoch=0, flags=TRANSACTIONAL | CONTROL)
    with pytest.raises(KafkaError, match="the control record at offset 1 is too short"):
        log.append_as_follower(_numbered(in_transaction(7, 0, b"a"), 0) + _numbered(marker, 1))
    assert log.end_offset == 0
    assert not log.half_changed
    assert len(log.producers) == 0


def test_truncated_marker_reopens_transaction(log: UnifiedLog) -> None:
    writers = Writers()
    writers.write(log, 7, "a")
    writers.write(log, 8, "b")
    end(log, 8, ABORT)
    marker = end(log, 7, ABORT)
    log.append_as_leader(batch(b"more"), 0, NOW)
    assert committed(log) == ["more"]
    log.truncate_to(marker)
    assert (log.last_stable_offset(log.end_offset), committed(log)) == (0, [])
    assert aborted(log, 1) == []
    end(log, 7, COMMIT)
    assert committed(log) == ["a"]
    assert aborted(log) == [(8, 1, 2)]
    log.truncate_to(1)
    end(log, 7, COMMIT)
    assert (committed(log), aborted(log)) == (["a"], [])


def test_restarted_log_has_no_transactions(log: UnifiedLog) -> None:
    writers = Writers()
    writers.write(log, 7, "a")
    end(log, 7, ABORT)
    writers.write(log, 7, "b")
    log.truncate_fully_and_start_at(100)
    assert (log.last_stable_offset(100), log.active_producers(), log._aborted(100, ALL)) == (100, (), [])
    log.append_as_leader(batch(b"new"), 0, NOW)
    assert committed(log) == ["new"]


def test_open_transaction_does_not_stop_delete_records(log: UnifiedLog) -> None:
    """What is left of it is held back, from where the log begins now."""
    writers = Writers()
    writers.write(log, 7, "a", "b", "c")
    log.append_as_leader(batch(b"x"), 0, NOW)
    log.increment_start_offset(2)
    assert log.last_stable_offset(log.end_offset) == 2
    assert committed(log) == []
    log.increment_start_offset(4)
    assert log.last_stable_offset(log.end_offset) == 4
    log.append_as_leader(batch(b"y"), 0, NOW)
    assert committed(log) == []
    end(log, 7, ABORT)
    assert committed(log) == ["y"]


# -- in files ----------------------------------------------------------------------------------------------


def many(disk: Disk, count: int = 12) -> list[str]:
    """Transactions over several segments, every third one aborted; what there is to read."""
    writers, shown = disk.writers, []
    for number in range(count):
        writers.write(disk.log, 1 + number % 4, f"{number}-a")
        writers.write(disk.log, 1 + number % 4, f"{number}-b")
        kind = ABORT if number % 3 == 0 else COMMIT
        end(disk.log, 1 + number % 4, kind)
        shown += [f"{number}-a", f"{number}-b"] if kind is COMMIT else []
    assert len(disk.log.segments) > 4
    return shown


def test_layout_of_transaction_index() -> None:
    disk = Disk(segment_bytes="100000")
    Writers().write(disk.log, 7, "a", "b")
    Writers().write(disk.log, 8, "c")
    end(disk.log, 7, ABORT)
    assert disk.files.get("t-0/00000000000000000000.txnindex").hex() == (
        "0000"  # version
        "0000000000000007"  # producer id
        "0000000000000000"  # first offset
        "0000000000000003"  # last offset: of the end
        "0000000000000002"  # last stable offset: 8 began there, and is open
    )


def test_damaged_index_is_refused_and_decoded_up_to_damage() -> None:
    entries = [AbortedTxn(7, 0, 3, 2), AbortedTxn(8, 2, 9, 10), AbortedTxn(7, 5, 12, 13)]
    data = encode(entries)
    assert decode(data) == entries
    for size in range(len(data)):
        assert decode_sound(data[:size]) == entries[: size // 34]
        if size % 34:
            with pytest.raises(ValueError, match="entries are valid"):
                decode(data[:size])
    for wrong in (AbortedTxn(7, 5, 9, 13), AbortedTxn(7, 5, 5, 13), AbortedTxn(-1, 5, 12, 13)):
        with pytest.raises(ValueError, match="only the first 2"):
            decode(encode([*entries[:2], wrong]))
    assert decode_sound(data[:68] + bytes(34)) == entries[:2]


@pytest.mark.parametrize("ending", ["closed", "killed", "flushed and killed", "flushed in the midst"])
def test_restart_finds_open_and_aborted_transactions(ending: str) -> None:
    disk = Disk()
    shown = many(disk)
    if ending == "flushed in the midst":
        disk.flush()
        shown += many(disk)
    Writers().write(disk.log, 9, "open")
    start = disk.log.end_offset - 1
    before = aborted(disk.log)
    if ending == "flushed and killed":
        disk.flush()
    log = disk.closed() if ending == "closed" else disk.killed()
    assert log.last_stable_offset(log.end_offset) == start
    assert (committed(log), aborted(log)) == (shown, before)
    end(log, 9, ABORT)
    assert committed(log) == shown
    assert aborted(log) == [*before, (9, start, start + 1)]


@pytest.mark.parametrize("what", ["gone", "cut", "noise"])
@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_lost_transaction_index_is_rebuilt(what: str, ending: str) -> None:
    disk = Disk()
    shown = many(disk)
    before = aborted(disk.log)
    disk.log.close() if ending == "closed" else disk.flush()
    disk.checkpoint()
    disk.log.abandon()
    assert len(disk.lists()) == len(disk.log.segments)
    for name in disk.lists():
        content = disk.files.get(f"t-0/{name}")
        if what == "gone":
            disk.files.delete(f"t-0/{name}")
        else:
            disk.files.put(f"t-0/{name}", content[:-5] if what == "cut" and content else content + b"\xff" * 40)
    log = disk.open()
    assert (committed(log), aborted(log)) == (shown, before)
    assert bool(disk.notes) == (what == "gone")
    again = disk.closed()
    assert disk.notes == []
    assert aborted(again) == before


def test_entry_made_up_by_lost_power_is_removed() -> None:
    """Of one that lay across two sectors one may be left, and what stood there before."""
    disk = Disk(segment_bytes="10000")
    writers = disk.writers
    for kind in (ABORT, COMMIT, COMMIT):
        writers.write(disk.log, 7, "x")
        writers.write(disk.log, 7, "y")
        end(disk.log, 7, kind)
    disk.flush()
    before, shown = aborted(disk.log), committed(disk.log)
    disk.log.abandon()
    path = "t-0/00000000000000000000.txnindex"
    torn = [AbortedTxn(7, 3, 7, 0), AbortedTxn(9, 6, 8, 0)]
    disk.files.put(path, disk.files.get(path) + encode(torn))
    assert (aborted(disk.open()), committed(disk.log)) == (before, shown)


def test_transaction_index_is_deleted_with_its_segment() -> None:
    disk = Disk(retention_bytes="0")
    shown = many(disk)
    log = disk.log
    assert log.delete_old_segments(NOW, log.end_offset) > 3
    log.delete_due_files(NOW + 1)
    assert disk.lists() == [], "one that is new and has nothing in it has none yet"
    assert committed(log) == []
    assert many(disk) == shown
    log.truncate_to(log.start_offset)
    assert len(disk.lists()) <= 1
    assert aborted(log) == []


def test_retention_takes_beginning_of_open_transaction() -> None:
    disk = Disk(retention_bytes="0")
    writers = Writers()
    writers.write(disk.log, 7, "first")
    for number in range(12):
        disk.log.append_as_leader(batch(b"%d" % number), 0, NOW)
    writers.write(disk.log, 7, "last")
    disk.log.delete_old_segments(NOW, 8)
    start = disk.log.start_offset
    assert 0 < start <= 8
    for _ in range(2):
        log = disk.log
        assert log.last_stable_offset(log.end_offset) == start
        assert committed(log) == []
        disk.closed()
    end(disk.log, 7, ABORT)
    assert committed(disk.log) == [f"{number}" for number in range(start - 1, 12)]


def test_lost_power_shows_no_aborted_record() -> None:
    for seed in range(60):
        disk = Disk()
        chance = Random(seed)
        shown = many(disk)
        disk.flush()
        shown += many(disk, 3 + seed % 12)
        if seed % 3 == 0:
            disk.log.truncate_to(disk.log.end_offset - chance.randrange(10))
            writers = Writers({(5, 0): 0})
            writers.write(disk.log, 5, "never")
            end(disk.log, 5, ABORT)
        disk.log.abandon()
        disk.files.crash(chance.randrange)
        log = disk.open()
        left = committed(log)
        assert left == shown[: len(left)], f"seed {seed}"
        known = [tuple(entry[:3]) for segment in log.segments for entry in segment.aborted]
        fresh = MemoryLog()
        fresh.append_as_follower(log.read(0, ALL, log.end_offset).records)
        assert known == [tuple(entry[:3]) for entry in fresh._aborted(0, ALL)], f"seed {seed}"


def test_cleaning_merges_transaction_indexes() -> None:
    disk = Disk(cleanup_policy="compact", delete_retention_ms="1000")
    log, sequence = disk.log, 0
    for number in range(16):
        for key in (b"k", b"%d" % number):
            log.append_as_leader(in_transaction(7, sequence, b"v%d" % number, key=key), 0, NOW)
            sequence += 1
        end(log, 7, ABORT if number % 2 else COMMIT)
    expected = [f"v{number}" for number in range(0, 16, 2)]
    for round_ in range(4):
        log.append_as_leader(batch_of([(b"z", b"z%d" % round_)], NOW), 0, NOW)
        log.roll()
        disk.flush()
        found = examine_log(log, 0, NOW + 10_000 * round_, log.end_offset)
        clean(log, found, NOW + 10_000 * round_)
        for log in _and_after_a_kill(disk):
            shown = [value for value in committed(log, step=1) if value[0] == "v" and value != "v14"]
            assert shown == expected[:-1], f"round {round_}"
            assert [value for value in values_in(log) if value in (b"v1", b"v3", b"v13")] == []
    ends = {header.base_offset for _, header in walk(log.read(0, ALL, log.end_offset).records) if header.control}
    assert {entry.last_offset for segment in log.segments for entry in segment.aborted} <= ends
    fresh = MemoryLog()
    fresh.append_as_follower(log.read(0, ALL, log.end_offset).records)
    assert fresh.last_stable_offset(log.end_offset) == log.end_offset, (
        "what is left of a transaction is left with its end"
    )


def _and_after_a_kill(disk: Disk) -> Iterator[UnifiedLog]:
    yield disk.log
    yield disk.killed()


def test_marker_after_cleaned_part_aborts_transaction() -> None:
    """The records of its keys that stand before it stay: they are the last ones."""
    disk = Disk(cleanup_policy="compact", segment_bytes="150")
    log = disk.log
    log.append_as_leader(batch_of([(b"k", b"old")], NOW), 0, NOW)
    log.append_as_leader(in_transaction(7, 0, b"never", key=b"k"), 0, NOW)
    log.append_as_leader(batch_of([(b"x", b"x" * 60)], NOW), 0, NOW)
    end(log, 7, ABORT)
    log.append_as_leader(batch_of([(b"y", b"y" * 60)], NOW), 0, NOW)
    log.roll()
    disk.flush()
    log = disk.closed()  # nobody knows any more that the end was not committed
    for bound in range(2, log.end_offset + 1):
        clean(log, examine_log(log, 0, NOW, bound), NOW)
        assert committed(log)[0] == "old", f"cleaned up to {bound}"


def _to_be_cleaned() -> Disk:
    """Small neighbours, of which a cleaning makes one."""
    disk = Disk(cleanup_policy="compact", segment_bytes="700")
    for number in range(8):
        disk.log.append_as_leader(in_transaction(7, number, b"v%d" % number, key=b"%d" % (number % 3)), 0, NOW)
        end(disk.log, 7, ABORT if number % 2 else COMMIT)
        if number % 2:
            disk.log.roll()
    disk.flush()
    return disk


def _clean(disk: Disk, keys_max: int) -> None:
    clean(disk.log, examine_log(disk.log, 0, NOW, disk.log.end_offset), NOW, keys_max=keys_max)


def _never(disk: Disk) -> set[str]:
    return set(committed(disk.log)) & {"v1", "v3", "v5", "v7"}


def test_flush_whose_files_were_cleaned_is_repeated() -> None:
    """After a cancelled flush the next one includes all transaction indexes, which the cleaner may replace."""
    disk = _to_be_cleaned()
    log = disk.log
    log.append_as_leader(batch_of([(b"z", b"new")], NOW), 0, NOW)
    cancelled = log.begin_flush()
    assert cancelled is not None
    log.flusher.cancel(cancelled)
    begun = log.begin_flush()
    assert begun is not None
    _clean(disk, 1_000)
    assert not log.write_out(begun), "the indexes of the segments that were merged into one are gone"
    assert log.flush() == log.end_offset


def test_transaction_index_is_durable_before_swap() -> None:
    """With memory for two keys what stands behind them is copied as it is, with what was aborted."""
    disk = _to_be_cleaned()
    disk.files.fail("sync_dir")
    with pytest.raises(KafkaError):
        _clean(disk, 2)
    disk.log.abandon()
    names = len(disk.files._pending)
    kept = iter([place != names - 2 for place in range(names)])  # of what was renamed only the last
    disk.files.crash(lambda count: next(kept) if count == 2 else 0)
    disk.open()
    assert _never(disk) == set()


def test_crash_anywhere_in_cleaning_shows_no_aborted_record() -> None:
    kinds, tried = ("write", "sync", "rename", "delete", "sync_dir", "create"), 0
    for kind, seed in product(kinds, range(2)):
        for nth in range(40):
            disk = _to_be_cleaned()
            disk.files.fail(kind, nth)
            try:
                _clean(disk, 2 if seed else 1000)
            except KafkaError:
                tried += 1
            else:
                break
            disk.log.abandon()
            disk.files.crash(Random(1000 * seed + nth).randrange)
            disk.open()
            assert _never(disk) == set(), (kind, nth, seed)
            assert {"v4", "v6"} <= set(committed(disk.log)), (kind, nth, seed)
            assert [path for path in disk.files.names() if path.endswith((".swap", ".cleaned"))] == []
    assert tried > 20


def test_emptied_marker_completes_transaction() -> None:
    files = memory_directory()
    files.make_folder("t-0")
    log = open_log("t-0", Disk().config, Handles(files), "t-0", KnownOffsets())
    log.append_as_follower(_numbered(in_transaction(7, 0, b"a"), 0))
    marker = control_batch(ABORT, 7, 0, 0, NOW)
    log.append_as_follower(_numbered(emptied(parse_header(marker)), 1))
    assert log.last_stable_offset(2) == 2


def _numbered(data: bytes, offset: int) -> bytes:
    buffer = bytearray(data)
    stamp(buffer, 0, offset, 0)
    return bytes(buffer)
