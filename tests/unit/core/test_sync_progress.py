"""The log lines about a long synchronization: when they are due, and their fields."""

from __future__ import annotations

from zab.core.sync_progress import PROGRESS_LOG_MS, SyncProgress


def test_short_synchronization_logs_nothing() -> None:
    progress = SyncProgress(100)
    assert progress.fields(5_000, 100 + PROGRESS_LOG_MS - 1) == {}


def test_rate_is_that_since_the_line_before() -> None:
    progress = SyncProgress(0)
    assert progress.fields(50_000, 10_000) == {"bytes": 50_000, "bytes_per_s": 5_000}
    assert progress.fields(60_000, 19_999) == {}
    assert progress.fields(70_000, 30_000) == {"bytes": 70_000, "bytes_per_s": 1_000}


def test_snapshot_that_resumes_names_the_whole() -> None:
    progress = SyncProgress(0, 1_000, 90_000)
    assert progress.fields(20_000, 10_000) == {"bytes": 21_000, "of": 90_000, "bytes_per_s": 2_000}
