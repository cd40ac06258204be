"""What a log calls durable, looked for on the disk itself: a recovery point that lies is found out only by a loss of
power in the same moment, and is wrong long before.
"""

from __future__ import annotations

from harness.checkers.ghost import Violation
from harness.checkers.partitions.keeper import DURABLE
from replica.storage.unified_log import UnifiedLog
from zab.storage.memory_disk import MemoryDisk


def check_durable(broker: int, files: MemoryDisk, log: UnifiedLog) -> None:
    """When a flush of it has ended. Files of cleaned logs are replaced: there the old ones do as well."""
    if log.closed or "compact" in log.config.cleanup_policy:
        return
    point = log.recovery_point
    if point > log.end_offset:
        raise Violation(DURABLE, f"{log.name}: broker {broker} flushed {point} records, and has {log.end_offset}")
    with files.aside():
        for segment in log.segments:
            if segment.base >= point:
                break
            found = None if segment.end <= point else segment.locate(point)
            size = segment.size if found is None else found[0]
            if files.durable(segment.log_path)[:size] != files.get(segment.log_path)[:size]:
                raise Violation(
                    DURABLE,
                    f"{log.name}: broker {broker} flushed {point} records, and what its disk has from {segment.base} on"
                    " is something else",
                )
