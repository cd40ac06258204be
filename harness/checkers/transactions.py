"""What producers with transactions, and those who read only what they have committed, are promised.

All of a transaction counts, or nothing, in all its partitions; nobody reads past one that is open, so what is read
stays, and nothing turns up behind a reader's back; and whoever bears a name after another one has taken it from him.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from attrs import define, field, frozen

WHOLE: Final = "all of a transaction counts, or nothing"
STANDS: Final = "what is read as committed stays, and nothing turns up behind who has read it"
FENCED: Final = "whose name another one bears writes nothing under it any more"


class Seen(NamedTuple):
    offset: int
    value: str


class End(Enum):
    OPEN = "nobody has asked that it counts"
    ASKED = "somebody has, and does not know what became of it"
    COUNTS = "it was said that it counts"
    ABORTED = "it was said that it does not"


@define(eq=False)
class Transaction:
    """values   by value the partition that it was written to; only what was acknowledged"""

    bearer: int
    """Who: of each name another number for each that has borne it."""
    values: dict[str, str] = field(factory=dict)
    end: End = End.OPEN


@frozen
class Read:
    """From `start` on, and behind what was read at `end`."""

    partition: str
    start: int
    end: int
    seen: tuple[Seen, ...]


@define(eq=False)
class Journal:
    """fenced     what was seen at once: somebody wrote who was one no more
    final      by partition all that stands when everything has come to rest
    complete   whether that is known of all partitions
    """

    transactions: list[Transaction] = field(factory=list)
    reads: list[Read] = field(factory=list)
    fenced: list[str] = field(factory=list)
    final: dict[str, tuple[Seen, ...]] = field(factory=dict)
    complete: bool = False

    def begins(self, bearer: int) -> Transaction:
        made = Transaction(bearer)
        self.transactions.append(made)
        return made


@frozen
class Broken:
    promise: str
    what: str


def judge(journal: Journal) -> Iterator[Broken]:
    """The gravest first."""
    for what in journal.fenced:
        yield Broken(FENCED, what)
    yield from _whole(journal)
    yield from _stands(journal)


def _whole(journal: Journal) -> Iterator[Broken]:
    shown = {seen.value: read.partition for read in journal.reads for seen in read.seen}
    rest = {seen.value: partition for partition, found in journal.final.items() for seen in found}
    for transaction in journal.transactions:
        values = transaction.values
        if transaction.end in (End.OPEN, End.ABORTED):
            for value in values:
                if value in shown or value in rest:
                    where = values[value]
                    yield Broken(WHOLE, f"{value} is read from {where}, and its transaction: {transaction.end.value}")
            continue
        if not journal.complete:
            continue
        there = [value for value in values if rest.get(value) == values[value]]
        lacks = next((value for value in values if value not in there), None)
        if lacks is not None and (there or transaction.end is End.COUNTS):
            others = f", and {there[0]} is in {values[there[0]]}" if there else ""
            why = f"of its transaction: {transaction.end.value}{others}"
            yield Broken(WHOLE, f"{lacks} is not in {values[lacks]}; {why}")


def _stands(journal: Journal) -> Iterator[Broken]:
    final: Mapping[str, tuple[Seen, ...]] = journal.final
    for read in journal.reads:
        if read.partition not in final:
            continue
        stands = tuple(seen for seen in final[read.partition] if read.start <= seen.offset < read.end)
        if stands != read.seen:
            one = next((seen for seen in read.seen if seen not in stands), None)
            other = next((seen for seen in stands if seen not in read.seen), None)
            what = (
                f"{one.value} was read at {one.offset}, and does not stand there"
                if one is not None
                else f"{other.value if other else '?'} stands at {other.offset if other else '?'}, and was passed over"
            )
            yield Broken(STANDS, f"{read.partition} from {read.start} to {read.end}: {what}")
