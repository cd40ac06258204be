"""Noise, and good bytes gone wrong, at every decoder of ZooKeeper's protocol and files."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.target import Target
from tests.fuzz.zookeeper_targets import TARGETS
from zab.store.operations import Op
from zab.wire.client import requests
from zab.wire.client.client_frames import RequestReader

targets = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
NASTY = [0, 1, 2, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x2F000000, 0x10000]


@st.composite
def gone_wrong(draw: st.DrawFn, seed: bytes) -> bytes:
    """Cut, stretched, overwritten: a few times over."""
    data = bytearray(seed)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 4)):
            case 0:
                del data[at:]
            case 1:
                del data[at : at + draw(st.integers(1, 8))]
            case 2:
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case 3:
                data[at : at + 4] = draw(st.sampled_from(NASTY)).to_bytes(4, "big")
            case _:
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
    return bytes(data)


@targets
@given(data=st.data())
@settings(max_examples=50)
def test_nothing_but_the_declared_error(target: Target, data: st.DataObject) -> None:
    target.run(data.draw(st.one_of(st.binary(max_size=200), st.sampled_from(target.seeds).flatmap(gone_wrong))))


@pytest.mark.fuzz
@targets
@given(data=st.data())
@settings(max_examples=100_000, derandomize=False)
def test_the_same_for_as_long_as_one_likes(target: Target, data: st.DataObject) -> None:
    target.run(data.draw(st.one_of(st.binary(max_size=200), st.sampled_from(target.seeds).flatmap(gone_wrong))))


@targets
def test_seeds_are_accepted_and_every_cut_of_them_is_survived(target: Target) -> None:
    for seed in target.seeds:
        assert target.run(seed)
        for end in range(len(seed) + 1):
            target.run(seed[:end])


# -- memory --------------------------------------------------------------------------------------------

MIB = 1 << 20
INT_MAX = bytes.fromhex("7fffffff")
BODIES = {
    "a count that lies": (Op.SET_WATCHES, bytes(8) + INT_MAX + bytes(MIB)),
    "nothing but empty paths": (Op.SET_WATCHES, bytes(8) + (MIB // 4).to_bytes(4, "big") + bytes(MIB + 8)),
    "an acl that lies": (Op.CREATE, bytes(8) + INT_MAX + bytes(MIB)),
    "empty entries": (Op.CREATE, bytes(8) + (MIB // 12).to_bytes(4, "big") + bytes(MIB + 16)),
    "data that lies": (Op.SET_DATA, bytes(4) + INT_MAX + bytes(MIB)),
    "many small operations": (Op.MULTI, bytes.fromhex("0000000200ffffffff0000000000000000") * (MIB // 17)),
    "many small reads": (Op.MULTI_READ, bytes.fromhex("0000000400ffffffff0000000000") * (MIB // 14)),
}


@pytest.mark.parametrize(("opcode", "body"), BODIES.values(), ids=BODIES)
def test_a_body_takes_no_more_memory_than_a_few_times_its_size(opcode: int, body: bytes) -> None:
    tracemalloc.start()
    try:
        requests.decode_request(opcode, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * len(body)


def test_a_frame_that_never_ends_is_not_collected() -> None:
    """The length is within the bounds, and only its received bytes are held."""
    reader = RequestReader(FRAME_BYTES := 1 << 16)
    reader.feed(FRAME_BYTES.to_bytes(4, "big"))
    for _ in range(FRAME_BYTES // 1024 - 1):
        assert reader.feed(bytes(1024)) == []
    assert reader.held_bytes == 4 + FRAME_BYTES - 1024
