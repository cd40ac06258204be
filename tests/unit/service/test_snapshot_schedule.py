"""The decision when a snapshot is taken: by the work since the last one, on request, or for a learner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zab.core.errors import Stopped, StorageError
from zab.core.zxid import UNKNOWN, make
from zab.service.limits import Limits
from zab.service.snapshot_schedule import SnapshotSchedule

LAST = make(1, 1_000)


def schedule(chance: Callable[[int], int] = lambda span: 0) -> SnapshotSchedule:
    return SnapshotSchedule(Limits(snap_entries=100, snap_bytes=1000, resume_bytes_min=400), chance)


def asked(of: SnapshotSchedule) -> list[object]:
    """Ask for a snapshot, and return the list that will hold its outcome."""
    outcome: list[object] = []
    of.ask(lambda result, error: outcome.append(result if error is None else error))
    return outcome


def test_snapshot_is_due_after_so_many_entries_or_so_many_bytes() -> None:
    it, seen = schedule(), []
    for entries, size in ((49, 10), (1, 10)):
        it.count(entries, size)
        seen.append(it.due)
    it.restored()
    seen.append(it.due)
    it.count(1, 500)
    seen.append(it.due)
    assert seen == [False, True, False, True]


def test_chance_delays_a_snapshot_by_up_to_half_of_the_limit() -> None:
    it = schedule(lambda span: span)
    it.count(99, 0)
    early = it.due
    it.count(1, 0)
    assert (early, it.due) == (False, True)


def test_one_snapshot_is_written_at_a_time() -> None:
    it = schedule()
    assert it.begin(LAST)
    it.count(1000, 0)
    early = it.due
    assert not it.begin_spare(make(1, 9), None, 1_000)
    it.end()
    assert (early, it.due) == (False, True)


def test_request_is_answered_by_a_snapshot_that_begins_after_it() -> None:
    it, due = schedule(), []
    first = asked(it)
    due.append(it.due)
    assert it.begin(LAST)
    second = asked(it)
    due.append(it.due)
    for done in it.end():
        done("status", None)
    due.append(it.due)
    assert (first, second) == (["status"], [])
    assert due == [True, False, True]


def test_requests_are_refused_while_the_history_is_unknown() -> None:
    it = schedule()
    it.count(100, 0)
    outcome = asked(it)
    assert not it.begin(UNKNOWN)
    assert isinstance(outcome[0], StorageError)
    assert it.due, "the work still waits for its snapshot"
    assert it.begin(LAST)


def test_all_requests_fail_when_the_member_stops() -> None:
    it = schedule()
    outcomes = [asked(it)]
    it.begin(LAST)
    outcomes.append(asked(it))
    stopped = Stopped("over")
    it.stop(stopped)
    assert outcomes == [[stopped], [stopped]]


# -- for a learner -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("newest", "size", "applied", "begins"),
    [(None, 0, 399, False), (None, 0, 400, True), (8, 300, 99, False), (8, 300, 100, True), (9, 900, 0, False)],
    ids=["little", "enough", "little, with a snapshot", "enough, with a snapshot", "there is one at this zxid"],
)
def test_spare_snapshot_begins_if_there_is_much_to_send(
    newest: int | None, size: int, applied: int, begins: bool
) -> None:
    it = schedule()
    it.count(1, applied)
    assert it.begin_spare(make(1, 9), None if newest is None else make(1, newest), size) is begins


def test_spare_snapshot_neither_counts_as_work_nor_answers_a_request() -> None:
    it, due = schedule(), []
    it.count(50, 500)
    outcome = asked(it)
    assert it.begin_spare(make(1, 9), None, 0)
    due.append(it.due)
    assert it.end() == []
    due.append(it.due)
    assert due == [False, True]
    assert outcome == []
