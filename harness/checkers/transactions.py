"""The guarantees of transactional producers and of read_committed consumers.

A transaction is atomic in all its partitions. A read_committed consumer does not read past an open transaction, so the
records that it has read stay, and no record appears later before its position. A producer whose transactional id was
initialized again is fenced: it writes nothing. A group's offset that is committed in a transaction counts only with it.
No reply shows the offset before the commit was requested. After the commit was acknowledged, a fetch that waits for
open transactions returns this offset or a newer one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from attrs import define, field, frozen

from harness.checkers.broken import Broken

ATOMIC: Final = "a transaction is atomic"
STABLE_READS: Final = "records that were read as committed stay, and none appear before them"
OFFSETS: Final = "offsets commit with their transaction"
FENCED: Final = "a fenced transactional producer writes nothing"

NOWHERE: Final = -1
"""The position of a group that has committed none."""


class Seen(NamedTuple):
    offset: int
    value: str


class TransactionOutcome(Enum):
    OPEN = "was never ended by its producer"
    REQUESTED = "has a requested commit of unknown outcome"
    COMMITTED = "has an acknowledged commit"
    ABORTED = "was aborted"


@define(eq=False)
class Transaction:
    """A transaction, as its producer sees it. Moments are those of the journal.

    incarnation   the number of the producer; each initialization of a transactional id gets another number
    values        the partition of each written value, by value
    positions     the committed offsets, by group and partition; those of one group in one partition ascend
    requested     the moment when the producer requested the commit
    ended         the moment when the producer received the outcome
    """

    incarnation: int
    values: dict[str, str] = field(factory=dict)
    positions: dict[str, int] = field(factory=dict)
    outcome: TransactionOutcome = TransactionOutcome.OPEN
    requested: int = 0
    ended: int = 0


@frozen
class Read:
    """The records that a read_committed consumer received while its position moved from `start` to `end`."""

    partition: str
    start: int
    end: int
    seen: tuple[Seen, ...]


@frozen
class PositionReply:
    """A group's position, as a coordinator returned it between two moments of the journal.

    where    the group and the partition
    stable   the request waits for open transactions that may change the position
    """

    where: str
    offset: int
    stable: bool
    requested: int
    answered: int


@define(eq=False)
class Journal:
    """The history of the transactions of a run.

    positions   in the order of the replies; the last stable one of each group came after the last fault
    fenced      requests of fenced producers that succeeded, as texts
    final       the records that read_committed consumers can read after the last fault, by partition
    complete    `final` has all partitions
    """

    transactions: list[Transaction] = field(factory=list)
    reads: list[Read] = field(factory=list)
    positions: list[PositionReply] = field(factory=list)
    fenced: list[str] = field(factory=list)
    final: dict[str, tuple[Seen, ...]] = field(factory=dict)
    complete: bool = False
    _moments: int = 0

    def begin(self, incarnation: int) -> Transaction:
        made = Transaction(incarnation)
        self.transactions.append(made)
        return made

    def request_commit(self, made: Transaction) -> None:
        made.outcome, made.requested = TransactionOutcome.REQUESTED, self.moment()

    def end(self, made: Transaction, outcome: TransactionOutcome) -> None:
        made.outcome, made.ended = outcome, self.moment()

    def forget(self, where: str) -> None:
        """Remove a position whose deletion is legal, so that it is not judged."""
        self.positions = [reply for reply in self.positions if reply.where != where]
        for made in self.transactions:
            made.positions.pop(where, None)

    def moment(self) -> int:
        """Return the next moment. Each is later than the one before."""
        self._moments += 1
        return self._moments


def judge(journal: Journal) -> Iterator[Broken]:
    """Yield the violations, the most severe first."""
    for what in journal.fenced:
        yield Broken(FENCED, what)
    yield from _offsets(journal)
    yield from _atomic(journal)
    yield from _stable_reads(journal)


def _offsets(journal: Journal) -> Iterator[Broken]:
    by = {place: made for made in journal.transactions for place in made.positions.items()}
    for reply in journal.positions:
        made = by.get((reply.where, reply.offset))
        shows = f"a coordinator returned offset {reply.offset} for {reply.where}"
        if made is None and reply.offset != NOWHERE:
            yield Broken(OFFSETS, f"{shows}, which no transaction committed")
        elif made is not None and made.outcome in (TransactionOutcome.OPEN, TransactionOutcome.ABORTED):
            yield Broken(OFFSETS, f"{shows}, and its transaction {made.outcome.value}")
        elif made is not None and reply.answered < made.requested:
            yield Broken(OFFSETS, f"{shows} before the commit of its transaction was requested")
        newer = next((each for each in journal.transactions if _must_be_visible(each, reply)), None)
        if newer is not None:
            yield Broken(OFFSETS, f"{shows} after the commit of offset {newer.positions[reply.where]} was acknowledged")


def _must_be_visible(made: Transaction, reply: PositionReply) -> bool:
    """Return whether the transaction's position is newer than the reply's, and was acknowledged before the request."""
    if not reply.stable or made.outcome is not TransactionOutcome.COMMITTED or made.ended > reply.requested:
        return False
    return made.positions.get(reply.where, NOWHERE) > reply.offset


def _atomic(journal: Journal) -> Iterator[Broken]:
    shown = {seen.value: read.partition for read in journal.reads for seen in read.seen}
    rest = {seen.value: partition for partition, found in journal.final.items() for seen in found}
    returned = {(reply.where, reply.offset) for reply in journal.positions}
    last = {reply.where: reply.offset for reply in journal.positions if reply.stable}
    for transaction in journal.transactions:
        values = transaction.values
        if transaction.outcome in (TransactionOutcome.OPEN, TransactionOutcome.ABORTED):
            for value in values:
                if value in shown or value in rest:
                    text = f"{value} of {values[value]} is visible to read_committed consumers"
                    yield Broken(ATOMIC, f"{text}, and its transaction {transaction.outcome.value}")
            continue
        if not journal.complete:
            continue
        there = [f"{value} is in {where}" for value, where in values.items() if rest.get(value) == where]
        there += [
            f"{where} is at {offset}" for where, offset in transaction.positions.items() if (where, offset) in returned
        ]
        lacks = [f"{value} is not in {where}" for value, where in values.items() if rest.get(value) != where]
        lacks += [
            f"{where} is not at {offset}"
            for where, offset in transaction.positions.items()
            if last.get(where, offset) < offset
        ]
        if lacks and (there or transaction.outcome is TransactionOutcome.COMMITTED):
            others = f", and {there[0]}" if there else ""
            yield Broken(ATOMIC, f"{lacks[0]}; its transaction {transaction.outcome.value}{others}")


def _stable_reads(journal: Journal) -> Iterator[Broken]:
    final: Mapping[str, tuple[Seen, ...]] = journal.final
    for read in journal.reads:
        if read.partition not in final:
            continue
        stands = tuple(seen for seen in final[read.partition] if read.start <= seen.offset < read.end)
        if stands != read.seen:
            one = next((seen for seen in read.seen if seen not in stands), None)
            other = next((seen for seen in stands if seen not in read.seen), None)
            what = (
                f"a consumer read {one.value} at offset {one.offset}, which is not there at the end"
                if one is not None
                else f"a consumer did not receive {other.value if other else '?'} at offset "
                f"{other.offset if other else '?'}, which is there at the end"
            )
            yield Broken(STABLE_READS, f"{read.partition} from {read.start} to {read.end}: {what}")
