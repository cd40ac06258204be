from __future__ import annotations

import pytest

from tests.unit.store.support import ALICE, NOW, SECRET
from zab.core.errors import DamagedError
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.transactions import decode

ACL = ((31, "digest", "joe:x"), (1, "world", "anyone"))
HEAD = (ALICE, 7, NOW)

CASES = [
    (
        transactions.create(transactions.CREATE, *HEAD, "/é", b"data", OPEN, 0, 3),
        Op.CREATE,
        ("/é", b"data", OPEN, 0, 3),
    ),
    (
        transactions.create(transactions.CREATE2, *HEAD, "/a", None, ACL, ALICE, -1),
        Op.CREATE2,
        ("/a", None, ACL, ALICE, -1),
    ),
    (
        transactions.create(transactions.CREATE_TTL, *HEAD, "/a", b"", ACL, -5, 1),
        Op.CREATE_TTL,
        ("/a", b"", ACL, -5, 1),
    ),
    (transactions.delete(*HEAD, "/a"), Op.DELETE, ("/a",)),
    (transactions.delete(*HEAD, "/a", transactions.DELETE_CONTAINER), Op.DELETE_CONTAINER, ("/a",)),
    (transactions.set_data(*HEAD, "/a", None, 9), Op.SET_DATA, ("/a", None, 9)),
    (transactions.set_data(*HEAD, "/é", b"", 9), Op.SET_DATA, ("/é", b"", 9)),
    (transactions.set_data(*HEAD, "/a", b"x", -1, transactions.RECONFIG), Op.RECONFIG, ("/a", b"x", -1)),
    (transactions.set_acl(*HEAD, "/a", ACL, 2), Op.SET_ACL, ("/a", ACL, 2)),
    (transactions.check(*HEAD, "/a", 2), Op.CHECK, ("/a", 2)),
    (transactions.error(*HEAD, -110), Op.ERROR, (-110,)),
    (transactions.create_session(*HEAD, 4000, 2), Op.CREATE_SESSION, (4000, 2)),
    (transactions.attach_session(*HEAD, 2), Op.ATTACH_SESSION, (2,)),
    (transactions.close_session(*HEAD, ["/a", "/é"]), Op.CLOSE_SESSION, (("/a", "/é"),)),
]


@pytest.mark.parametrize(("txn", "op", "body"), CASES, ids=[op.name for _, op, _ in CASES])
def test_there_and_back(txn: bytes, op: Op, body: tuple[object, ...]) -> None:
    assert decode(txn) == transactions.Transaction(op, *HEAD, body)
    assert decode(transactions.checkpoint(5, 2**64 - 1, txn)) == decode(txn)
    assert decode(transactions.multi(*HEAD, [txn, txn])) == transactions.Transaction(
        Op.MULTI, *HEAD, (decode(txn),) * 2
    )


def test_many_and_none() -> None:
    assert decode(transactions.multi(*HEAD, [])).body == ()
    codes = [each.body[0] for each in decode(transactions.failed_multi(*HEAD, 4, 1, -101)).body]
    assert codes == [0, -101, -2, -2]
    assert decode(transactions.set_secret(NOW, SECRET)) == transactions.Transaction(Op.SET_SECRET, 0, 0, NOW, ())


def test_they_are_small() -> None:
    assert len(transactions.set_data(*HEAD, "/node", bytes(128), 1)) == 33 + 5 + 128


@pytest.mark.parametrize("txn", [b"", b"\0", b"\x05", bytes(40), b"\xff" * 40, CASES[0][0][:-1], CASES[0][0] + b"x",
                                 CASES[6][0] + b"x"])  # fmt: skip
def test_noise(txn: bytes) -> None:
    with pytest.raises(DamagedError):
        decode(txn)
