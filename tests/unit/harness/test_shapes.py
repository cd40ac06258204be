"""Messages of one bug that differ in servers, nodes and values have the same shape."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.spark.shapes import shape

WATCHES = (
    (
        "client 1, session 0x48bcfe568020001: the event children /a of zxid 0x200000010 came, "
        "but the client watches nothing"
    ),
    "client 1, session 0x38bcfe568010001: the event data /a/y of zxid 0x10000000f came, but the client watches nothing",
    "client 1, session 0x58bcfe568030001: the event data /a of zxid 0x10000001b came, but the client watches data /a/x",
    (
        "client 1, session 0x18bcfe568000001: the event deleted /a/x of zxid 0x20000001b came, "
        "but the client watches data /a/y"
    ),
    (
        "client 4, session 0x68bcfe568020001: the event created /a/x of zxid 0x200000013 came, but the client watches "
        "persistent /b"
    ),
    (
        "client 1, session 0x18bcfe568040001: the event data /a/x of zxid 0x20000000a came, "
        "but the client watches child /b/x, "
        "data /a, data /b, data /b/x, recursive /a/y"
    ),
    "client 3, session 0x38bcfe568000001: the event children /b of zxid 0x30000001b came twice",
    "client 2, session 0x28bcfe568030001: the event data /b of zxid 0x200000012 came twice",
)
"""Violations of the store with a bug: a one-shot watch is not removed when it fires."""
COMMITS = (
    "server 3 commits 1/1, which is on the disks of [3]: no quorum of [1, 2, 3]",
    "server 5 commits 1/1, which is on the disks of [1, 5]: no quorum of [1, 2, 3, 4, 5]",
    "server 1 commits 2/2, which is on the disks of [1]: no quorum of [1, 2]",
    "server 5 commits 1/1, which is on the disks of []: no quorum of [1, 2, 3, 4, 5, 7]",
)
"""Violations of the list with a bug: one acknowledgement suffices for a commit."""
RECORDS = (
    "t1-0: [b'1.all.1'] at offset 2, where [] are committed",
    "t2-1: [b'2.all.2', b'1.all.7'] at offset 12, where [b'3.all.1'] are committed",
    "b'p2-14' was acknowledged in orders-0 at 9, but client 3 read from 4 to 12, and no client has read it",
    ('b"it\'s" was acknowledged in pay.ments-11 at 107, but client 12 read from 0 to 1048, and no client has read it'),
    "b'p1-3' was acknowledged in orders-1 at 0, but no client has ever read it",
    "b'p4-40' was acknowledged in orders-1, but no client has ever read it",
)
"""Violations of partitions with a bug: the leader acknowledges acks=all before its followers have the record."""


@pytest.mark.parametrize(("messages", "most"), [(WATCHES, 2), (COMMITS, 1), (RECORDS, 4)])
def test_one_bug_has_few_shapes(messages: Sequence[str], most: int) -> None:
    shapes = {shape(what) for what in messages}
    assert len(shapes) <= most, shapes
    assert {shape(each) for each in shapes} == shapes, "the shape of a shape is itself"


def test_two_bugs_of_one_invariant_have_different_shapes() -> None:
    twice, unexpected = shape(WATCHES[-1]), shape(WATCHES[0])
    assert twice == "client #, session #: the event # of zxid # came twice"
    assert unexpected == "client #, session #: the event # of zxid # came, but the client watches #"


def test_requests_and_replies_are_removed() -> None:
    wrong = "it was acknowledged, but zxid 0x10000000a contains another change"
    one = f"client 1, session 0x28bcfe568020001, call 3 (multi: set /a at version 2, delete /b for (world:r)): {wrong}"
    other = f"client 2, session 0x38bcfe568020001, call 77 (sequential create /a/x-): {wrong}"
    assert shape(one) == shape(other)
    held = "the ACL of /a is [Acl(id='x', letters=('r', 'w'))], not None"
    assert shape(held) == shape('the ACL of /b/c is [], not [Acl(id="\'", letters=())]')


def test_error_of_the_harness_keeps_its_function() -> None:
    words = shape("KeyError in _loop (world.py:12): 'b-7'")
    assert words == "KeyError in _loop of world: #"
