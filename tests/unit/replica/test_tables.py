"""Tables of handlers and guards: each API has one row."""

from __future__ import annotations

import pytest

from replica.runtime.requests import ApiKey, joined


def test_tables_that_share_a_key_cannot_be_joined() -> None:
    first, second = {ApiKey.FETCH: 1}, {ApiKey.PRODUCE: 2}
    assert joined(first, second) == {**first, **second}
    with pytest.raises(AssertionError, match="FETCH"):
        joined(first, second, first)
