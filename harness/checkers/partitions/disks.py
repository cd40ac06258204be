"""The disks of brokers: their records after a restart, and the records that a log considers durable."""

from __future__ import annotations

from typing import Final

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Key, common, read_all
from harness.checkers.partitions.logs import Logs
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.replicas import DURABLE, NEVER, Replicas
from kraft_controller.core.names import TopicPartition
from replica.storage.unified_log import UnifiedLog
from zab.storage.memory_disk import MemoryDisk

KEPT: Final = "written records survive the death of the process"
FLUSHED: Final = "flushed records survive a loss of power"


class Disks:
    def __init__(self, replicas: Replicas, logs: Logs) -> None:
        self._replicas = replicas
        self._logs = logs
        self._lossy: dict[int, str] = {}
        """The kind of loss of each broker whose disk may have lost records since its process ended."""

    def fetches(self, broker: Broker, where: TopicPartition, offset: int) -> None:
        """Check a follower's fetch, which acknowledges all records before this offset to the leader."""
        partition = broker.core.partitions.get(where)
        if partition is not None:
            self._replicas.must_be_durable(
                broker, Key(where, broker.ident(partition)), offset, "acknowledges by a fetch"
            )

    def lost(self, broker: Broker, how: str) -> None:
        """Note that a disk may have lost records. The restart compares them."""
        self._lossy[broker.id] = how

    def deleted(self, broker: int, where: TopicPartition) -> None:
        """Forget a replica that a broker deleted on command."""
        self._replicas.catch_up()
        self._replicas.copies.get(broker, {}).pop(where, None)

    def restarted(self, broker: Broker) -> None:
        replicas = self._replicas
        replicas.catch_up()
        replicas.processes.restarted(broker.id, broker.epoch)
        how = self._lossy.pop(broker.id, "")
        with broker.disk.files.aside():
            held = {
                where: (log.start_offset, read_all(log), ident) for where, (log, ident) in broker.disk.held().items()
            }
        for where, copy in list(replicas.copies.get(broker.id, {}).items()):
            start, records, ident = held.get(where, (0, [], None))
            truth = replicas.truths[copy.key]
            if ident is not None and ident != copy.key.ident:
                start, records = 0, []
            old, began = copy.records, copy.start
            gone = self._logs.replace(broker.id, copy, truth, start, records)
            before, shared = len(old), common(old, copy.records, max(start, began))
            if not how and start > began and truth.state is not None:
                raise Violation(
                    KEPT, f"{copy.key}: broker {broker.id} restarted with log start offset {start}, which was {began}"
                )
            copy.cuts, copy.leads = 0, False
            if how:
                # The disk may undo a truncation, or hold an older high watermark: accept any high watermark once.
                copy.high_watermark = NEVER
            if not how and len(copy.records) < before and truth.state is not None:
                raise Violation(
                    KEPT, f"{copy.key}: broker {broker.id} restarted with log end {len(copy.records)}, not {before}"
                )
            if gone:
                replicas.world.counted("committed records lost by a disk")
                in_sync = truth.state is not None and broker.id in truth.state.isr
                if in_sync:
                    replicas.reached("ISR member lost records")
                if how == "power" and in_sync and replicas.world.replication.durable:
                    raise Violation(FLUSHED, f"{copy.key}: broker {broker.id} lost {gone[0][1]} at offset {gone[0][0]}")
            if shared < before:
                if how == "power":
                    replicas.reached("power failure loses records")
                since, until = replicas.damage.get((broker.id, copy.key), (before, before))
                replicas.damage[broker.id, copy.key] = min(since, shared), max(until, before)


def check_durable(broker: int, files: MemoryDisk, log: UnifiedLog) -> None:
    """Compare a log's recovery point with the disk after a flush. Without this check a wrong recovery point shows only
    if the power fails in the same moment.

    Compacted logs are skipped: compaction replaces files, and after a power failure the old ones are valid as well.
    """
    if log.closed or "compact" in log.config.cleanup_policy:
        return
    point = log.recovery_point
    if point > log.end_offset:
        raise Violation(
            DURABLE, f"{log.name}: broker {broker} has recovery point {point} beyond log end {log.end_offset}"
        )
    with files.aside():
        for segment in log.segments:
            if segment.base >= point:
                break
            found = None if segment.end <= point else segment.locate(point)
            size = segment.size if found is None else found[0]
            if files.durable(segment.log_path)[:size] != files.get(segment.log_path)[:size]:
                text = f"has recovery point {point}, but its durable bytes of segment {segment.base} differ"
                raise Violation(DURABLE, f"{log.name}: broker {broker} {text}")
