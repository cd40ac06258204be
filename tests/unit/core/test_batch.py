"""Batches: properties of a batch hold for its parts."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.core.batch import Batch, contradict, digest_of, pack
from zab.core.errors import RemoteProtocolError
from zab.core.zxid import COUNTER_MAX, Zxid, make

payload_lists = st.lists(st.binary(max_size=40), min_size=1, max_size=12)
firsts = st.builds(make, st.integers(0, 9), st.integers(1, 1_000))


@given(firsts, payload_lists, st.booleans())
def test_payloads_come_back_untouched(first: Zxid, payloads: list[bytes], config: bool) -> None:
    batch = pack(first, payloads, config=config)
    assert batch.payloads() == payloads
    assert (batch.first, batch.count, batch.config) == (first, len(payloads), config)
    assert batch.last - batch.first == len(payloads) - 1
    assert batch.size == len(batch.body)


@given(firsts, payload_lists, st.data())
def test_every_cut_leaves_two_halves_that_join_again(first: Zxid, payloads: list[bytes], data: st.DataObject) -> None:
    batch = pack(first, payloads)
    cut = Zxid(data.draw(st.integers(first, batch.last), label="cut"))
    head = batch.until(cut)
    assert head.payloads() == payloads[: cut - first + 1]
    assert (head.first, head.last) == (first, cut)
    if cut < batch.last:
        tail = batch.after(cut)
        assert head.payloads() + tail.payloads() == payloads
        assert (tail.first, tail.last) == (cut + 1, batch.last)


@given(firsts, payload_lists)
def test_a_cut_that_cuts_nothing_off_copies_nothing(first: Zxid, payloads: list[bytes]) -> None:
    batch = pack(first, payloads)
    assert batch.after(Zxid(first - 1)) is batch
    assert batch.until(batch.last) is batch
    assert batch.until(make(99, 1)) is batch


def test_a_part_of_a_membership_change_is_still_one() -> None:
    batch = pack(make(1, 5), [b"version=0", b"never in practice"], config=True)
    assert batch.after(make(1, 5)).config
    assert batch.until(make(1, 5)).config


def test_a_batch_fills_its_epoch_to_the_last_number_and_not_beyond() -> None:
    assert pack(make(3, COUNTER_MAX), [b""]).last == make(3, COUNTER_MAX)
    with pytest.raises(AssertionError, match="within one epoch"):
        pack(make(3, COUNTER_MAX), [b"", b""])


def test_nothing_is_no_batch() -> None:
    with pytest.raises(AssertionError, match="empty batch"):
        pack(make(1, 1), [])


# -- a body comes from a peer: any doubt is the peer's fault -------------------------------------------


@pytest.mark.parametrize(
    ("count", "body"),
    [
        (1, b""),
        (1, b"\xc1"),
        (1, msgpack.packb([b"a"]) + b"\x00"),
        (2, msgpack.packb([b"a"])),
        (1, msgpack.packb([b"a", b"b"])),
        (0, msgpack.packb([b"a"])),
        (1, msgpack.packb(["text"])),
        (1, msgpack.packb([7])),
        (1, msgpack.packb([[b"a"]])),
        (1, msgpack.packb({b"a": b"b"})),
        (1, msgpack.packb(b"a")),
        (1, b"\x91\xc6\xff\xff\xff\xff"),
        (1, b"\x91" * 5_000),
    ],
)
def test_body_of_unexpected_length(count: int, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="batch at 7/1"):
        Batch(make(7, 1), count, body).payloads()


@given(st.integers(0, 20), st.binary(max_size=60))
def test_noise_is_payloads_or_a_remote_error_and_nothing_else(count: int, body: bytes) -> None:
    try:
        payloads = Batch(make(7, 1), count, body).payloads()
    except RemoteProtocolError:
        return
    assert len(payloads) == count
    assert all(type(payload) is bytes for payload in payloads)


# -- digest --------------------------------------------------------------------------------------------


@given(payload_lists, payload_lists, st.integers(0, 0xFFFF_FFFF))
def test_a_digest_carries_on_however_the_history_was_cut(before: list[bytes], after: list[bytes], digest: int) -> None:
    assert digest_of(before + after, digest) == digest_of(after, digest_of(before, digest))


@given(payload_lists, st.data())
def test_one_flipped_bit_changes_the_digest(payloads: list[bytes], data: st.DataObject) -> None:
    with_bytes = [index for index, payload in enumerate(payloads) if payload]
    if not with_bytes:
        return
    index = data.draw(st.sampled_from(with_bytes))
    bit = data.draw(st.integers(0, 8 * len(payloads[index]) - 1))
    flipped = bytearray(payloads[index])
    flipped[bit // 8] ^= 1 << bit % 8
    other = [*payloads[:index], bytes(flipped), *payloads[index + 1 :]]
    assert digest_of(other, 0) != digest_of(payloads, 0)


def test_digest_of_the_empty_tree_is_stable() -> None:
    assert digest_of([], 7) == 7


@pytest.mark.parametrize(("one", "other"), [(7, None), (None, 0), (None, None), (7, 7)])
def test_a_digest_that_is_not_known_contradicts_none(one: int | None, other: int | None) -> None:
    assert not contradict(one, other)
    assert contradict(7, 0)
