"""The page of mechanisms matches the marks of the tests."""

from __future__ import annotations

from tests.mechanisms import MECHANISMS, PAGE, marked, page


def test_page_matches_the_marks() -> None:
    assert PAGE.read_text() == page(marked()), "run: python -m tests.mechanisms"


def test_every_mark_is_a_mechanism() -> None:
    known = {number for rows in MECHANISMS.values() for number in rows}
    assert set(marked()) <= known
    assert known == set(range(1, 123))


def test_every_mechanism_is_shown() -> None:
    assert [number for rows in MECHANISMS.values() for number in rows if number not in marked()] == []
