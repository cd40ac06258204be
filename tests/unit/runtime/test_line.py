"""The line of replies: what is due, and what keeps the rest waiting."""

from __future__ import annotations

from zab.runtime.coordination.line import Line, Slot

SET, GET, SYNC = 5, 4, 9


def test_nothing_is_due_in_an_empty_line() -> None:
    assert Line().due() is None


def test_a_read_is_due_when_it_stands_in_front() -> None:
    line = Line([(GET, 1, b"a"), (GET, 2, b"b")])
    assert [line.due(), line.due(), line.due()] == [(GET, 1, b"a"), (GET, 2, b"b"), None]


def test_a_write_keeps_its_place_and_all_behind_it_wait() -> None:
    line = Line([(SET, 1, None), (GET, 2, b"")])
    assert line.due() is None
    assert len(line) == 2
    line.popleft()
    assert line.due() == (GET, 2, b"")


def test_a_slot_is_due_when_it_is_done() -> None:
    slot = Slot()
    line = Line([(SYNC, 1, slot)])
    assert line.due() is None
    slot.done = True
    assert line.due() == (SYNC, 1, slot)
    assert not line
