"""Transactions of Apache ZooKeeper as batches of ours, and back.

A proposal there is a header, the transaction, and the digest of the tree after it: the record of a log file
(`zab.wire.disk_txn`). A batch of ours holds payloads, each a tag and a transaction of the store
(`zab.store.transactions`). The translation must not depend on anything but the transaction: two servers of ours that
received it on different ways, one perhaps as the leader that made it, must log the same bytes. So a payload that came
from ZooKeeper is *canonical*:

- The tag is `NO_TAG`. The server at which a request was made recognises it by session and number of the request.
- The digest is not part of it. It is checked beside the history, and a leader adds its own (`ProposalEncoder`). The
  bytes of a transaction do not even agree between servers of ZooKeeper: see `zab.wire.disk_txn` about errors in a
  multi.
- A multi that failed is the number of its operations, the failed one and its code, whatever else its record holds.
- A new session has no server, because the leader alone knows where a session is.
- An empty or null ACL is the open one.
- A change of the membership is a batch of its own: the text of the membership for the consensus, as ours would write
  it, with the transaction attached, which the store applies. So its header and its text are those of the leader.

Every other kind has an equal with all its fields: creates of all kinds, deletes, sets of data and of ACLs, checks in a
multi, errors, and the ends of sessions with the list of their nodes.

In the other direction these have no equal, and must not be proposed to servers of ZooKeeper: `ATTACH_SESSION` and
`SET_SECRET`. A checkpoint in front of a transaction, its tag, and the server of a new session are left out; so a leader
must propose `canonical` payloads, if the history of its own log is to be the one that the others have. A create whose
parent's cversion is unknown, as in logs of ZooKeeper 3.3, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zab.core.batch import Batch, change_payload, pack, parts_of_change
from zab.core.errors import DamagedError, LocalProtocolError, WireError
from zab.core.zxid import NOTHING, Zxid
from zab.store import transactions
from zab.store.operations import CREATES, Fields, Op
from zab.store.paths import CONFIG
from zab.store.transactions import Transaction
from zab.store.tree import Tree
from zab.store.znode import ttl_of
from zab.wire.apache.election_messages import decode_ensemble
from zab.wire.disk_store import store_txn
from zab.wire.disk_txn import DIGEST, DIGEST_VERSION, FileTxn, decode_txn, encode_txn
from zab.wire.relay_messages import TAG_BYTES

NO_TAG: Final = bytes(TAG_BYTES)
"""The tag of a transaction that has no origin of ours. No run of a member has this origin."""
DIGESTS_MAX: Final = 1 << 14
"""The number of digests that are kept, those of the newest transactions. Older ones are sent without a digest."""
_NO_PARENT_CVERSION: Final = -1
_NO_TREE: Final = Tree.blank()


# -- from ZooKeeper ------------------------------------------------------------------------------------


def decode_proposal(data: bytes, zxid: Zxid) -> FileTxn:
    """Decode the data of a packet about the transaction `zxid`, or raise `WireError`."""
    try:
        txn = decode_txn(data)
    except DamagedError as error:
        raise WireError(f"proposal {zxid:#x}: {error}") from error
    if txn.zxid != zxid:
        raise WireError(f"proposal {zxid:#x} holds the transaction {txn.zxid:#x}")
    return txn


def payload_of(txn: FileTxn) -> bytes:
    """Return the canonical payload of a transaction, or raise `WireError`. That of a change is attached to it."""
    for kind, fields in txn.fields if txn.kind == Op.MULTI else ((txn.kind, txn.fields),):
        if kind in CREATES and _cversion(kind, fields) == _NO_PARENT_CVERSION:
            raise WireError(f"transaction {txn.zxid:#x} creates a node without the cversion of the parent")
    try:
        return NO_TAG + store_txn(txn, _NO_TREE)
    except DamagedError as error:
        raise WireError(f"{error}") from error


def _cversion(kind: int, fields: Fields) -> object:
    return fields[4 if kind in (Op.CREATE, Op.CREATE2) else 3]


def _change_of(txn: FileTxn) -> bytes:
    """Return the canonical payload of a change of the membership, or raise `WireError`."""
    path, data, _ = txn.fields
    ensemble = decode_ensemble(data or b"")
    if path != CONFIG or ensemble.version != txn.zxid:
        raise WireError(f"reconfiguration {txn.zxid:#x} sets {path!r:.100} to version {ensemble.version:#x}")
    # A change without a header was made while the ensemble spoke our own protocol, and has nothing attached.
    has_header = txn.session or txn.cxid or txn.time_ms
    return change_payload(ensemble.text(), payload_of(txn) if has_header else b"")


def batch_of(txn: FileTxn) -> Batch:
    """Return the batch of one transaction, or raise `WireError`."""
    if txn.kind == Op.RECONFIG:
        return pack(Zxid(txn.zxid), [_change_of(txn)], config=True)
    return pack(Zxid(txn.zxid), [payload_of(txn)])


# -- to ZooKeeper --------------------------------------------------------------------------------------


def txns_of(batch: Batch) -> Iterator[FileTxn]:
    """Yield the transactions of a batch. Raise `LocalProtocolError` for one that ZooKeeper does not have."""
    for zxid, payload in zip(batch.zxids, batch.payloads(), strict=True):
        if batch.config:
            text, attached = parts_of_change(payload)
            if not attached:
                yield FileTxn(0, 0, zxid, 0, Op.RECONFIG, (CONFIG, text.encode(), -1))
                continue
            payload = attached
        yield file_txn(zxid, payload[TAG_BYTES:])


class ProposalEncoder:
    """Encodes the transactions of batches for the learners of one server, with the digests of the tree after them."""

    def __init__(self) -> None:
        self._digests: list[tuple[Zxid, int]] = [(NOTHING, 0)] * DIGESTS_MAX
        """(zxid, digest) at the index zxid modulo `DIGESTS_MAX`."""
        self._last: tuple[Batch, list[tuple[Zxid, bytes]]] | None = None
        """The last batch with its encoding, because a batch is sent to several learners in a row."""

    def expect(self, zxid: Zxid, digest: int) -> None:
        """Take the digest that the tree has after a transaction. The transaction is encoded later, if at all."""
        self._digests[zxid % DIGESTS_MAX] = zxid, digest

    def encode(self, batch: Batch) -> list[tuple[Zxid, bytes]]:
        """Return zxid and data of a packet for each transaction. One without a known digest is sent without."""
        if self._last is not None and self._last[0] is batch:
            return self._last[1]
        encoded = []
        for zxid, txn in zip(batch.zxids, txns_of(batch), strict=True):
            data, (known, digest) = encode_txn(txn), self._digests[zxid % DIGESTS_MAX]
            encoded.append((zxid, data + DIGEST.pack(DIGEST_VERSION, digest) if known == zxid else data))
        self._last = batch, encoded
        return encoded


def file_txn(zxid: Zxid, txn: bytes) -> FileTxn:
    """Return a transaction of our store as ZooKeeper has it, without a digest.

    Raise `LocalProtocolError` if ZooKeeper has no such transaction.
    """
    ours = transactions.decode(txn)
    return FileTxn(ours.session, ours.cxid, zxid, ours.time, ours.op, _fields_of(ours))


def canonical(zxid: Zxid, txn: bytes) -> bytes:
    """Return the payload that a server receives which gets this transaction from a server of ZooKeeper.

    Raise `LocalProtocolError` if ZooKeeper has no such transaction.
    """
    return payload_of(file_txn(zxid, txn))


def _fields_of(ours: Transaction) -> Fields:
    body = ours.body
    match ours.op:
        case Op.CREATE | Op.CREATE2:
            path, data, acl, owner, cversion = body
            return path, data, acl, owner != 0, cversion
        case Op.CREATE_CONTAINER:
            path, data, acl, _, cversion = body
            return path, data, acl, cversion
        case Op.CREATE_TTL:
            path, data, acl, owner, cversion = body
            return path, data, acl, cversion, ttl_of(owner)
        case Op.CREATE_SESSION:
            return (body[0],)
        case Op.MULTI:
            return tuple((part.op, _fields_of(part)) for part in body)
        case Op.ATTACH_SESSION | Op.SET_SECRET:
            raise LocalProtocolError(f"ZooKeeper has no transaction of type {ours.op.name}")
        case _:
            return body
