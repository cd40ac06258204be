"""Fixtures for busy machines."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _a_disk_that_others_write_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers in the test's process do not call it slow, which would stay so until they write again: who waits for
    them to be well would wait for ever."""
    monkeypatch.setattr("zab.service.health.operator_warnings.SLOW_FSYNC_MS", 60_000)
