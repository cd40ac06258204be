"""The numbers that order everything: two halves, one order, and no holes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.core.zxid import (
    COUNTER_MAX,
    EPOCH_MAX,
    NOTHING,
    UNKNOWN,
    Zxid,
    counter_of,
    epoch_of,
    follows,
    make,
    parse,
    show,
)

epochs = st.integers(0, EPOCH_MAX)
counters = st.integers(0, COUNTER_MAX)
zxids = st.builds(make, epochs, counters)
small_zxids = st.builds(make, st.integers(0, 3), st.integers(0, 4))


@given(epochs, counters)
@pytest.mark.mechanism(103)
def test_the_two_halves_come_back(epoch: int, counter: int) -> None:
    zxid = make(epoch, counter)
    assert (epoch_of(zxid), counter_of(zxid)) == (epoch, counter)


@given(zxids)
def test_a_zxid_fits_a_signed_word(zxid: Zxid) -> None:
    assert 0 <= zxid < 1 << 63


@given(epochs, counters, epochs, counters)
def test_order_is_epoch_first_then_counter(epoch: int, counter: int, other_epoch: int, other_counter: int) -> None:
    assert (make(epoch, counter) < make(other_epoch, other_counter)) == (
        (epoch, counter) < (other_epoch, other_counter)
    )


@given(zxids)
def test_text_round_trip(zxid: Zxid) -> None:
    assert parse(show(zxid)) == zxid


def test_text_of_the_special_ones() -> None:
    assert show(make(2, 1)) == "2/1"
    assert show(NOTHING) == "0/0"
    assert show(UNKNOWN) == "unknown"
    assert parse("unknown") == UNKNOWN


@pytest.mark.parametrize("text", ["", "1", "/", "1/", "/1", "-1/2", "1/-2", "1/2/3", "a/b", "0x1/2", "1 /2", "Unknown"])
def test_text_that_is_no_zxid(text: str) -> None:
    with pytest.raises(ValueError, match="expected a zxid like 2/1"):
        parse(text)


# -- follows: the one rule about holes ---------------------------------------------------------------


@given(epochs, st.integers(0, COUNTER_MAX - 1))
def test_inside_an_epoch_only_the_next_one_follows(epoch: int, counter: int) -> None:
    zxid = make(epoch, counter)
    assert follows(make(epoch, counter + 1), zxid)
    assert not follows(zxid, zxid)
    assert not follows(zxid, make(epoch, counter + 1))


@given(epochs, counters, counters)
def test_inside_an_epoch_nothing_else_follows(epoch: int, counter: int, other: int) -> None:
    assert follows(make(epoch, other), make(epoch, counter)) == (other == counter + 1)


@given(zxids, zxids)
@pytest.mark.mechanism(103)
def test_a_new_epoch_begins_at_one_wherever_the_old_one_ended(zxid: Zxid, previous: Zxid) -> None:
    if epoch_of(zxid) != epoch_of(previous):
        assert follows(zxid, previous) == (epoch_of(zxid) > epoch_of(previous) and counter_of(zxid) == 1)
    assert not (epoch_of(zxid) > epoch_of(previous)) or follows(make(epoch_of(zxid), 1), previous)


def test_a_full_counter_is_followed_by_the_next_epoch_alone() -> None:
    full = make(4, COUNTER_MAX)
    assert not follows(Zxid(full + 1), full), "that number is 5/0, which is no transaction"
    assert follows(make(5, 1), full)
    assert follows(make(9, 1), full), "epochs may be skipped: leaders fail before they propose anything"


@given(small_zxids, small_zxids)
def test_following_zxid_is_newer(zxid: Zxid, previous: Zxid) -> None:
    if follows(zxid, previous):
        assert zxid > previous


@given(st.lists(small_zxids, max_size=6))
def test_nothing_stands_between_neighbours_of_one_history(history: list[Zxid]) -> None:
    """A history of allowed steps lacks no zxid of an epoch before a present one."""
    chain = [NOTHING]
    for zxid in history:
        if follows(zxid, chain[-1]):
            chain.append(zxid)
    for zxid in chain[1:]:
        expected = {make(epoch_of(zxid), counter) for counter in range(1, counter_of(zxid) + 1)}
        assert expected <= set(chain)
