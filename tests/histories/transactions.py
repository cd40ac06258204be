"""Examples of transactions and their readers, each with the invariants that it violates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers.transactions import (
    ATOMIC,
    FENCED,
    NOWHERE,
    OFFSETS,
    STABLE_READS,
    Journal,
    PositionReply,
    Read,
    Seen,
    Transaction,
    TransactionOutcome,
    judge,
)

HERE, THERE, PLACE, OTHER = "t8-0", "t8-1", "group-of-name-1 in t8-0", "group-of-name-2 in t8-0"

OPEN, REQUESTED, COMMITTED, ABORTED = TransactionOutcome

Build: TypeAlias = Callable[[Journal], None]


@frozen
class Example:
    name: str
    violated: tuple[str, ...]
    build: Build

    @property
    def journal(self) -> Journal:
        """Return a new journal at each call, because a mutated `Journal` may be wrong, too."""
        journal = Journal()
        self.build(journal)
        return journal

    def violations(self) -> object:
        return [(each.invariant, each.what) for each in judge(self.journal)]


EXAMPLES: Final[dict[str, Example]] = {}


def example(*violated: str) -> Callable[[Build], Build]:
    def kept(build: Build) -> Build:
        assert build.__name__ not in EXAMPLES
        EXAMPLES[build.__name__] = Example(build.__name__, violated, build)
        return build

    return kept


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for each in EXAMPLES.values():
        yield each.name, each.violations


def end(journal: Journal, made: Transaction, outcome: TransactionOutcome) -> None:
    if outcome in (REQUESTED, COMMITTED):
        journal.request_commit(made)
    if outcome in (COMMITTED, ABORTED):
        journal.end(made, outcome)


def fetch(journal: Journal, offset: int, *, stable: bool = True, where: str = PLACE) -> None:
    journal.positions.append(PositionReply(where, offset, stable, journal.moment(), journal.moment()))


# -- values ----------------------------------------------------------------------------------------------


def two(journal: Journal, outcome: TransactionOutcome, here: bool, there: bool) -> None:
    """Write a value to each of two partitions. `here`, `there`: the value can be read at the end."""
    made = journal.begin(1)
    made.values.update({"a": HERE, "b": THERE})
    end(journal, made, outcome)
    journal.final = {HERE: (Seen(0, "a"),) if here else (), THERE: (Seen(0, "b"),) if there else ()}
    journal.complete = True


for _outcome, _here, _there, _legal in (
    (COMMITTED, True, True, True),
    (COMMITTED, True, False, False),
    (COMMITTED, False, True, False),
    (COMMITTED, False, False, False),
    (REQUESTED, True, True, True),
    (REQUESTED, False, False, True),
    (REQUESTED, False, True, False),
    (ABORTED, False, False, True),
    (ABORTED, True, True, False),
    (OPEN, False, False, True),
    (OPEN, False, True, False),
):

    def _two(j: Journal, outcome: TransactionOutcome = _outcome, here: bool = _here, there: bool = _there) -> None:
        two(j, outcome, here, there)

    _two.__name__ = (
        f"two values, {_outcome.name.lower()}, {'' if _here else 'not '}here, {'' if _there else 'not '}there"
    )
    example(*() if _legal else (ATOMIC,))(_two)


@example(ATOMIC, STABLE_READS)
def aborted_value_was_read(j: Journal) -> None:
    two(j, ABORTED, here=False, there=False)
    j.reads.append(Read(HERE, 0, 1, (Seen(0, "a"),)))


@example()
def reads_stop_before_open_transactions(j: Journal) -> None:
    two(j, COMMITTED, here=True, there=True)
    j.reads += [Read(HERE, 0, 2, (Seen(0, "a"),)), Read(THERE, 1, 3, ()), Read("t8-2", 0, 1, (Seen(0, "c"),))]


@example(STABLE_READS)
def read_past_an_open_transaction(j: Journal) -> None:
    two(j, COMMITTED, here=True, there=True)
    j.reads += [Read("t8-2", 0, 1, (Seen(0, "c"),)), Read(THERE, 0, 3, ())]


@example()
def record_at_the_end_of_a_read_is_not_part_of_it(j: Journal) -> None:
    two(j, COMMITTED, here=True, there=True)
    j.final[HERE] = (Seen(0, "a"), Seen(3, "c"))
    j.reads.append(Read(HERE, 0, 3, (Seen(0, "a"),)))


@example(STABLE_READS)
def value_was_read_at_another_offset(j: Journal) -> None:
    two(j, COMMITTED, here=True, there=True)
    j.reads.append(Read(HERE, 0, 3, (Seen(1, "a"),)))


@example(STABLE_READS)
def values_were_read_in_another_order(j: Journal) -> None:
    two(j, COMMITTED, here=True, there=True)
    j.final[HERE] = (Seen(0, "a"), Seen(1, "c"))
    j.reads.append(Read(HERE, 0, 3, (Seen(1, "c"), Seen(0, "a"))))


@example(ATOMIC)
def value_is_in_the_other_partition(j: Journal) -> None:
    two(j, COMMITTED, here=True, there=True)
    j.final = {HERE: (Seen(0, "b"),), THERE: (Seen(0, "a"),)}


@example()
def incomplete_final_records_are_not_judged(j: Journal) -> None:
    two(j, COMMITTED, here=True, there=False)
    j.complete = False


@example(ATOMIC)
def aborted_value_beside_a_committed_one(j: Journal) -> None:
    two(j, COMMITTED, here=True, there=True)
    made = j.begin(1)
    made.values["c"] = HERE
    end(j, made, ABORTED)
    j.final[HERE] = (Seen(0, "a"), Seen(2, "c"))


@example(FENCED)
def fenced_producer_writes(j: Journal) -> None:
    j.fenced.append("incarnation 1 of name-1 writes to t8-0 after it was fenced")


# -- positions -------------------------------------------------------------------------------------------


def commit(journal: Journal, offset: int, outcome: TransactionOutcome, where: str = PLACE) -> Transaction:
    """Commit an offset in a transaction of this outcome."""
    made = journal.begin(1)
    made.positions[where] = offset
    end(journal, made, outcome)
    return made


@example()
def committed_offsets_are_returned(j: Journal) -> None:
    fetch(j, -1)
    commit(j, 3, COMMITTED)
    fetch(j, 3)
    commit(j, 5, ABORTED)
    fetch(j, 3)
    commit(j, 2, COMMITTED, OTHER)
    fetch(j, 2, where=OTHER)
    commit(j, 7, COMMITTED)
    fetch(j, 7)
    j.complete = True


@example(OFFSETS)
def aborted_offset_is_returned(j: Journal) -> None:
    commit(j, 3, ABORTED)
    fetch(j, 3, stable=False)


@example(OFFSETS)
def offset_of_an_open_transaction_is_returned(j: Journal) -> None:
    commit(j, 3, OPEN)
    fetch(j, 3)


@example(OFFSETS)
def offset_is_returned_before_the_commit_is_requested(j: Journal) -> None:
    made = commit(j, 3, OPEN)
    fetch(j, 3, stable=False)
    end(j, made, COMMITTED)


@example()
def offset_is_returned_before_the_commit_is_acknowledged(j: Journal) -> None:
    made = commit(j, 3, REQUESTED)
    fetch(j, 3)
    j.end(made, COMMITTED)


@example()
def offset_of_an_unknown_outcome_is_returned(j: Journal) -> None:
    commit(j, 3, REQUESTED)
    fetch(j, 3)
    j.complete = True


@example(OFFSETS)
def committed_offset_is_not_returned(j: Journal) -> None:
    commit(j, 3, COMMITTED)
    fetch(j, -1)


@example(OFFSETS)
def older_offset_is_returned(j: Journal) -> None:
    commit(j, 3, COMMITTED)
    commit(j, 5, COMMITTED)
    fetch(j, 3)


@example()
def unstable_fetch_may_return_an_older_offset(j: Journal) -> None:
    commit(j, 3, COMMITTED)
    commit(j, 5, COMMITTED)
    fetch(j, 3, stable=False)


@example()
def earlier_fetch_may_return_an_older_offset(j: Journal) -> None:
    commit(j, 3, COMMITTED)
    requested = j.moment()
    commit(j, 5, COMMITTED)
    j.positions.append(PositionReply(PLACE, 3, True, requested, j.moment()))


@example()
def older_offset_while_a_newer_one_is_undecided(j: Journal) -> None:
    commit(j, 3, COMMITTED)
    commit(j, 5, REQUESTED)
    fetch(j, 3)


@example()
def deleted_offset_is_not_judged(j: Journal) -> None:
    commit(j, 1, COMMITTED)
    fetch(j, NOWHERE)
    j.forget(PLACE)


@example(OFFSETS)
def another_offset_than_the_deleted_one_is_judged(j: Journal) -> None:
    commit(j, 1, COMMITTED)
    commit(j, 2, COMMITTED, OTHER)
    fetch(j, NOWHERE)
    fetch(j, NOWHERE, where=OTHER)
    j.forget(PLACE)


@example()
def groups_have_separate_offsets(j: Journal) -> None:
    commit(j, 3, COMMITTED, OTHER)
    fetch(j, -1)


@example(OFFSETS)
def uncommitted_offset_is_returned(j: Journal) -> None:
    commit(j, 3, COMMITTED)
    fetch(j, 4)


@example(OFFSETS)
def offset_of_another_group_is_returned(j: Journal) -> None:
    commit(j, 3, COMMITTED, OTHER)
    fetch(j, 3)


# -- values and positions --------------------------------------------------------------------------------


def both(journal: Journal, outcome: TransactionOutcome, there: bool) -> Transaction:
    """Write a value and commit an offset in one transaction. `there`: the value can be read at the end."""
    made = journal.begin(1)
    made.values["a"] = HERE
    made.positions[PLACE] = 3
    end(journal, made, outcome)
    journal.final = {HERE: (Seen(0, "a"),) if there else ()}
    journal.complete = True
    return made


@example(ATOMIC)
def value_is_visible_and_its_offset_is_not(j: Journal) -> None:
    both(j, REQUESTED, there=True)
    fetch(j, -1)


@example(ATOMIC)
def offset_is_visible_and_its_value_is_not(j: Journal) -> None:
    both(j, REQUESTED, there=False)
    fetch(j, 3)


@example()
def newer_offset_replaces_an_older_one(j: Journal) -> None:
    both(j, REQUESTED, there=True)
    commit(j, 5, COMMITTED)
    fetch(j, 5)


@example()
def unstable_fetch_may_miss_the_offset(j: Journal) -> None:
    both(j, REQUESTED, there=True)
    fetch(j, -1, stable=False)


@example()
def offset_becomes_visible_after_the_first_fetch(j: Journal) -> None:
    made = both(j, REQUESTED, there=True)
    fetch(j, -1)
    fetch(j, 3)
    assert made.outcome is REQUESTED
