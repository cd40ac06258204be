"""What producers with transactions, and those who read only what they have committed, are promised.

A transaction is atomic, in all its partitions; nobody reads past one that is open, so what is read
stays, and nothing turns up behind a reader's back; and whoever bears a name after another one has taken it from him.
A position of a group that is committed in one counts with it: nobody is shown it before, and whoever asks for what no
open transaction may change, when it was said that it counts, is shown it or a newer one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from attrs import define, field, frozen

from harness.checkers.broken import Broken

WHOLE: Final = "a transaction is atomic"
STANDS: Final = "records that were read as committed stay, and none appear before them"
PLACED: Final = "offsets commit with their transaction"
FENCED: Final = "a fenced transactional producer writes nothing"


NOWHERE: Final = -1
"""The position of whoever has none."""


class Seen(NamedTuple):
    offset: int
    value: str


class End(Enum):
    OPEN = "its end was never requested"
    ASKED = "its commit was requested, and the outcome is unknown"
    COUNTS = "its commit was acknowledged"
    ABORTED = "it was aborted"


@define(eq=False)
class Transaction:
    """values      by value the partition that it was written to
    positions   by group and partition; of one group in one partition they ascend
    asked       the moment of the journal when somebody asked that it counts
    told        the one when it was said how it ended
    """

    bearer: int
    """Who: of each name another number for each that has borne it."""
    values: dict[str, str] = field(factory=dict)
    positions: dict[str, int] = field(factory=dict)
    end: End = End.OPEN
    asked: int = 0
    told: int = 0


@frozen
class Read:
    """From `start` on, and behind what was read at `end`."""

    partition: str
    start: int
    end: int
    seen: tuple[Seen, ...]


@frozen
class Look:
    """What a coordinator says where a group is, between two moments of the journal.

    stable   it was asked for what no open transaction may change
    """

    where: str
    offset: int
    stable: bool
    asked: int
    answered: int


@define(eq=False)
class Journal:
    """looks      in the order in which they were answered; the last that is stable was when everything had come to rest
    fenced     what was seen at once: somebody wrote who was one no more
    final      by partition all that stands when everything has come to rest
    complete   whether that is known of all partitions
    """

    transactions: list[Transaction] = field(factory=list)
    reads: list[Read] = field(factory=list)
    looks: list[Look] = field(factory=list)
    fenced: list[str] = field(factory=list)
    final: dict[str, tuple[Seen, ...]] = field(factory=dict)
    complete: bool = False
    _moments: int = 0

    def begins(self, bearer: int) -> Transaction:
        made = Transaction(bearer)
        self.transactions.append(made)
        return made

    def asks(self, made: Transaction) -> None:
        made.end, made.asked = End.ASKED, self.moment()

    def told(self, made: Transaction, end: End) -> None:
        made.end, made.told = end, self.moment()

    def moment(self) -> int:
        """Each is later than the one before."""
        self._moments += 1
        return self._moments


def judge(journal: Journal) -> Iterator[Broken]:
    """The gravest first."""
    for what in journal.fenced:
        yield Broken(FENCED, what)
    yield from _placed(journal)
    yield from _whole(journal)
    yield from _stands(journal)


def _placed(journal: Journal) -> Iterator[Broken]:
    by = {place: made for made in journal.transactions for place in made.positions.items()}
    for look in journal.looks:
        made = by.get((look.where, look.offset))
        shows = f"{look.where} is said to be at {look.offset}"
        if made is None and look.offset != NOWHERE:
            yield Broken(PLACED, f"{shows}, which was never committed")
        elif made is not None and made.end in (End.OPEN, End.ABORTED):
            yield Broken(PLACED, f"{shows}, and of its transaction: {made.end.value}")
        elif made is not None and look.answered < made.asked:
            yield Broken(PLACED, f"{shows}, before the commit of its transaction was requested")
        newer = next((each for each in journal.transactions if _counts_beyond(each, look)), None)
        if newer is not None:
            yield Broken(PLACED, f"{shows}, and that {newer.positions[look.where]} counts had been said before")


def _counts_beyond(made: Transaction, look: Look) -> bool:
    """Whoever asked for it then must see its position, or a newer one."""
    if not look.stable or made.end is not End.COUNTS or made.told > look.asked:
        return False
    return made.positions.get(look.where, NOWHERE) > look.offset


def _whole(journal: Journal) -> Iterator[Broken]:
    shown = {seen.value: read.partition for read in journal.reads for seen in read.seen}
    rest = {seen.value: partition for partition, found in journal.final.items() for seen in found}
    at = {(look.where, look.offset) for look in journal.looks}
    last = {look.where: look.offset for look in journal.looks if look.stable}
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
        there = [f"{value} is in {where}" for value, where in values.items() if rest.get(value) == where]
        there += [f"{where} is at {offset}" for where, offset in transaction.positions.items() if (where, offset) in at]
        lacks = [f"{value} is not in {where}" for value, where in values.items() if rest.get(value) != where]
        lacks += [
            f"{where} is not at {offset}"
            for where, offset in transaction.positions.items()
            if last.get(where, offset) < offset
        ]
        if lacks and (there or transaction.end is End.COUNTS):
            others = f", and {there[0]}" if there else ""
            yield Broken(WHOLE, f"{lacks[0]}; of its transaction: {transaction.end.value}{others}")


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
