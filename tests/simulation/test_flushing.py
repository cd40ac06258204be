"""Flushes of the simulator: truncations, appends and lost power between the steps of a flush."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkers import Violation
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.worlds.cores.partitions.flushing import flush
from replica.core.errors import KafkaError
from replica.storage.unified_log import UnifiedLog
from tests.unit.replica.storage.logs import NOW, batch
from tests.unit.replica.storage.test_log_loader import filled, opened
from zab.storage.memory_disk import MemoryDisk

FSYNC_US = 1_000


class Broker:
    """As far as a flush needs one: acts by their time, and a disk."""

    id = 1

    def __init__(self, files: MemoryDisk) -> None:
        self.random = Random(1)
        self.disk = SimpleNamespace(files=files)
        self.world = SimpleNamespace(fsync_us=lambda _: FSYNC_US, counted=lambda _: None)
        self._now = 0
        self._acts: list[tuple[int, int, Callable[[], None]]] = []

    def later(self, wait_us: int, act: Callable[[], None]) -> None:
        self._acts.append((self._now + wait_us, len(self._acts), act))

    def until(self, us: int) -> None:
        while due := [each for each in self._acts if each[0] <= us]:
            first = min(due, key=lambda each: each[:2])
            self._acts.remove(first)
            self._now = first[0]
            first[2]()


def begun() -> tuple[Broker, UnifiedLog, list[KafkaError | None]]:
    files, log = filled(8)
    broker: Any = Broker(files)
    done: list[KafkaError | None] = []
    flush(broker, log, done.append)
    return broker, log, done


def written_again(broker: Broker, log: UnifiedLog) -> None:
    """Its files are durable by then, and nobody has been told."""
    broker.until(FSYNC_US - 1)
    log.truncate_to(5)
    for n in range(5):
        log.append_as_leader(batch(b"another %d" % n), 3, NOW)


def test_flush_counts_when_it_ends() -> None:
    broker, log, done = begun()
    broker.until(FSYNC_US - 1)
    assert (log.recovery_point, done) == (0, [])
    broker.until(FSYNC_US)
    assert (log.recovery_point, done) == (8, [None])


def test_power_loss_during_flush_loses_records() -> None:
    broker, log, _ = begun()
    broker.disk.files.crash()
    assert opened(broker.disk.files).end_offset < log.end_offset


def test_truncation_during_flush_keeps_recovery_point() -> None:
    broker, log, done = begun()
    written_again(broker, log)
    broker.until(FSYNC_US)
    assert (log.recovery_point, done) == (0, [None])


def test_mutant_that_counts_truncated_flush_is_noticed() -> None:
    with planted(BY_NAME["flushed-though-cut"].edits):
        broker, log, _ = begun()
        written_again(broker, log)
        with pytest.raises(Violation, match="has recovery point 8, but its durable bytes of segment . differ"):
            broker.until(FSYNC_US)


def test_recovery_point_beyond_log_end_is_noticed() -> None:
    with planted(BY_NAME["flushed-though-cut"].edits):
        broker, log, _ = begun()
        broker.until(FSYNC_US - 1)
        log.truncate_to(5)
        with pytest.raises(Violation, match="has recovery point 8 beyond log end 5"):
            broker.until(FSYNC_US)


def test_disk_failure_during_flush_is_reported_at_its_end() -> None:
    broker, _, done = begun()
    broker.disk.files.fail("sync")
    broker.until(FSYNC_US - 1)
    assert not done
    broker.until(FSYNC_US)
    assert isinstance(done[0], KafkaError)
