"""Messages come out of a stream as they went in, wherever the network cuts it."""

from __future__ import annotations

from random import Random

import pytest

from replica.core.errors import WireError
from replica.wire.framing import Framing

MAX = 100


@pytest.mark.parametrize("seed", range(20))
def test_however_it_is_cut(seed: int) -> None:
    random = Random(seed)
    sent = [random.randbytes(random.randrange(1, MAX + 1)) for _ in range(60)]
    stream = b"".join(len(each).to_bytes(4, "big") + each for each in sent)
    framing, at, heard = Framing(MAX), 0, []
    while at < len(stream):
        size = random.choice((1, 3, 4, 7, 104, 500))
        heard += framing.feed(stream[at : at + size])
        at += size
        assert framing.held_bytes < MAX + 4
        assert framing.missing_bytes > 0
    assert heard == sent
    assert framing.held_bytes == 0


@pytest.mark.parametrize("length", [0, -1, MAX + 1])
@pytest.mark.parametrize("cut", [4, 5, 12])
def test_a_length_that_cannot_be(length: int, cut: int) -> None:
    stream = b"\0\0\0\1x" + length.to_bytes(4, "big", signed=True) + b"more"
    framing = Framing(MAX)
    with pytest.raises(WireError, match=f"a message of {length} bytes"):
        for start in range(0, len(stream), cut):
            framing.feed(stream[start : start + cut])
    assert framing.held_bytes < MAX + 4, "nothing of what it announces is kept"


def test_a_message_in_one_piece_is_not_held() -> None:
    framing = Framing(MAX)
    assert framing.feed(b"\0\0\0\2ab\0\0\0\1") == [b"ab"]
    assert (framing.held_bytes, framing.missing_bytes) == (4, 1)
    assert framing.feed(b"c") == [b"c"]
    assert (framing.held_bytes, framing.missing_bytes) == (0, 4)
