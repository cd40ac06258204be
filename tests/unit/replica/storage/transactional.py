"""Transactional producers and a read_committed consumer for tests."""

from __future__ import annotations

from attrs import define, field

from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.partition_log import AbortedTxn, AppendOrigin, LogAppendInfo
from replica.storage.files import Handles
from replica.storage.log_loader import KnownOffsets, open_log
from replica.storage.memory_directory import memory_directory
from replica.storage.unified_log import UnifiedLog
from replica.wire.batch import TRANSACTIONAL, walk
from replica.wire.records import ControlType, Record, build, control_batch, read_control, read_records
from tests.unit.replica.storage.logs import ALL, NOW

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def in_transaction(producer: int, sequence: int, *values: bytes, epoch: int = 0, key: bytes | None = None) -> bytes:
    records = [Record(place, NOW, key, value) for place, value in enumerate(values)]
    return build(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, flags=TRANSACTIONAL)


@define(eq=False)
class Writers:
    """Of one log: each goes on with its next sequence."""

    sequences: dict[tuple[int, int], int] = field(factory=dict)

    def write(self, log: UnifiedLog, producer: int, *values: str, epoch: int = 0) -> LogAppendInfo:
        place = producer, epoch
        sequence = self.sequences.get(place, 0)
        data = in_transaction(producer, sequence, *(each.encode() for each in values), epoch=epoch)
        done = log.append_as_leader(data, 0, NOW)
        self.sequences[place] = sequence + len(values)
        return done


def end(log: UnifiedLog, producer: int, kind: ControlType, *, epoch: int = 0, coordinator: int = 0) -> int:
    """Offset of the end."""
    batch = control_batch(kind, producer, epoch, coordinator, NOW)
    return log.append_as_leader(batch, 0, NOW, origin=AppendOrigin.COORDINATOR).first


def committed(log: UnifiedLog, watermark: int | None = None, *, since: int | None = None, step: int = ALL) -> list[str]:
    """All that is read with `read_committed`, in answers of so many bytes."""
    stable = log.last_stable_offset(log.end_offset if watermark is None else watermark)
    at = log.start_offset if since is None else since
    found: list[str] = []
    while at < stable:
        fetched = log.read(at, step, stable)
        if not fetched.records:
            break
        begins = sorted(log.aborted_in(fetched), key=lambda each: each.first_offset, reverse=True)
        dropped: set[int] = set()
        for position, header in walk(fetched.records):
            while begins and begins[-1].first_offset <= header.last_offset:
                dropped.add(begins.pop().producer_id)
            if header.control:
                if any(read_control(each)[0] is ABORT for each in read_records(fetched.records, position)):
                    dropped.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in dropped):
                records = read_records(fetched.records, position)
                found += [(each.value or b"").decode() for each in records if each.offset >= at]
            after = header.next_offset
        at = after
    return found


def aborted(log: UnifiedLog, offset: int = 0, upto: int = ALL) -> list[tuple[int, int, int]]:
    """Whose, from where, to where."""
    stable = log.last_stable_offset(log.end_offset)
    found: list[AbortedTxn] = log._aborted(max(offset, log.start_offset), min(upto, stable))
    return [(each.producer_id, each.first_offset, each.last_offset) for each in found]


class Disk:
    """A log in files, and what its directory remembers of it while it is killed and opened again."""

    def __init__(self, **settings: str) -> None:
        keys = {"segment.bytes": "400", "index.interval.bytes": "0", "file.delete.delay.ms": "0"}
        self.config = LogConfig.of(keys | {key.replace("_", "."): value for key, value in settings.items()})
        self.files = memory_directory()
        self.files.make_folder("t-0")
        self.known = KnownOffsets()
        self.writers = Writers()
        self.log = self.open()

    def open(self) -> UnifiedLog:
        self.notes: list[str] = []
        handles = Handles(self.files, open_max=4)
        self.log = open_log("t-0", self.config, handles, "t-0", self.known, self, self.notes)
        return self.log

    def lower_end(self, offset: int) -> None:
        self.known = KnownOffsets(min(self.known.recovery_point, offset), self.known.start_offset)

    def lower_start(self, offset: int) -> None:
        self.known = KnownOffsets(self.known.recovery_point, min(self.known.start_offset, offset))

    def checkpoint(self) -> None:
        self.known = KnownOffsets(self.log.recovery_point, self.log.start_offset)

    def checkpoint_start(self, offset: int) -> None:
        self.known = KnownOffsets(self.known.recovery_point, max(self.known.start_offset, offset))

    def flush(self) -> None:
        self.log.flush()
        self.checkpoint()

    def killed(self) -> UnifiedLog:
        self.log.abandon()
        self.files.kill()
        return self.open()

    def closed(self) -> UnifiedLog:
        self.log.close()
        self.checkpoint()
        return self.open()

    def lists(self) -> list[str]:
        return [path.removeprefix("t-0/") for path in self.files.names() if path.endswith(".txnindex")]
