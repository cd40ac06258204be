"""A checkpoint file that a crash has cut off is damaged, wherever it is cut."""

from __future__ import annotations

import pytest

from replica.storage.checkpoint_files import decode, decode_epochs, encode
from replica.storage.files import DamagedLog

ENTRIES = [(0, 0), (1, 21), (12, 345)]


def test_file_is_read_as_it_was_written() -> None:
    assert decode_epochs(encode(ENTRIES)) == ENTRIES
    assert decode_epochs(encode([])) == []


def test_file_that_ends_too_early_is_damaged() -> None:
    data = encode(ENTRIES)
    for end in range(len(data)):
        with pytest.raises(DamagedLog):
            decode_epochs(data[:end])


def test_number_that_may_lack_digits_is_refused() -> None:
    with pytest.raises(DamagedLog, match="epochs ends in the middle of a line"):
        decode(b"0\n1\n1 2", "epochs", 2)


def test_digit_that_is_no_number_is_refused() -> None:
    with pytest.raises(DamagedLog, match="invalid line .1 \u00b2"):
        decode("0\n1\n1 \u00b2\n".encode(), "epochs", 2)
