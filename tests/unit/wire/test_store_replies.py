"""The store's own answers, through the wire, as the client understands them."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from zab.store import transactions
from zab.store.acl import OPEN, Acl, Identity
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.store import Store
from zab.store.znode import CONTAINER, Stat, stat_of, ttl_owner
from zab.wire.client import requests
from zab.wire.client.client_frames import ReplyReader
from zab.wire.client.replies import decode_body
from zab.wire.client.store_replies import read_reply, write_reply

NOW = 1_700_000_000_000
WHO = (7, 1, NOW)


@frozen(eq=False)
class Somebody:
    session: int = 7
    identities: tuple[Identity, ...] = field(default=(("ip", "::1"), ("digest", "u:secret")))


class Rig:
    """A store with a client's view of it."""

    def __init__(self) -> None:
        self.store = Store()
        self.zxid = 0

    def write(self, op: int, txn: bytes) -> Any:
        self.zxid += 1
        result = self.store.apply(self.zxid, txn)
        return self._seen(op, write_reply(op, 9, result))

    def read(self, op: int, *fields: Any) -> Any:
        return self._seen(op, read_reply(op, 9, self.zxid, self.store.reads.read(op, fields, Somebody())))

    def _seen(self, op: int, frame: bytes) -> Any:
        ((xid, zxid, error, body),) = ReplyReader().feed(frame)
        assert (xid, zxid) == (9, self.zxid)
        assert not (error and body)
        return error or decode_body(op, body)

    def stat(self, path: str) -> Stat:
        return stat_of(self.store.tree.nodes[path])


def create(path: str, data: bytes | None = b"data", acl: Acl = OPEN, owner: int = 0, kind: int = Op.CREATE) -> bytes:
    return transactions.create(kind, *WHO, path, data, acl, owner, 1)


def test_writes() -> None:
    rig = Rig()
    assert rig.write(Op.CREATE, create("/a")) == "/a"
    assert rig.write(Op.CREATE2, create("/b", None, kind=Op.CREATE2)) == ("/b", rig.stat("/b"))
    container = rig.write(Op.CREATE_CONTAINER, create("/c", owner=CONTAINER, kind=Op.CREATE_CONTAINER))
    assert container == ("/c", rig.stat("/c"))
    assert container[1].ephemeral_owner == 0, "what kind of node it is, is nobody's business"
    assert rig.write(Op.SET_DATA, transactions.set_data(*WHO, "/a", b"new", 1)) == rig.stat("/a")
    assert rig.write(Op.SET_ACL, transactions.set_acl(*WHO, "/a", OPEN, 1)) == rig.stat("/a")
    assert rig.write(Op.DELETE, transactions.delete(*WHO, "/c")) is None
    assert rig.write(Op.CREATE, transactions.error(*WHO, ErrorCode.NODE_EXISTS)) == ErrorCode.NODE_EXISTS
    assert rig.write(Op.RECONFIG, transactions.error(*WHO, ErrorCode.NO_AUTH)) == ErrorCode.NO_AUTH
    assert rig.write(Op.CLOSE_SESSION, transactions.close_session(*WHO, ())) is None


def test_a_multi() -> None:
    rig = Rig()
    parts = [
        create("/a"), create("/b", kind=Op.CREATE2), create("/t", owner=ttl_owner(9), kind=Op.CREATE_TTL),
        transactions.set_data(*WHO, "/a", b"", 1), transactions.check(*WHO, "/a", 1), transactions.delete(*WHO, "/a"),
    ]  # fmt: skip
    first, second, third, changed, checked, deleted = rig.write(Op.MULTI, transactions.multi(*WHO, parts))
    assert first == (Op.CREATE, "/a")
    assert second == (Op.CREATE2, ("/b", rig.stat("/b")))
    assert third == (Op.CREATE2, ("/t", rig.stat("/t"))), "there is no answer of its own for this one"
    assert changed[0] == Op.SET_DATA
    assert changed[1].version == 1
    assert (checked, deleted) == ((Op.CHECK, None), (Op.DELETE, None))


def test_a_multi_that_failed_is_no_error() -> None:
    failed = transactions.failed_multi(*WHO, 3, 1, ErrorCode.NO_NODE)
    assert Rig().write(Op.MULTI, failed) == [(Op.ERROR, 0), (Op.ERROR, ErrorCode.NO_NODE), (Op.ERROR, -2)]


def test_reads() -> None:
    rig = Rig()
    acl: Acl = ((31, "digest", "u:secret"), (1, "world", "anyone"))
    rig.write(Op.CREATE, create("/a", acl=acl))
    rig.write(Op.CREATE, create("/a/b", None))
    rig.write(Op.CREATE, create("/a/mine", b"", owner=7))
    stat = rig.stat("/a")
    assert (stat.num_children, stat.data_length) == (2, 4)
    assert rig.read(Op.GET_DATA, "/a", False) == (b"data", stat)
    assert rig.read(Op.GET_DATA, "/a/b", False) == (None, rig.stat("/a/b"))
    assert rig.read(Op.EXISTS, "/a", True) == stat
    assert rig.read(Op.EXISTS, "/none", True) == ErrorCode.NO_NODE
    assert rig.read(Op.GET_CHILDREN, "/a", False) == ["b", "mine"]
    assert rig.read(Op.GET_CHILDREN2, "/a", False) == (["b", "mine"], stat)
    assert rig.read(Op.GET_ACL, "/a") == (acl, stat)
    assert rig.read(Op.GET_EPHEMERALS, None) == ["/a/mine"]
    assert rig.read(Op.GET_ALL_CHILDREN_NUMBER, "/a") == 2
    assert rig.read(Op.WHO_AM_I) == (("ip", "::1"), ("digest", "u"))
    reads: Fields = ((Op.GET_DATA, ("/a", False)), (Op.GET_DATA, ("/no", False)), (Op.GET_CHILDREN, ("/a", False)))
    assert rig.read(Op.MULTI_READ, *reads) == [
        (Op.GET_DATA, (b"data", stat)), (Op.ERROR, ErrorCode.NO_NODE), (Op.GET_CHILDREN, ["b", "mine"]),
    ]  # fmt: skip


def test_watches_are_answered_with_next_to_nothing() -> None:
    rig = Rig()
    assert rig.read(Op.ADD_WATCH, "/", 0) == 0
    assert rig.read(Op.CHECK_WATCHES, "/", 1) == ErrorCode.NO_WATCHER
    assert rig.read(Op.SET_WATCHES, 0, (), (), ()) is None


def test_leader_decodes_a_forwarded_request() -> None:
    frame = requests.encode_request(Op.SET_DATA, 1, ("/a", b"x", -1))
    assert requests.decode_fields(Op.SET_DATA, frame, 12) == ("/a", b"x", -1)
