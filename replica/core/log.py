"""What the deciding floor asks of a partition's log. `replica.storage` keeps one in files, simulations one in memory.

Every call is done when it returns: an append is in the page cache (and lost with the machine) until `flush`.
Offsets are those of records; what is stored and handed out are whole record batches, never taken apart.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

from attrs import frozen

from replica.core.errors import ErrorCode

NO_OFFSET = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1


class Origin(IntEnum):
    """Who asks a leader to append. A coordinator may send several batches, and the ends of transactions."""

    CLIENT = 0
    COORDINATOR = 1


@frozen
class Wrong:
    """What a `KafkaError` says. The error itself keeps what was unpacked where it was raised."""

    code: ErrorCode
    text: str


@frozen
class Bounds:
    """The bounds of one batch: bytes when it is unpacked, records with their headers."""

    bytes_max: int
    records_max: int


@frozen
class Examined:
    """A client's batch whose records were stepped through before: what takes long is done when it is appended.

    data            the batch, compressed as the log wants it
    least, greatest of the differences in time of its records
    keyed           it was looked whether every record has a key, and they have
    wrong           what is wrong with its records, and all else is not known then
    """

    data: bytes
    least: int = 0
    greatest: int = 0
    keyed: bool = False
    wrong: Wrong | None = None


@frozen
class Appended:
    """first, last     offsets of the first and of the last record; last = first - 1 when nothing was appended
    append_time     when the log stamps records itself (`message.timestamp.type=LogAppendTime`); else NO_TIMESTAMP
    max_timestamp   greatest of the records, and offset_of_max the last offset of the batch that has it
    duplicate       an idempotent producer's batch that was there already: the offsets are those of then
    """

    first: int
    last: int
    append_time: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    offset_of_max: int = NO_OFFSET
    duplicate: bool = False


@frozen
class Fetched:
    """records     whole batches, back to back, as they are stored; the first may begin before `offset`
    offset      what was asked for
    """

    offset: int
    records: bytes


@frozen
class EpochEnd:
    """The greatest leader epoch known that is not above the asked one, and the offset at which it ended."""

    epoch: int
    end_offset: int


@frozen
class Found:
    """The first record whose timestamp is not before the asked one."""

    timestamp: int
    offset: int
    epoch: int


class Aborted(NamedTuple):
    """A transaction that was aborted.

    first_offset    where it began
    last_offset     where its end stands; what its producer wrote in between counts for nothing
    stable_offset   LSO once it had ended: where the oldest one began that was open then, or what follows on its end
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


@frozen
class ActiveProducer:
    """What a log knows of who writes to it. Times are those of records.

    coordinator_epoch   of who ended its last transaction here; -1: none has ended
    txn_start           where its open transaction began; -1 without one
    """

    producer_id: int
    epoch: int
    last_sequence: int
    timestamp: int
    coordinator_epoch: int
    txn_start: int


class Log(Protocol):
    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""

    @property
    def end_offset(self) -> int:
        """LEO: of the next record."""

    @property
    def latest_epoch(self) -> int:
        """Of the last batch, or the newest that was assigned; NO_EPOCH in a log that never had one."""

    def examine(self, batches: bytes, bounds: Bounds, *, all_of_it: bool = True) -> Examined | None:
        """What `append_as_leader` takes instead, and what makes it quick; also from a thread. None: there is nothing
        to be won; or, without `all_of_it`, something is wrong, which may be that its records are beyond the bounds.
        """

    def refused_records(self, batch: bytes, bounds: Bounds, now_ms: int, most: int) -> tuple[tuple[int, str], ...]:
        """Return index in the batch and reason of the first `most` records for which a client's batch was refused.
        Slow; also from a thread. Empty if the batch was refused as a whole."""

    def append_as_leader(
        self, batches: bytes | Examined, epoch: int, now_ms: int, *, origin: int = Origin.CLIENT
    ) -> Appended:
        """Checks them (raises an error of `replica.core.errors`), numbers them and stamps them with the epoch."""

    def append_as_follower(self, batches: bytes) -> Appended:
        """As the leader numbered them; gaps are where its cleaner was. Raises when they do not follow on what is there.

        A batch that is cut off at the end is left out.
        """

    def read(self, offset: int, max_bytes: int, upto: int, *, at_least_one: bool = True) -> Fetched:
        """Batches from the one that holds `offset`, none that begins at or behind `upto`. Raises `OffsetOutOfRange`."""

    def wrong_in(self, fetched: Fetched) -> str | None:
        """What is wrong, by its checksum, with a batch that was read; None: nothing is. Nobody asks for an ordinary
        read: whoever receives it computes them."""

    def give_up(self, why: str) -> None:
        """It is damaged, and no role is taken with it any more."""

    def stable_offset(self, high_watermark: int) -> int:
        """LSO: below it no transaction is open, nor one whose end stands behind the watermark. Never above that."""

    def watermark_passed(self, offset: int) -> None:
        """Everything before is committed. An end of a transaction that stands there holds nobody back any more."""

    def aborted_among(self, fetched: Fetched) -> tuple[Aborted, ...]:
        """Of the transactions that were aborted those that reach into what was read."""

    def active_producers(self) -> tuple[ActiveProducer, ...]:
        """In the order of their ids."""

    def assign_epoch(self, epoch: int, start: int) -> None:
        """A leader of this epoch begins at this offset."""

    def epoch_end(self, epoch: int) -> EpochEnd:
        """For `OffsetForLeaderEpoch` and diverging fetches; (NO_EPOCH, NO_OFFSET) where nothing is known."""

    def epoch_at(self, offset: int) -> int:
        """Under which epoch the record at this offset was written; NO_EPOCH where unknown."""

    def find_timestamp(self, timestamp: int) -> Found | None:
        """May take long, as a batch has to be unpacked; also from a thread."""

    def greatest_timestamp(self) -> Found | None:
        """As `find_timestamp`."""

    def truncate_to(self, offset: int) -> None:
        """The log ends there, or behind the last batch that ends before it. When it does so already, only
        epochs that begin there or later are forgotten: who wrote nothing as a leader must not look newer than it is.
        """

    def start_over_at(self, offset: int) -> None:
        """Everything goes, and the next record gets this offset."""

    def move_start(self, offset: int) -> None:
        """What is before is not readable any more, and its segments may go."""

    def flush(self) -> int:
        """Durable now is everything before the offset that is returned. Slow: not for the loop's own thread."""
