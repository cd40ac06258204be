"""The transactions among the committed records of one partition, decoded from their batches and markers."""

from __future__ import annotations

from struct import Struct
from typing import Final

from attrs import define, field

from harness.checkers.partitions.copies import GONE, Record

_MARKER_KEY: Final = Struct(">hh")
_COMMIT: Final = 1


@define(eq=False)
class Transaction:
    """A transaction of one producer in one partition.

    start       the offset of its first record
    committed   None while the transaction has no marker
    """

    start: int
    committed: bool | None = None


@define(eq=False)
class Ledger:
    """The transactions among the committed records of a partition.

    transactions   the transaction of the record at each offset; None for markers and records outside of transactions
    ended          the transaction that the marker at each offset ended
    stable         the last stable offset for each high watermark
    fork           the fork of the log when it was read; an unclean election may change the records
    incomplete     a record was deleted before it was read, so transactions may be unknown
    """

    fork: int
    open: dict[int, Transaction] = field(factory=dict)
    transactions: list[Transaction | None] = field(factory=list)
    ended: dict[int, Transaction] = field(factory=dict)
    stable: list[int] = field(factory=lambda: [0])
    incomplete: bool = False

    def read(self, records: list[Record]) -> None:
        for offset in range(len(self.transactions), len(records)):
            record = records[offset]
            self.incomplete = self.incomplete or record == GONE
            self.transactions.append(self._transaction(offset, record))
            self.stable.append(min((each.start for each in self.open.values()), default=offset + 1))

    def _transaction(self, offset: int, record: Record) -> Transaction | None:
        if record.control:
            ended = self.open.pop(record.producer, None)
            if ended is not None:
                self.ended[offset] = ended
                ended.committed = _MARKER_KEY.unpack_from(record.key)[1] == _COMMIT
        elif record.transactional:
            return self.open.setdefault(record.producer, Transaction(offset))
        return None

    def shows(self, offset: int, record: Record) -> bool:
        """Return whether a read_committed consumer receives this record."""
        made = self.transactions[offset]
        return not record.control and (made is None or made.committed is True)
