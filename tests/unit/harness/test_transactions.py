"""What producers with transactions are promised, in stories by hand: those that keep it, and those that break it."""

from __future__ import annotations

import pytest

from harness.checkers.transactions import FENCED, STANDS, WHOLE, End, Journal, Read, Seen, judge
from harness.worlds.brokers.transactions import committed
from replica.wire.batch import TRANSACTIONAL
from replica.wire.records import ControlType, Record, build, control_batch

HERE, THERE = "t8-0", "t8-1"


def story(end: End, here: bool, there: bool) -> Journal:
    """Of one transaction, with a value in each of two partitions: what is there in the end."""
    journal = Journal(
        final={HERE: (Seen(0, "a"),) if here else (), THERE: (Seen(0, "b"),) if there else ()}, complete=True
    )
    made = journal.begins(1)
    made.values.update({"a": HERE, "b": THERE})
    made.end = end
    return journal


def promises(journal: Journal) -> set[str]:
    return {each.promise for each in judge(journal)}


@pytest.mark.parametrize(
    ("end", "here", "there", "held"),
    [
        (End.COUNTS, True, True, True),
        (End.COUNTS, True, False, False),
        (End.COUNTS, False, False, False),
        (End.ASKED, True, True, True),
        (End.ASKED, False, False, True),
        (End.ASKED, False, True, False),
        (End.ABORTED, False, False, True),
        (End.ABORTED, True, True, False),
        (End.OPEN, False, False, True),
        (End.OPEN, False, True, False),
    ],
)
def test_all_of_a_transaction_counts_or_nothing(end: End, here: bool, there: bool, held: bool) -> None:
    assert promises(story(end, here, there)) == (set() if held else {WHOLE})


def test_what_was_read_and_is_of_no_transaction_that_counts_is_objected_to_though_it_is_gone() -> None:
    journal = story(End.ABORTED, here=False, there=False)
    journal.reads.append(Read(HERE, 0, 1, (Seen(0, "a"),)))
    assert promises(journal) == {WHOLE, STANDS}


def test_nobody_has_read_past_what_counts_later() -> None:
    journal = story(End.COUNTS, here=True, there=True)
    journal.reads += [Read(HERE, 0, 2, (Seen(0, "a"),)), Read(THERE, 1, 3, ())]
    assert promises(journal) == set()
    journal.reads.append(Read(THERE, 0, 3, ()))
    assert promises(journal) == {STANDS}


def test_what_stands_in_the_end_is_asked_for_when_all_of_it_is_known() -> None:
    journal = story(End.COUNTS, here=True, there=False)
    journal.complete = False
    assert promises(journal) == set()


def test_who_was_fenced_and_is_heard_is_objected_to() -> None:
    journal = Journal(fenced=["bearer 1 of name-1 writes to t8-0"])
    assert promises(journal) == {FENCED}


def test_what_was_aborted_is_left_out_up_to_its_end() -> None:
    data = b""
    for offset, producer, value in ((0, 7, b"a"), (1, 8, b"b"), (3, 7, b"c")):
        if offset == 3:
            data += control_batch(ControlType.ABORT, 7, 0, 0, 0, base_offset=2)
        record = Record(offset, 0, None, value)
        data += build([record], producer_id=producer, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL)
    assert committed(data, 0, [{"producer_id": 7, "first_offset": 0}]) == ([Seen(1, "b"), Seen(3, "c")], 4)
    assert committed(data, 2, []) == ([Seen(3, "c")], 4)
