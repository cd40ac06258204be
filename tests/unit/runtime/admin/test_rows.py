"""How many rows an answer has, and how much of a long listing is looked at for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from zab.runtime.admin.rows import Rows


def counted(seen: list[int]) -> Iterator[int]:
    for number in count():
        seen.append(number)
        yield number


def test_a_listing_without_end_is_looked_at_for_one_row_more_than_the_answer_has() -> None:
    rows, seen = Rows(3), list[int]()
    assert list(rows.take(counted(seen))) == [0, 1, 2]
    assert seen == [0, 1, 2, 3]
    assert rows.values == {"truncated": 3}
    assert "3 rows" in rows.line


@pytest.mark.parametrize("length", [0, 2, 3])
def test_a_listing_that_fits_is_whole(length: int) -> None:
    rows = Rows(3)
    assert list(rows.take(range(length))) == list(range(length))
    assert (rows.values, rows.line) == ({}, "")


def test_several_listings_share_the_rows_of_an_answer() -> None:
    rows = Rows(3)
    assert [list(rows.take("ab")), list(rows.take("cd")), list(rows.take("ef"))] == [["a", "b"], ["c"], []]
    assert rows.cut
