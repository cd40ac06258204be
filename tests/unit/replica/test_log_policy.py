"""When segments are rolled, deleted and compacted, by values alone."""

from __future__ import annotations

from typing import Final

import pytest

from replica.core.partitions.log_config import RELATIVE_MAX, LogConfig
from replica.core.partitions.log_policy import (
    ClosedSegment,
    LogToClean,
    Retention,
    dirtiest,
    is_expired,
    is_roll_due,
    log_to_clean,
    must_roll,
    needs_cleaning,
    retention,
    uncleanable_from,
)

HOUR: Final = 3_600_000


def config(**settings: str) -> LogConfig:
    return LogConfig.of({key.replace("_", "."): value for key, value in settings.items()})


@pytest.mark.parametrize(
    ("change", "rolls"),
    [
        ({}, False),
        ({"batch_bytes": 501}, True),
        ({"last_offset": 100 + RELATIVE_MAX}, False),
        ({"last_offset": 101 + RELATIVE_MAX}, True),
        ({"max_timestamp": HOUR}, False),
        ({"max_timestamp": HOUR + 1}, True),
        ({"first_timestamp": -1, "max_timestamp": 2 * HOUR}, False),
        ({"indexes_are_full": True}, True),
    ],
)
def test_append_begins_new_segment(change: dict[str, int], rolls: bool) -> None:
    fits: dict[str, int] = {
        "size": 500,
        "base_offset": 100,
        "first_timestamp": 0,
        "batch_bytes": 500,
        "last_offset": 200,
        "max_timestamp": 0,
        "indexes_are_full": False,
    }
    settings = config(segment_bytes="1000", segment_ms=str(HOUR))
    assert must_roll(settings, 0.0, **(fits | change)) is rolls  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("jitter_ms", "draw", "age_max"),
    [(0, 0.9, 1000), (300, 0.0, 1000), (300, 0.5, 850), (300, 0.999, 701), (5000, 0.0, 1000), (5000, 0.5, 500)],
)
def test_jitter_shortens_life_of_active_segment_by_a_random_part(jitter_ms: int, draw: float, age_max: int) -> None:
    settings = config(segment_ms="1000", segment_jitter_ms=str(jitter_ms))
    assert not is_roll_due(settings, draw, 0, age_max)
    assert is_roll_due(settings, draw, 0, age_max + 1)
    assert not is_roll_due(settings, draw, -1, 10_000)


@pytest.mark.parametrize(
    ("policy", "lag_ms", "age_max"),
    [("compact", 400, 400), ("compact,delete", 400, 400), ("compact", 2000, 1000), ("delete", 400, 1000)],
)
def test_compaction_lag_limits_age_of_active_segment(policy: str, lag_ms: int, age_max: int) -> None:
    settings = config(segment_ms="1000", max_compaction_lag_ms=str(lag_ms), cleanup_policy=policy)
    assert not is_roll_due(settings, 0.0, 0, age_max)
    assert is_roll_due(settings, 0.0, 0, age_max + 1)


def test_append_rolls_earlier_by_the_jitter() -> None:
    settings = config(segment_ms="1000", segment_jitter_ms="300")
    assert not must_roll(settings, 0.5, 500, 0, 0, 500, 9, 850, indexes_are_full=False)
    assert must_roll(settings, 0.5, 500, 0, 0, 500, 9, 851, indexes_are_full=False)


@pytest.mark.parametrize(
    ("settings", "end", "log_start", "high_watermark", "verdict"),
    [
        ({"retention_bytes": "0"}, 20, 0, 19, Retention.KEEP),
        ({"retention_bytes": "0"}, 20, 0, 20, Retention.DELETE),
        ({"retention_bytes": "400"}, 20, 0, 20, Retention.DELETE),
        ({"retention_bytes": "401"}, 20, 0, 20, Retention.BY_TIME),
        ({"retention_ms": "-1"}, 20, 0, 20, Retention.KEEP),
        ({"cleanup_policy": "compact", "retention_bytes": "0"}, 20, 0, 20, Retention.KEEP),
        ({"cleanup_policy": "compact"}, 20, 20, 20, Retention.DELETE),
        ({}, 20, 20, 19, Retention.KEEP),
    ],
)
def test_oldest_segment_of_100_in_500_bytes(
    settings: dict[str, str], end: int, log_start: int, high_watermark: int, verdict: Retention
) -> None:
    assert retention(config(**settings), end, 100, 500, log_start, high_watermark) is verdict


def test_segment_expires_after_retention_ms() -> None:
    assert not is_expired(config(retention_ms="1000"), 50, 1050)
    assert is_expired(config(retention_ms="1000"), 50, 1051)


SEGMENTS: Final = (ClosedSegment(10, 100, 0, 9), ClosedSegment(20, 200, 10, 19), ClosedSegment(30, 400, 20, 29))


def test_clean_and_dirty_part_are_measured() -> None:
    assert log_to_clean(config(), SEGMENTS, 10, 1000) == LogToClean(100, 600, 10, 30)
    assert log_to_clean(config(), SEGMENTS, 30, 1000) == LogToClean(700, 0, 30, 30)
    assert log_to_clean(config(), (), 5, 1000, 3) == LogToClean(0, 0, 5, 5, False, 3)


def test_first_young_segment_ends_dirty_part() -> None:
    settings = config(min_compaction_lag_ms="100")
    assert log_to_clean(settings, SEGMENTS, 10, 119) == LogToClean(100, 200, 10, 20)
    assert log_to_clean(settings, SEGMENTS, 10, 118) == LogToClean(100, 0, 10, 10)


def test_ratio_or_age_makes_cleaning_due() -> None:
    settings = config(min_cleanable_dirty_ratio="0.8", max_compaction_lag_ms="1000")
    dirty = log_to_clean(settings, SEGMENTS, 10, 1010)
    assert not dirty.overdue
    assert needs_cleaning(settings, dirty)
    few = log_to_clean(settings, SEGMENTS, 20, 1020)
    assert not needs_cleaning(settings, few)
    assert needs_cleaning(settings, log_to_clean(settings, SEGMENTS, 20, 1021))
    assert not needs_cleaning(settings, log_to_clean(settings, SEGMENTS, 30, 10_000))


def test_dirtiest_log_is_first_of_largest_ratio() -> None:
    one, two = LogToClean(100, 100, 0, 9), LogToClean(100, 300, 0, 9)
    assert dirtiest([(one, "a"), (two, "b"), (two, "c")]) == (two, "b")
    assert dirtiest(list[tuple[LogToClean, str]]()) is None


def test_neither_unstable_nor_unflushed_records_are_cleaned() -> None:
    assert uncleanable_from(last_stable_offset=7, recovery_point=9) == 7
    assert uncleanable_from(last_stable_offset=9, recovery_point=7) == 7
