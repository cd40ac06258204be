from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zab.core.batch import Batch, pack
from zab.core.errors import LocalProtocolError, WireError
from zab.core.zxid import Zxid
from zab.store import transactions
from zab.store.acl import OPEN, READ_ONLY
from zab.store.operations import Fields, Op
from zab.store.znode import TTL_MAX
from zab.wire.apache.proposals import (
    DIGESTS_MAX,
    NO_TAG,
    ProposalEncoder,
    batch_of,
    canonical,
    decode_proposal,
    txns_of,
)
from zab.wire.disk_txn import FileTxn, decode_txn, encode_txn

ZXID = Zxid(0x1_0000_0005)
SESSION = 0x100000000000007
CONFIG = b"server.1=a:1:2:participant\nversion=100000005"
FIELDS: dict[Op, list[Fields]] = {
    Op.CREATE: [("/a", b"x", OPEN, False, 1), ("/e", None, READ_ONLY, True, 7)],
    Op.CREATE2: [("/a", b"", READ_ONLY, True, 1)],
    Op.CREATE_CONTAINER: [("/c", None, OPEN, 5)],
    Op.CREATE_TTL: [("/t", b"t", OPEN, 5, 1), ("/t", b"t", OPEN, 5, TTL_MAX)],
    Op.DELETE: [("/a",)],
    Op.DELETE_CONTAINER: [("/c",)],
    Op.SET_DATA: [("/a", b"x", 4), ("/a", None, 0)],
    Op.SET_ACL: [("/a", READ_ONLY, 3)],
    Op.ERROR: [(-101,)],
    Op.CREATE_SESSION: [(30_000,)],
    Op.CLOSE_SESSION: [((),), (("/e", "/f"),)],
    Op.MULTI: [
        (),
        ((Op.CHECK, ("/a", 3)), (Op.CREATE, ("/m", b"", OPEN, True, 7)), (Op.SET_DATA, ("/m", None, 1))),
        ((Op.DELETE, ("/m",)), (Op.DELETE_CONTAINER, ("/c",))),
        ((Op.CREATE_TTL, ("/t", b"t", OPEN, 5, 9)), (Op.CREATE_CONTAINER, ("/c", b"", OPEN, 5))),
        ((Op.ERROR, (0,)), (Op.ERROR, (-101,)), (Op.ERROR, (-2,))),
    ],
    Op.RECONFIG: [("/zookeeper/config", CONFIG, -1)],
}  # fmt: skip
EACH = [pytest.param(op, fields, id=f"{op.name}-{number}") for op in FIELDS for number, fields in enumerate(FIELDS[op])]


def txn(kind: int, fields: Fields, digest: tuple[int, int] | None = None) -> FileTxn:
    header = (0, 0, ZXID, 0) if kind == Op.RECONFIG else (SESSION, 3, ZXID, 1_700_000_000_000)
    return FileTxn(*header, kind, fields, digest)


@pytest.mark.parametrize(("kind", "fields"), EACH)
def test_every_kind_survives_without_its_digest(kind: Op, fields: Fields) -> None:
    batch = batch_of(decode_proposal(encode_txn(txn(kind, fields, (2, 99))), ZXID))
    assert (batch.first, batch.count, batch.config) == (ZXID, 1, kind is Op.RECONFIG)
    assert list(txns_of(batch)) == [txn(kind, fields)]
    ((zxid, data),) = ProposalEncoder().encode(batch)
    assert zxid == ZXID
    assert data == encode_txn(txn(kind, fields))


@pytest.mark.parametrize(("kind", "fields"), [each for each in EACH if each.values[0] is not Op.RECONFIG])
def test_canonical_is_what_a_server_gets_from_zookeeper(kind: Op, fields: Fields) -> None:
    (payload,) = batch_of(txn(kind, fields)).payloads()
    assert payload.startswith(NO_TAG)
    assert canonical(ZXID, payload[len(NO_TAG) :]) == payload


def test_canonical_leaves_out_what_zookeeper_does_not_have() -> None:
    session = transactions.create_session(SESSION, 0, 5, 30_000, 3)
    assert canonical(ZXID, session) == NO_TAG + transactions.create_session(SESSION, 0, 5, 30_000, 0)
    deleted = transactions.delete(SESSION, 1, 5, "/a")
    assert canonical(ZXID, transactions.checkpoint(7, 8, deleted)) == NO_TAG + deleted


def test_failed_multis_are_equal_whatever_their_records_hold() -> None:
    before = (Op.CHECK, ("/b", 0)), (Op.CREATE, ("/m", b"", OPEN, False, 7))
    stale = (Op.ERROR, (2, b"/b\0\0\0\2")), (Op.ERROR, (4, b"/b/m\0\0\0\1m"))
    plain = (Op.ERROR, (0,)), (Op.ERROR, (0,))
    tail = (Op.ERROR, (-101,)), (Op.ERROR, (-2,))
    batches = {batch_of(decode_txn(encode_txn(txn(Op.MULTI, (*parts, *tail))))) for parts in (before, stale, plain)}
    assert len(batches) == 1
    ((again,),) = [list(txns_of(batch)) for batch in batches]
    assert again.fields == (*plain, *tail)


@pytest.mark.parametrize("payload", [transactions.attach_session(SESSION, 1, 2, 3), transactions.set_secret(1, b"s")])
def test_a_transaction_without_an_equal_is_refused(payload: bytes) -> None:
    with pytest.raises(LocalProtocolError, match="no transaction of type"):
        list(ProposalEncoder().encode(pack(ZXID, [NO_TAG + payload])))
    with pytest.raises(LocalProtocolError, match="no transaction of type"):
        canonical(ZXID, payload)


def test_a_batch_is_many_proposals() -> None:
    payloads = [NO_TAG + transactions.delete(SESSION, number, 5, "/a") for number in range(3)]
    found = list(ProposalEncoder().encode(pack(ZXID, payloads)))
    assert [zxid for zxid, _ in found] == [ZXID, ZXID + 1, ZXID + 2]
    assert [decode_txn(data).cxid for _, data in found] == [0, 1, 2]
    assert [decode_txn(data).zxid for _, data in found] == [ZXID, ZXID + 1, ZXID + 2]


def test_proposal_has_the_digest_that_is_known() -> None:
    encoder = ProposalEncoder()
    both = pack(ZXID, [NO_TAG + transactions.delete(SESSION, number, 5, "/a") for number in range(2)])
    encoder.expect(ZXID, 2**64 - 1)
    encoder.expect(Zxid(ZXID + 1), 5)
    assert [decode_txn(data).digest for _, data in encoder.encode(both)] == [(2, 2**64 - 1), (2, 5)]
    encoder.expect(Zxid(ZXID + DIGESTS_MAX), 6)  # takes the place of the first
    again = pack(both.first, both.payloads())
    assert [decode_txn(data).digest for _, data in encoder.encode(again)] == [None, (2, 5)]


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        (Op.CREATE, ("/a", b"", OPEN, False, -1), "without the cversion"),
        (Op.MULTI, ((Op.CREATE_TTL, ("/a", b"", OPEN, -1, 5)),), "without the cversion"),
        (Op.CREATE, ("a", b"", OPEN, False, 1), "not possible"),
        (Op.DELETE, ("/",), "not possible"),
        (Op.CREATE_TTL, ("/a", b"", OPEN, 1, 0), "not valid"),
        (Op.RECONFIG, ("/zookeeper/config", b"nonsense", -1), "not a configuration"),
        (Op.RECONFIG, ("/zookeeper/config", None, -1), "to version 0x0"),
        (Op.RECONFIG, ("/other", CONFIG, -1), "sets '/other'"),
        (Op.RECONFIG, ("/zookeeper/config", CONFIG + b"0", -1), "to version 0x1000000050"),
    ],
)
def test_an_impossible_transaction_is_refused(kind: Op, fields: Fields, why: str) -> None:
    with pytest.raises(WireError, match=why):
        batch_of(txn(kind, fields))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a valid transaction"),
        (encode_txn(txn(Op.DELETE, ("/a",)))[:-1], "not a valid transaction"),
        (encode_txn(txn(Op.DELETE, ("/a",))) + b"x", "1 bytes follow"),
        (encode_txn(FileTxn(0, 0, ZXID + 1, 0, Op.ERROR, (1,))), "holds the transaction"),
    ],
)
def test_a_malformed_proposal_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode_proposal(data, ZXID)


@given(st.binary(max_size=80))
@settings(max_examples=200)
def test_noise_raises_the_declared_error_only(data: bytes) -> None:
    try:
        batch = batch_of(decode_proposal(data, ZXID))
    except WireError:
        return
    assert isinstance(batch, Batch)
