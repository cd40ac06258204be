from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zab.core.errors import WireError
from zab.wire.frames import FrameReader, frame


def test_all_complete_frames_of_one_receive_come_out_at_once() -> None:
    reader = FrameReader(100)
    assert reader.feed(frame(b"one") + frame(b"two") + frame(b"three")[:5]) == [b"one", b"two"]
    assert reader.feed(frame(b"three")[5:]) == [b"three"]
    assert reader.held_bytes == 0


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=20), st.integers(0, 2**32))
@settings(derandomize=True, max_examples=200)
def test_frames_survive_any_cut_of_the_stream(payloads: list[bytes], seed: int) -> None:
    stream = b"".join(map(frame, payloads))
    random = Random(seed)
    reader = FrameReader(50)
    received: list[bytes] = []
    position = 0
    while position < len(stream):
        size = random.choice((1, 2, 3, 5, 40, 200))
        received += reader.feed(stream[position : position + size])
        position += size
    assert received == payloads
    assert reader.held_bytes == 0


def test_torn_frame_is_held_and_reported() -> None:
    reader = FrameReader(100)
    assert reader.feed(frame(b"payload")[:-1]) == []
    assert reader.held_bytes == 4 + 6


@pytest.mark.parametrize("head", [b"\0\0\0\0", b"\0\0\0\x65", b"\xff\xff\xff\xff", b"GET "])
def test_a_length_that_lies_is_an_error_before_its_bytes_arrive(head: bytes) -> None:
    reader = FrameReader(100)
    with pytest.raises(WireError, match="a frame of"):
        reader.feed(frame(b"fine") + head)


def test_the_bound_itself_is_allowed() -> None:
    assert FrameReader(100).feed(frame(b"x" * 100)) == [b"x" * 100]


def test_a_big_frame_in_small_pieces_is_looked_at_once() -> None:
    """Were the held bytes copied at every receive, this would move 50 GB and not end."""
    reader = FrameReader(1 << 24)
    payload = bytes(1 << 24)
    stream = frame(payload)
    received: list[bytes] = []
    for position in range(0, len(stream), 2048):
        received += reader.feed(stream[position : position + 2048])
    assert received == [payload]
