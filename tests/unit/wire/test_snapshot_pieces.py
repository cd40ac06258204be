from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.core.errors import WireError
from zab.core.messages import Ping, SnapBegin, SnapChunk, SnapEnd
from zab.core.zxid import make
from zab.wire.relay_messages import SnapPiece
from zab.wire.snapshot_pieces import SnapshotPieces, cut_chunk


@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(1, 20), st.integers(1, 5))
def test_chunks_are_joined_regardless_of_their_boundaries(
    chunks: list[bytes], piece_bytes_max: int, at_once: int
) -> None:
    sent: list[Any] = [SnapBegin(make(1, 1), 0)]
    for chunk in chunks:
        sent += cut_chunk(chunk, piece_bytes_max)
    sent.append(SnapEnd())
    assert all(len(each.data) <= piece_bytes_max for each in sent[1:-1])
    pieces = SnapshotPieces(50)
    joined = [
        message for start in range(0, len(sent), at_once) for message in pieces.join(sent[start : start + at_once])
    ]
    assert joined == [SnapBegin(make(1, 1), 0), *map(SnapChunk, chunks), SnapEnd()]
    assert pieces.held_bytes == 0


def test_a_chunk_that_fits_is_not_cut() -> None:
    assert list(cut_chunk(b"12345", 5)) == [SnapChunk(b"12345")]
    assert list(cut_chunk(b"", 5)) == [SnapChunk(b"")]
    assert list(cut_chunk(b"123456", 5)) == [SnapPiece(b"12345"), SnapChunk(b"6")]


def test_no_more_is_held_than_a_chunk_may_have() -> None:
    pieces = SnapshotPieces(10)
    assert pieces.join([SnapPiece(bytes(6)), SnapChunk(bytes(4))]) == [SnapChunk(bytes(10))]
    assert pieces.join([SnapPiece(bytes(10))]) == []
    with pytest.raises(WireError, match=r"more than 10 bytes \(Limits.snapshot_chunk_bytes_max\)"):
        pieces.join([SnapPiece(b"1")])
    assert pieces.held_bytes == 10
    with pytest.raises(WireError, match="more than 10 bytes"):
        pieces.join([SnapChunk(b"1")])


@pytest.mark.parametrize("stranger", [SnapEnd(), SnapBegin(make(1, 1), 0), Ping(1, make(1, 1))])
def test_nothing_comes_between_the_pieces_of_a_chunk(stranger: object) -> None:
    with pytest.raises(WireError, match=f"{type(stranger).__name__} between the pieces"):
        SnapshotPieces(10).join([SnapPiece(b"1"), stranger])
