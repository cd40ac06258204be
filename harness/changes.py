"""Decode transactions of the store's log as the changes of a `History`. All worlds use this decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.history import Change
from harness.lists import words_of
from zab.core.batch import Batch
from zab.core.errors import DamagedError
from zab.store import transactions
from zab.store.operations import Op
from zab.store.paths import CONFIG
from zab.store.znode import CONTAINER, is_session
from zab.wire.relay_messages import TAG_BYTES


def changes_of_batch(batch: Batch) -> Iterator[Change]:
    """Yield the changes of a batch. A change of the membership is a change of the node that shows it."""
    for zxid, payload in enumerate(batch.payloads(), start=batch.first):
        if batch.config:
            yield Change(zxid, 0, "other", CONFIG, payload)
        else:
            yield from changes_of(zxid, payload[TAG_BYTES:])


def changes_of(zxid: int, txn: bytes) -> tuple[Change, ...]:
    """Decode a transaction, as `apply` of the store receives it. Bytes that are none give one change `other`."""
    try:
        decoded = transactions.decode(txn)
    except DamagedError:
        return (Change(zxid, 0, "other"),)
    if decoded.op != Op.MULTI:
        return (_change(zxid, decoded, 0),)
    return tuple(_change(zxid, each, part) for part, each in enumerate(decoded.body))


def _change(zxid: int, txn: transactions.Transaction, part: int) -> Change:
    body: tuple[Any, ...] = txn.body
    session = txn.session
    match txn.op:
        case Op.CREATE | Op.CREATE2 | Op.CREATE_CONTAINER | Op.CREATE_TTL:
            path, data, acl, owner, _ = body
            mode = "" if not owner or is_session(owner) else "container" if owner == CONTAINER else "ttl"
            mine = owner if is_session(owner) else 0
            return Change(zxid, session, "create", path, data, owner=mine, part=part, acl=words_of(acl), mode=mode)
        case Op.SET_DATA | Op.RECONFIG:
            path, data, version = body
            return Change(zxid, session, "set", path, data, version, part=part)
        case Op.DELETE | Op.DELETE_CONTAINER:
            return Change(zxid, session, "delete", body[0], part=part)
        case Op.CREATE_SESSION:
            return Change(zxid, session, "open", part=part)
        case Op.ATTACH_SESSION:
            return Change(zxid, session, "attach", part=part)
        case Op.CLOSE_SESSION:
            return Change(zxid, session, "close", gone=tuple(body[0] or ()), part=part)
        case Op.ERROR:
            return Change(zxid, session, "error", part=part)
        case Op.SET_ACL:
            path, acl, version = body
            return Change(zxid, session, "setacl", path, version=version, part=part, acl=words_of(acl))
        case Op.CHECK:
            return Change(zxid, session, "other", body[0], part=part)
        case _:
            return Change(zxid, session, "other", part=part)
