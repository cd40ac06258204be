"""What was written, committed and seen in transactions, in stories by hand: each with the promises that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers.transactions import (
    FENCED,
    PLACED,
    STANDS,
    WHOLE,
    End,
    Journal,
    Look,
    Read,
    Seen,
    Transaction,
    judge,
)

HERE, THERE, PLACE, OTHER = "t8-0", "t8-1", "group-of-name-1 in t8-0", "group-of-name-2 in t8-0"

Tell: TypeAlias = Callable[[Journal], None]


@frozen
class Told:
    name: str
    broken: tuple[str, ...]
    tell: Tell

    @property
    def journal(self) -> Journal:
        """Written anew each time: whoever keeps it may be wrong, too."""
        journal = Journal()
        self.tell(journal)
        return journal

    def said(self) -> object:
        return [(each.invariant, each.what) for each in judge(self.journal)]


STORIES: Final[dict[str, Told]] = {}


def tells(*broken: str) -> Callable[[Tell], Tell]:
    def told(tell: Tell) -> Tell:
        STORIES[tell.__name__] = Told(tell.__name__, broken, tell)
        return tell

    return told


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    for story in STORIES.values():
        yield story.name, story.said


def ended(journal: Journal, made: Transaction, end: End) -> None:
    if end in (End.ASKED, End.COUNTS):
        journal.asks(made)
    if end in (End.COUNTS, End.ABORTED):
        journal.told(made, end)


def look(journal: Journal, offset: int, *, stable: bool = True, where: str = PLACE) -> None:
    journal.looks.append(Look(where, offset, stable, journal.moment(), journal.moment()))


# -- values ----------------------------------------------------------------------------------------------


def two(journal: Journal, end: End, here: bool, there: bool) -> None:
    """A value in each of two partitions: what is there when all has come to rest."""
    made = journal.begins(1)
    made.values.update({"a": HERE, "b": THERE})
    ended(journal, made, end)
    journal.final = {HERE: (Seen(0, "a"),) if here else (), THERE: (Seen(0, "b"),) if there else ()}
    journal.complete = True


for _end, _here, _there, _held in (
    (End.COUNTS, True, True, True),
    (End.COUNTS, True, False, False),
    (End.COUNTS, False, True, False),
    (End.COUNTS, False, False, False),
    (End.ASKED, True, True, True),
    (End.ASKED, False, False, True),
    (End.ASKED, False, True, False),
    (End.ABORTED, False, False, True),
    (End.ABORTED, True, True, False),
    (End.OPEN, False, False, True),
    (End.OPEN, False, True, False),
):

    def _two(j: Journal, end: End = _end, here: bool = _here, there: bool = _there) -> None:
        two(j, end, here, there)

    _two.__name__ = f"two values, {_end.name.lower()}, {'' if _here else 'not '}here, {'' if _there else 'not '}there"
    tells(*() if _held else (WHOLE,))(_two)


@tells(WHOLE, STANDS)
def what_was_aborted_was_read_and_is_gone(j: Journal) -> None:
    two(j, End.ABORTED, here=False, there=False)
    j.reads.append(Read(HERE, 0, 1, (Seen(0, "a"),)))


@tells()
def nobody_has_read_past_what_counts_later(j: Journal) -> None:
    two(j, End.COUNTS, here=True, there=True)
    j.reads += [Read(HERE, 0, 2, (Seen(0, "a"),)), Read(THERE, 1, 3, ()), Read("t8-2", 0, 1, (Seen(0, "c"),))]


@tells(STANDS)
def somebody_has_read_past_what_counts_later(j: Journal) -> None:
    two(j, End.COUNTS, here=True, there=True)
    j.reads += [Read("t8-2", 0, 1, (Seen(0, "c"),)), Read(THERE, 0, 3, ())]


@tells()
def what_stands_at_the_end_of_what_was_read_was_not_read(j: Journal) -> None:
    two(j, End.COUNTS, here=True, there=True)
    j.final[HERE] = (Seen(0, "a"), Seen(3, "c"))
    j.reads.append(Read(HERE, 0, 3, (Seen(0, "a"),)))


@tells(STANDS)
def what_was_read_stands_somewhere_else(j: Journal) -> None:
    two(j, End.COUNTS, here=True, there=True)
    j.reads.append(Read(HERE, 0, 3, (Seen(1, "a"),)))


@tells(STANDS)
def what_was_read_comes_in_another_order(j: Journal) -> None:
    two(j, End.COUNTS, here=True, there=True)
    j.final[HERE] = (Seen(0, "a"), Seen(1, "c"))
    j.reads.append(Read(HERE, 0, 3, (Seen(1, "c"), Seen(0, "a"))))


@tells(WHOLE)
def a_value_is_in_the_other_partition(j: Journal) -> None:
    two(j, End.COUNTS, here=True, there=True)
    j.final = {HERE: (Seen(0, "b"),), THERE: (Seen(0, "a"),)}


@tells()
def not_all_is_known_of_what_stands_in_the_end(j: Journal) -> None:
    two(j, End.COUNTS, here=True, there=False)
    j.complete = False


@tells(WHOLE)
def what_was_aborted_is_read_though_another_counts(j: Journal) -> None:
    two(j, End.COUNTS, here=True, there=True)
    made = j.begins(1)
    made.values["c"] = HERE
    ended(j, made, End.ABORTED)
    j.final[HERE] = (Seen(0, "a"), Seen(2, "c"))


@tells(FENCED)
def somebody_who_was_fenced_is_heard(j: Journal) -> None:
    j.fenced.append("bearer 1 of name-1 writes to t8-0")


# -- positions -------------------------------------------------------------------------------------------


def moves(journal: Journal, offset: int, end: End, where: str = PLACE) -> Transaction:
    made = journal.begins(1)
    made.positions[where] = offset
    ended(journal, made, end)
    return made


@tells()
def positions_that_count_are_seen(j: Journal) -> None:
    look(j, -1)
    moves(j, 3, End.COUNTS)
    look(j, 3)
    moves(j, 5, End.ABORTED)
    look(j, 3)
    moves(j, 2, End.COUNTS, OTHER)
    look(j, 2, where=OTHER)
    moves(j, 7, End.COUNTS)
    look(j, 7)
    j.complete = True


@tells(PLACED)
def a_position_of_what_was_aborted_is_seen(j: Journal) -> None:
    moves(j, 3, End.ABORTED)
    look(j, 3, stable=False)


@tells(PLACED)
def a_position_of_what_nobody_ended_is_seen(j: Journal) -> None:
    moves(j, 3, End.OPEN)
    look(j, 3)


@tells(PLACED)
def a_position_is_seen_before_anybody_asked_that_it_counts(j: Journal) -> None:
    made = moves(j, 3, End.OPEN)
    look(j, 3, stable=False)
    ended(j, made, End.COUNTS)


@tells()
def a_position_is_seen_before_anybody_was_told_that_it_counts(j: Journal) -> None:
    made = moves(j, 3, End.ASKED)
    look(j, 3)
    j.told(made, End.COUNTS)


@tells()
def a_position_is_seen_of_what_nobody_was_told_of(j: Journal) -> None:
    moves(j, 3, End.ASKED)
    look(j, 3)
    j.complete = True


@tells(PLACED)
def a_position_that_counts_is_not_seen(j: Journal) -> None:
    moves(j, 3, End.COUNTS)
    look(j, -1)


@tells(PLACED)
def an_older_position_is_seen(j: Journal) -> None:
    moves(j, 3, End.COUNTS)
    moves(j, 5, End.COUNTS)
    look(j, 3)


@tells()
def an_older_position_is_seen_by_who_does_not_ask_for_what_stays(j: Journal) -> None:
    moves(j, 3, End.COUNTS)
    moves(j, 5, End.COUNTS)
    look(j, 3, stable=False)


@tells()
def an_older_position_is_seen_by_who_has_asked_before(j: Journal) -> None:
    moves(j, 3, End.COUNTS)
    asked = j.moment()
    moves(j, 5, End.COUNTS)
    j.looks.append(Look(PLACE, 3, True, asked, j.moment()))


@tells()
def an_older_position_is_seen_while_a_newer_one_is_decided(j: Journal) -> None:
    moves(j, 3, End.COUNTS)
    moves(j, 5, End.ASKED)
    look(j, 3)


@tells()
def a_position_of_another_group_has_nothing_to_do_with_it(j: Journal) -> None:
    moves(j, 3, End.COUNTS, OTHER)
    look(j, -1)


@tells(PLACED)
def a_position_is_seen_that_nobody_has_committed(j: Journal) -> None:
    moves(j, 3, End.COUNTS)
    look(j, 4)


@tells(PLACED)
def the_position_of_another_group_is_seen(j: Journal) -> None:
    moves(j, 3, End.COUNTS, OTHER)
    look(j, 3)


# -- values and positions --------------------------------------------------------------------------------


def both(journal: Journal, end: End, there: bool) -> Transaction:
    """A value and a position: whether the value is there."""
    made = journal.begins(1)
    made.values["a"] = HERE
    made.positions[PLACE] = 3
    ended(journal, made, end)
    journal.final = {HERE: (Seen(0, "a"),) if there else ()}
    journal.complete = True
    return made


@tells(WHOLE)
def a_value_counts_and_its_position_does_not(j: Journal) -> None:
    both(j, End.ASKED, there=True)
    look(j, -1)


@tells(WHOLE)
def a_position_counts_and_its_value_does_not(j: Journal) -> None:
    both(j, End.ASKED, there=False)
    look(j, 3)


@tells()
def a_position_was_overtaken(j: Journal) -> None:
    both(j, End.ASKED, there=True)
    moves(j, 5, End.COUNTS)
    look(j, 5)


@tells()
def a_position_may_yet_come(j: Journal) -> None:
    both(j, End.ASKED, there=True)
    look(j, -1, stable=False)


@tells()
def a_position_came_after_the_first_look(j: Journal) -> None:
    made = both(j, End.ASKED, there=True)
    look(j, -1)
    look(j, 3)
    assert made.end is End.ASKED
