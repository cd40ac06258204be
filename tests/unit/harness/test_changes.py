"""What the log of the store says, as the changes that checkers read."""

from __future__ import annotations

import pytest

from harness.changes import changes_of, changes_of_batch
from harness.history import Change
from zab.core.batch import pack
from zab.core.zxid import Zxid
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.znode import CONTAINER
from zab.wire.relay_messages import TAG_BYTES


@pytest.mark.parametrize(
    ("txn", "change"),
    [
        (transactions.create(transactions.CREATE, 5, 1, 0, "/a", b"x", OPEN, 0, 1), Change(7, 5, "create", "/a", b"x")),
        (
            transactions.create(transactions.CREATE, 5, 1, 0, "/a", b"x", OPEN, 5, 1),
            Change(7, 5, "create", "/a", b"x", owner=5),
        ),
        (
            transactions.create(transactions.CREATE_CONTAINER, 5, 1, 0, "/a", None, OPEN, CONTAINER, 1),
            Change(7, 5, "create", "/a", None, mode="container"),
        ),
        (transactions.set_data(5, 1, 0, "/a", b"y", 3), Change(7, 5, "set", "/a", b"y", 3)),
        (transactions.delete(5, 1, 0, "/a"), Change(7, 5, "delete", "/a")),
        (transactions.create_session(5, 1, 0, 4_000, 2), Change(7, 5, "open")),
        (transactions.attach_session(5, 1, 0, 2), Change(7, 5, "attach")),
        (transactions.close_session(5, 1, 0, ["/a", "/b"]), Change(7, 5, "close", gone=("/a", "/b"))),
        (transactions.error(5, 1, 0, -101), Change(7, 5, "error")),
        (b"no transaction", Change(7, 0, "other")),
    ],
)
def test_a_transaction_is_a_change(txn: bytes, change: Change) -> None:
    assert changes_of(7, txn) == (change,)


def test_the_parts_of_a_multi_keep_their_places() -> None:
    parts = [transactions.set_data(5, 1, 0, "/a", b"y", 3), transactions.delete(5, 1, 0, "/b")]
    assert changes_of(7, transactions.multi(5, 1, 0, parts)) == (
        Change(7, 5, "set", "/a", b"y", 3),
        Change(7, 5, "delete", "/b", part=1),
    )


def test_a_batch_counts_its_zxids_on_and_a_membership_is_a_change() -> None:
    tag = bytes(TAG_BYTES)
    batch = pack(Zxid(7), [tag + transactions.delete(5, 1, 0, "/a"), tag + transactions.delete(5, 2, 0, "/b")])
    assert [change.zxid for change in changes_of_batch(batch)] == [7, 8]
    assert [change.kind for change in changes_of_batch(pack(Zxid(9), [b"server.1=..."], config=True))] == ["other"]
