"""Transactions of a log as readable lines: zxid, time, session, operation, path."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from attrs import frozen

from zab.core.batch import Batch, parts_of_change
from zab.core.errors import DamagedError
from zab.core.zxid import Zxid, parse
from zab.store import transactions
from zab.store.acl import Acl
from zab.store.operations import Op
from zab.store.tree import Tree
from zab.store.znode import is_session
from zab.wire.disk_store import store_txn
from zab.wire.disk_txn import FileTxn
from zab.wire.relay_messages import TAG_BYTES

_ZXID: Final = re.compile(r"[0-9]+/[0-9]+|(0[xX])?[0-9a-fA-F]+")
_NAMES: Final = {Op.SET_DATA: "set", Op.DELETE_CONTAINER: "delete container", Op.CREATE_TTL: "create ttl"}


@frozen
class LogLine:
    """One transaction. `path`: the node's path, or the first one of a multi; `more`: the other fields as text.

    `data`: the data that it writes to a node, if it is not a multi. For a membership and for an unknown transaction,
    all bytes.
    """

    zxid: int
    time_ms: int | None
    session: int
    cxid: int
    op: str
    path: str
    more: str
    data: bytes | None = None

    @property
    def time(self) -> str:
        return "" if self.time_ms is None else moment(self.time_ms)

    def as_json(self, *, with_data: bool) -> dict[str, object]:
        shown: dict[str, object] = {
            "zxid": f"{self.zxid:#x}",
            "time": self.time or None,
            "session": f"{self.session:#x}",
            "cxid": self.cxid,
            "op": self.op,
            "path": self.path or None,
            "more": self.more or None,
        }
        if with_data:
            shown["data"] = readable(self.data)
        return shown


def moment(ms: int) -> str:
    """Format a time. Accept any number, because a log may contain one that is not a date."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def readable(data: bytes | None) -> str | None:
    """Return UTF-8 text unchanged, and other bytes as `base64:...`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def lines_of(batch: Batch) -> Iterator[LogLine]:
    for zxid, payload in enumerate(batch.payloads(), start=batch.first):
        if batch.config:
            text, _ = parts_of_change(payload)
            yield LogLine(zxid, None, 0, 0, "membership", "", text.replace("\n", " "), text.encode())
            continue
        txn = payload[TAG_BYTES:]
        try:
            yield line_of(zxid, transactions.decode(txn))
        except DamagedError:
            what = f"{len(txn)} bytes that are not a transaction of the store"
            yield LogLine(zxid, None, 0, 0, "unknown", "", what, txn)


def transactions_of(batches: Iterable[Batch]) -> Iterator[tuple[Zxid, bytes]]:
    """Yield the transactions of the state machine with their zxids. Skip changes of membership."""
    for batch in batches:
        if not batch.config:
            for zxid, payload in zip(batch.zxids, batch.payloads(), strict=True):
                yield zxid, payload[TAG_BYTES:]


def first_foreign(txns: Iterable[tuple[Zxid, bytes]], *, mixed: bool) -> Zxid | None:
    """Return the zxid of the first transaction that a store cannot have written, or None.

    With `mixed`, return None also if a store cannot have written any of the transactions.
    """
    foreign, own = None, not mixed
    for zxid, txn in txns:
        try:
            transactions.decode(txn)
            own = True
        except DamagedError:
            foreign = zxid if foreign is None else foreign
        if own and foreign is not None:
            return foreign
    return None


def line_of_theirs(txn: FileTxn) -> LogLine:
    """Return the line for a transaction of ZooKeeper's log."""
    return line_of(txn.zxid, transactions.decode(store_txn(txn, Tree())))


def line_of(zxid: int, txn: transactions.Transaction) -> LogLine:
    path, more, data = _described(txn)
    return LogLine(zxid, txn.time, txn.session & (1 << 64) - 1, txn.cxid, name_of(txn.op), path, more, data)


def name_of(op: int) -> str:
    known = Op(op)
    return _NAMES.get(known, known.name.lower().replace("_", " "))


def _described(txn: transactions.Transaction) -> tuple[str, str, bytes | None]:
    """Return a transaction's path, its other fields as text, and its data.

    The body has the arguments of the function in `zab.store.transactions` that encodes the operation, in their order.
    For a multi, the path is the first one among its parts, and the text lists all parts.
    """
    body: tuple[Any, ...] = txn.body
    match txn.op:
        case Op.CREATE | Op.CREATE2 | Op.CREATE_CONTAINER | Op.CREATE_TTL:
            path, data, acl, owner, cversion = body
            ephemeral = " ephemeral" if is_session(owner) else ""
            return path, f"{_size(data)}{ephemeral} cversion={cversion} acl={show_acl(acl)}", data
        case Op.SET_DATA | Op.RECONFIG:
            return body[0], f"{_size(body[1])} version={body[2]}", body[1]
        case Op.SET_ACL:
            return body[0], f"acl={show_acl(body[1])} version={body[2]}", None
        case Op.DELETE | Op.DELETE_CONTAINER:
            return body[0], "", None
        case Op.CHECK:
            return body[0], f"version={body[1]}", None
        case Op.ERROR:
            return "", f"code={body[0]}", None
        case Op.CREATE_SESSION:
            return "", f"timeout={body[0]} ms server={body[1]}", None
        case Op.ATTACH_SESSION:
            return "", f"server={body[0]}", None
        case Op.CLOSE_SESSION:
            return "", " ".join(body[0] or ()), None
        case Op.MULTI:
            parts = [(name_of(part.op), _described(part)) for part in body]
            path = next((text[0] for _, text in parts if text[0]), "")
            return path, "; ".join(" ".join(filter(None, (op, text[0], text[1]))) for op, text in parts), None
        case _:
            return "", "", None


def show_acl(acl: Acl | None) -> str:
    """Format an ACL as `zkCli` takes it: `world:anyone:cdrwa,digest:user:hash:r`."""
    letters = ((4, "c"), (8, "d"), (1, "r"), (2, "w"), (16, "a"))
    lists = [
        f"{scheme}:{who}:{''.join(each for bit, each in letters if perms & bit)}" for perms, scheme, who in acl or ()
    ]
    return ",".join(lists)


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"


def zxid_of(text: str) -> Zxid:
    """Parse a zxid in hexadecimal, like `0x200000001`, or as epoch and counter, like `2/1` in zab's messages."""
    if not _ZXID.fullmatch(text):  # `int` would accept -1, 1_0, and digits of any script
        raise ValueError(f"{text!r} is not a zxid: expected one like 0x200000001 or 2/1")
    return parse(text) if "/" in text else Zxid(int(text, 16))
