"""Random transactions in the log in files and in its model, beside a list of all entries."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from replica.storage.unified_log import UnifiedLog
from tests.unit.replica.storage.logs import NOW, batch, list_log
from tests.unit.replica.storage.transactional import ABORT, COMMIT, Disk, committed, end, in_transaction


@frozen
class Entry:
    """producer   -1: of none
    ends       a commit or an abort, and no records
    """

    first: int
    last: int
    producer: int
    values: tuple[str, ...] = ()
    ends: bool = False
    aborts: bool = False


@define
class Naive:
    entries: list[Entry] = field(factory=list)
    start: int = 0
    seen: int = 0
    """Up to here the watermark has been."""

    @property
    def end(self) -> int:
        return self.entries[-1].last + 1 if self.entries else self.start

    def end_of(self, entry: Entry) -> Entry | None:
        return next((each for each in self.entries if each.ends and self._same(each, entry)), None)

    def _same(self, each: Entry, entry: Entry) -> bool:
        return each.producer == entry.producer and each.last > entry.last

    def stable(self, watermark: int) -> int:
        for entry in self.entries:
            if entry.producer >= 0 and not entry.ends:
                ending = self.end_of(entry)
                if ending is None or ending.last >= watermark:
                    return min(watermark, max(self.start, entry.first))
        return watermark

    def shown(self) -> list[str]:
        stable, found = self.stable(self.end), []
        for entry in self.entries:
            ending = self.end_of(entry)
            if entry.last < stable and (entry.producer < 0 or ending is None or not ending.aborts):
                found += [value for place, value in enumerate(entry.values) if entry.first + place >= self.start]
        return found


producers = st.integers(1, 3)
steps = st.one_of(
    st.tuples(st.just("write"), producers, st.integers(1, 3)),
    st.tuples(st.just("write"), producers, st.integers(1, 3)),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("plain"), st.integers(1, 2)),
    st.tuples(st.just("truncate"), st.integers(0, 8)),
    st.tuples(st.just("increment_start_offset"), st.integers(0, 3)),
    st.tuples(st.just("watermark"), st.integers(0, 6)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("roll")),
    st.tuples(st.just("close")),
    st.tuples(st.just("kill")),
)


def do(naive: Naive, disk: Disk, memory: UnifiedLog, step: tuple[Any, ...]) -> None:
    kind: str
    kind, *rest = step
    at = memory.end_offset
    logs: tuple[UnifiedLog, ...] = (memory, disk.log)
    match kind:
        case "write":
            producer, count = rest
            known = memory.producers.last_entry(producer)
            data = in_transaction(
                producer, 0 if known is None else known.last_sequence + 1, *(b"%d" % (at + n) for n in range(count))
            )
            for log in logs:
                assert not log.append_as_leader(data, 0, NOW).duplicate
            naive.entries.append(Entry(at, at + count - 1, producer, tuple(str(at + n) for n in range(count))))
        case "end":
            producer, aborts = rest
            for log in logs:
                end(log, producer, ABORT if aborts else COMMIT)
            naive.entries.append(Entry(at, at, producer, ends=True, aborts=aborts))
        case "plain":
            for log in logs:
                log.append_as_leader(batch(*(b"%d" % (at + n) for n in range(rest[0]))), 0, NOW)
            naive.entries.append(Entry(at, at + rest[0] - 1, -1, tuple(str(at + n) for n in range(rest[0]))))
        case "truncate":
            offset = max(naive.start, at - rest[0])
            for log in logs:
                log.truncate_to(offset)
            naive.entries = [each for each in naive.entries if each.last < offset]
            if naive.entries:
                naive.start = min(naive.start, naive.end)
            else:
                naive.start = memory.end_offset
            naive.seen = naive.end
        case "increment_start_offset":
            naive.start = min(at, naive.start + rest[0])
            naive.seen = max(naive.seen, naive.start)
            for log in logs:
                log.increment_start_offset(naive.start)
        case "watermark":
            naive.seen = min(at, naive.seen + rest[0])
            for log in logs:
                log.on_high_watermark_updated(naive.seen)
        case "flush":
            disk.flush()
        case "roll":
            disk.log.roll()
        case "close":
            disk.closed()
            naive.seen = naive.end
        case _:  # kill
            disk.checkpoint_start(naive.start)
            disk.killed()
            naive.seen = naive.end


@given(st.lists(steps, max_size=40))
@settings(max_examples=100)
def test_stable_offset_and_committed_records_match_list(script: list[tuple[Any, ...]]) -> None:
    naive, disk, memory = Naive(), Disk(segment_bytes="300"), list_log()
    for step in script:
        do(naive, disk, memory, step)
        logs: tuple[UnifiedLog, ...] = (memory, disk.log)
        for log in logs:
            assert (log.start_offset, log.end_offset) == (naive.start, naive.end)
            for watermark in range(naive.seen, naive.end + 1):
                assert log.last_stable_offset(watermark) == naive.stable(watermark)
            assert committed(log) == committed(log, step=1) == naive.shown()
