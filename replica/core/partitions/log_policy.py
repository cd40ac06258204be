"""The rules by which a log's segments are rolled, deleted and compacted, as pure functions.

`replica.storage` measures the segments, asks here, and acts. The rules are Kafka's: `LogSegment.shouldRoll`,
`UnifiedLog.deleteOldSegments` and `LogCleanerManager.grabFilthiestCompactedLog`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from attrs import frozen

from replica.core.partitions.log_config import RELATIVE_MAX, UNBOUNDED, LogConfig

T = TypeVar("T")


# -- rolling -------------------------------------------------------------------------------------------


def must_roll(
    config: LogConfig,
    draw: float,
    size: int,
    base_offset: int,
    first_timestamp: int,
    batch_bytes: int,
    last_offset: int,
    max_timestamp: int,
    indexes_are_full: bool,
) -> bool:
    """Return whether an append begins a new segment.

    It does if it would exceed `segment.bytes`, if its last offset would not fit into an index entry, if an index is
    full, or if the segment is too old at its greatest timestamp: see `is_roll_due`.
    """
    return (
        size + batch_bytes > config.segment_bytes
        or last_offset - base_offset > RELATIVE_MAX
        or is_roll_due(config, draw, first_timestamp, max_timestamp)
        or indexes_are_full
    )


def is_roll_due(config: LogConfig, draw: float, first_timestamp: int, now_ms: int) -> bool:
    """Return whether a segment is older than `segment.ms`, less its jitter, by the timestamp of its first batch.

    In a compacted log, `max.compaction.lag.ms` limits the age, too, because the active segment is not compacted.
    `draw` is a random number from 0 to 1, drawn once for the segment: it has this part of `segment.jitter.ms`. So
    segments that began together are rolled at different times.
    """
    age_max = min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
    jitter = int(draw * min(config.segment_jitter_ms, age_max))
    return first_timestamp >= 0 and now_ms - first_timestamp > age_max - jitter


# -- deletion ------------------------------------------------------------------------------------------


class Retention(Enum):
    """The verdict on the oldest segment. BY_TIME leaves the decision to `is_expired`, whose input is costly to read."""

    KEEP = 0
    DELETE = 1
    BY_TIME = 2


def retention(
    config: LogConfig, segment_end: int, segment_size: int, log_size: int, log_start: int, high_watermark: int
) -> Retention:
    """Decide whether the oldest segment is kept or deleted. Segments are deleted from the oldest on.

    Keep a segment that reaches beyond the high watermark; delete one before the log start offset. With the policy
    `delete`, also delete a segment if the others have at least `retention.bytes`, or if `is_expired` is true.
    """
    if segment_end > high_watermark:
        return Retention.KEEP
    if segment_end <= log_start:
        return Retention.DELETE
    if not config.delete:
        return Retention.KEEP
    if config.retention_bytes != UNBOUNDED and log_size - segment_size >= config.retention_bytes:
        return Retention.DELETE
    return Retention.KEEP if config.retention_ms == UNBOUNDED else Retention.BY_TIME


def is_expired(config: LogConfig, max_timestamp: int, now_ms: int) -> bool:
    """Return whether a segment is older than `retention.ms` by its greatest timestamp."""
    return now_ms - max_timestamp > config.retention_ms


# -- compaction ----------------------------------------------------------------------------------------


@frozen
class ClosedSegment:
    """A segment that may be cleaned: its `end_offset` is at most `uncleanable_from`.

    first_timestamp   timestamp of its first batch, or -1; used only for a dirty segment that is not too young
    max_timestamp     greatest timestamp of its records
    """

    end_offset: int
    size: int
    first_timestamp: int
    max_timestamp: int


@frozen
class LogToClean:
    """The clean and the dirty part of a log, as one round of cleaning would find them.

    first_dirty_offset   earlier rounds cleaned the log up to here
    end_offset           nothing from here on may be cleaned yet
    overdue              a dirty record is older than `max.compaction.lag.ms`
    truncations          the log's count of truncations when it was examined
    """

    clean_bytes: int
    dirty_bytes: int
    first_dirty_offset: int
    end_offset: int
    overdue: bool = False
    truncations: int = 0

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def uncleanable_from(last_stable_offset: int, recovery_point: int) -> int:
    """Return the offset from which on a log must not be cleaned.

    From there on, records may be uncommitted, may belong to a transaction whose marker is not committed, or may not be
    durable. If a record that is not durable replaced an older one, a power loss could take both.
    """
    return min(last_stable_offset, recovery_point)


def is_too_young(config: LogConfig, max_timestamp: int, now_ms: int) -> bool:
    """Return whether `min.compaction.lag.ms` still protects a dirty segment."""
    return now_ms - max_timestamp < config.min_compaction_lag_ms


def log_to_clean(
    config: LogConfig, segments: Iterable[ClosedSegment], first_dirty_offset: int, now_ms: int, truncations: int = 0
) -> LogToClean:
    """Measure the clean and the dirty part. The first dirty segment that is too young ends the dirty part."""
    clean = dirty = 0
    end, overdue = first_dirty_offset, False
    for segment in segments:
        if segment.end_offset <= first_dirty_offset:
            clean += segment.size
            continue
        if is_too_young(config, segment.max_timestamp, now_ms):
            break
        dirty += segment.size
        first = segment.first_timestamp
        overdue |= first >= 0 and now_ms - first > config.max_compaction_lag_ms
        end = segment.end_offset
    return LogToClean(clean, dirty, first_dirty_offset, end, overdue, truncations)


def needs_cleaning(config: LogConfig, found: LogToClean) -> bool:
    """Return whether the dirty part is overdue, or exceeds `min.cleanable.dirty.ratio` of the log."""
    return found.dirty_bytes > 0 and (found.overdue or found.dirty_ratio > config.min_cleanable_dirty_ratio)


def dirtiest(candidates: Iterable[tuple[LogToClean, T]]) -> tuple[LogToClean, T] | None:
    """Choose the log with the largest dirty ratio; the first one wins a tie. Return None if there is no log."""
    return max(candidates, key=lambda each: each[0].dirty_ratio, default=None)
