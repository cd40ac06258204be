"""The log in files beside a model in a list: the same calls in the same order, with closes, kills and lost power."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from replica.core.errors import KafkaError
from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.partition_log import NO_EPOCH
from replica.storage.files import Handles
from replica.storage.log_loader import KnownOffsets, open_log
from replica.storage.memory_directory import memory_directory
from replica.storage.unified_log import UnifiedLog
from tests.unit.replica.storage.logs import NOW, batch, list_log, numbered, of_producer, records_in

CONFIG = LogConfig.of({"segment.bytes": "400", "index.interval.bytes": "100", "segment.ms": "1000"})


class Both:
    """One log, kept twice."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.config = config
        self.files = memory_directory()
        self.files.make_folder("t-0")
        self.known = KnownOffsets()
        self.model = list_log("t-0", config)
        self.file = self.open()
        self.sequences: dict[int, int] = {}
        self.cut_at = 1 << 60
        """Lost power may bring back what was cut off from there on since the last flush."""

    def open(self) -> UnifiedLog:
        return open_log("t-0", self.config, Handles(self.files, open_max=3), "t-0", self.known, self)

    def lower_end(self, offset: int) -> None:
        self.known = KnownOffsets(min(self.known.recovery_point, offset), self.known.start_offset)

    def lower_start(self, offset: int) -> None:
        self.known = KnownOffsets(self.known.recovery_point, min(self.known.start_offset, offset))

    def checkpoint(self) -> None:
        self.known = KnownOffsets(self.file.recovery_point, self.file.start_offset)

    def both(self, act: Callable[[Any], object]) -> object:
        answers = []
        for log in (self.model, self.file):
            try:
                answers.append(act(log))
            except KafkaError as error:
                answers.append((error.code, error.text))
        assert answers[0] == answers[1]
        return answers[0]

    def compare(self) -> None:
        file, model = self.file, self.model
        assert (file.start_offset, file.end_offset) == (model.start_offset, model.end_offset)
        assert file.latest_epoch == model.latest_epoch
        assert file.epochs.entries == model.epochs.entries
        assert records_in(file) == records_in(model)
        assert file.greatest_timestamp() == model.greatest_timestamp()


values = st.lists(st.binary(max_size=40), min_size=1, max_size=3)
times = st.integers(0, 5).map(lambda each: NOW + each * 300)
offsets = st.integers(0, 40)
steps = st.one_of(
    st.tuples(st.just("lead"), values, times),
    st.tuples(st.just("lead"), values, times),
    st.tuples(st.just("produce"), st.integers(1, 2), st.integers(-1, 1), values),
    st.tuples(st.just("follow"), st.integers(0, 2), st.integers(0, 1), values, times),
    st.tuples(st.just("truncate"), st.integers(0, 6)),
    st.tuples(st.just("increment_start_offset"), st.integers(0, 6)),
    st.tuples(st.just("assign"), st.integers(0, 1)),
    st.tuples(st.just("start_over"), offsets),
    st.tuples(st.just("read"), offsets, st.integers(0, 300), offsets, st.booleans()),
    st.tuples(st.just("find"), st.integers(-1, 6).map(lambda each: NOW + each * 300 - 1)),
    st.tuples(st.just("epoch"), st.integers(-1, 5), offsets),
    st.tuples(st.just("flush"), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("close")),
    st.tuples(st.just("kill")),
)


def do(both: Both, step: tuple[Any, ...]) -> None:
    kind: str
    kind, *rest = step
    end, epoch = both.model.end_offset, max(0, both.model.latest_epoch)
    match kind:
        case "lead":
            content, time = rest
            both.both(lambda log: log.append_as_leader(batch(*content, time=time), epoch, NOW))
        case "produce":
            producer, shift, content = rest
            data = of_producer(producer, max(0, both.sequences.get(producer, 0) + shift), *content)
            answer = both.both(lambda log: log.append_as_leader(data, epoch, NOW))
            known = both.model.producers.last_entry(producer)
            both.sequences[producer] = 0 if known is None else known.last_sequence + 1
            assert answer is not None
        case "follow":
            gap, newer, content, time = rest
            data = numbered(end + gap, epoch + newer, *content, time=time)
            both.both(lambda log: log.append_as_follower(data))
        case "truncate":
            both.both(lambda log: log.truncate_to(max(0, end - rest[0])))
            if both.file.end_offset < end:
                both.cut_at = min(both.cut_at, both.file.end_offset)
        case "increment_start_offset":
            start = both.model.start_offset + rest[0]
            both.both(lambda log: log.increment_start_offset(start))
        case "assign":
            both.both(lambda log: log.assign_epoch(epoch + rest[0], end))
        case "start_over":
            both.both(lambda log: log.truncate_fully_and_start_at(rest[0]))
        case "read":
            offset, most, upto, one = rest
            both.both(lambda log: log.read(offset, most, upto, at_least_one=one))
        case "find":
            both.both(lambda log: log.find_timestamp(rest[0]))
        case "epoch":
            both.both(lambda log: (log.end_offset_for_epoch(rest[0]), log.epoch_for_offset(rest[1])))
        case "flush":
            assert both.file.flush() == both.model.end_offset
            both.cut_at = 1 << 60
            if rest[0]:
                both.checkpoint()
        case "roll":
            both.file.roll()
        case "close":
            both.file.close()
            both.cut_at = 1 << 60
            both.checkpoint()
            both.file = both.open()
        case _:  # kill
            # As if the start had been written down in time; what was written down of a later one must not count.
            both.known = KnownOffsets(both.known.recovery_point, max(both.known.start_offset, both.model.start_offset))
            both.file.abandon()
            both.file = both.open()
            assert both.file.producers == both.model.producers


@given(st.lists(steps, max_size=40))
@settings(max_examples=120)
def test_log_in_files_answers_like_model(script: list[tuple[Any, ...]]) -> None:
    both = Both()
    for step in script:
        do(both, step)
        both.compare()
    assert both.file.latest_epoch >= NO_EPOCH


@given(st.lists(steps, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=120)
def test_lost_power_leaves_beginning_with_all_flushed_records(script: list[tuple[Any, ...]], chance: Any) -> None:
    both = Both()
    for step in script:
        do(both, step)
    flushed = both.file.recovery_point
    before = [each for each in records_in(both.file) if each.offset < both.cut_at]
    both.file.abandon()
    both.files.crash(chance.randrange)
    log = both.open()
    after = [each for each in records_in(log) if each.offset < both.cut_at]
    if log.start_offset == both.model.start_offset:
        assert after == before[: len(after)]
    assert log.end_offset >= min(flushed, both.known.recovery_point)
    log.append_as_leader(batch(b"goes on"), max(0, log.latest_epoch), NOW)
    assert records_in(log)[-1].value == b"goes on"
