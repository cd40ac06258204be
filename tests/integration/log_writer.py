"""Append to the logs in a directory until killed, and print their ends after each round."""

from __future__ import annotations

import sys

from replica.core.partitions.log_config import LogConfig
from replica.storage.log_manager import LogManager
from replica.wire.records import Record, build

NOW = 1_700_000_000_000


def main(path: str) -> None:
    config = LogConfig.of({"segment.bytes": "4000", "index.interval.bytes": "300"})
    manager = LogManager.open([path], lambda topic: config)
    manager.load(1, "cluster")
    logs = [manager.get_or_create(("t", number)) for number in range(3)]
    round_ = 0
    while True:
        for log in logs:
            end = log.end_offset
            records = [Record(n, NOW + end, None, b"%d" % (end + n)) for n in range(1 + end % 4)]
            known = log.producers.last_entry(7)
            sequence = 0 if known is None else known.last_sequence + 1
            batch = build(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
            log.append_as_leader(batch, round_ // 50, NOW)
            if round_ % 10 == log.end_offset % 10:
                log.flush()
        if round_ % 7 == 0:
            manager.checkpoint()
        print(*(f"{log.end_offset} {log.recovery_point}" for log in logs), flush=True)
        round_ += 1


if __name__ == "__main__":
    main(sys.argv[1])
