"""Apply transactions on every server, in the order of zxids. Each type of transaction has one function.

The leader has checked everything, so nothing is decided here and nothing fails. There are two exceptions:

- A history may be replayed over a state that already contains parts of it, such as an imported ZooKeeper snapshot. Then
  a create of an existing node replaces only its ACL, and a deletion of a missing node deletes nothing; both still
  update the parent, unless it is newer. A deletion of a node that has children deletes them, too. A create below a
  missing parent, any other change of a missing node and the attachment of a missing session are skipped. This is
  ZooKeeper's rule for replaying a log over a fuzzy snapshot.
- Several transactions may set the secret of the sessions. Only the first has an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from zab.store import transactions
from zab.store.acl import OPEN, decode_acl
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.paths import ROOT
from zab.store.quota import BELOW, NAMES, Quotas, size_of
from zab.store.server_watches import ServerWatches
from zab.store.session_table import SessionTable
from zab.store.tree import Tree
from zab.store.znode import Znode

SubResult: TypeAlias = tuple[int, int, str | None, Znode | None]
"""(op, error, path, node)"""

Result: TypeAlias = tuple[int, int, str | None, Znode | None, tuple[SubResult, ...]]
"""(zxid, error, path, node, results)

path     the path of the created node, with its sequence number if it has one, or of the node with new data or a new
         ACL; None for any other transaction, and with an error
node     this node after the transaction, or None
results  the results of a multi, one for each operation; all are (Op.ERROR, code, None, None) if the multi failed
"""

_OK: Final = 0
_PASSED: Final = ">1x12x"
"""The `struct` format that skips type, session and cxid: they do not change the state."""
_unpack_set_data: Final = Struct(_PASSED + "qiIi").unpack_from
_unpack_create: Final = Struct(_PASSED + "qiqIiI").unpack_from
_NO_NODE: Final = int(ErrorCode.NO_NODE)
_CREATE_BYTES: Final = transactions.CREATE_HEAD.size
_SET_DATA_BYTES: Final = transactions.SET_DATA_HEAD.size
_SET_ACL_BYTES: Final = transactions.SET_ACL_HEAD.size
_HEAD_BYTES: Final = transactions.HEAD.size
_LENGTH_BYTES: Final = transactions.LENGTH.size
_unpack_length: Final = transactions.LENGTH.unpack_from

Handler: TypeAlias = Callable[[int, bytes], Result]


class Applier:
    """The functions that apply transactions to one state. They remember nothing from one transaction to the next."""

    __slots__ = (
        "_marks", "_nodes", "_quotas", "_sessions", "_tree", "_watches", "child_paths", "data_paths", "handlers",
    )  # fmt: skip

    def __init__(self, tree: Tree, sessions: SessionTable, quotas: Quotas, watches: ServerWatches) -> None:
        self._tree = tree
        self._nodes = tree.nodes
        self._marks = tree.marks
        self._sessions = sessions
        self._quotas = quotas
        self._watches = watches
        self.data_paths = watches.data_paths
        self.child_paths = watches.child_paths
        self.handlers: Final[dict[int, Handler]] = {
            transactions.SET_DATA: self._set_data,
            transactions.RECONFIG: self._set_data,
            **dict.fromkeys(
                (transactions.CREATE, transactions.CREATE2, transactions.CREATE_CONTAINER, transactions.CREATE_TTL),
                self._create,
            ),
            **dict.fromkeys((transactions.DELETE, transactions.DELETE_CONTAINER), self._delete),
            transactions.SET_ACL: self._set_acl,
            transactions.CHECK: self._check,
            transactions.MULTI: self._multi,
            transactions.FAILED_MULTI: self._failed_multi,
            transactions.ERROR: self._error,
            transactions.CREATE_SESSION: self._create_session,
            transactions.ATTACH_SESSION: self._attach_session,
            transactions.CLOSE_SESSION: self._close_session,
            transactions.SET_SECRET: self._set_secret,
        }
        """The functions by the first byte of a transaction. `Store` adds the one for checkpoints."""

    # -- nodes -------------------------------------------------------------------------------------

    def _set_data(self, zxid: int, txn: bytes) -> Result:
        time, version, path_bytes, data_bytes = _unpack_set_data(txn)
        stop = _SET_DATA_BYTES + path_bytes
        path = txn[_SET_DATA_BYTES:stop].decode()
        node = self._nodes.get(path)
        if node is None:
            return zxid, _NO_NODE, None, None, ()
        data = txn[stop:] if data_bytes >= 0 else None
        old, acl, czxid, _, ctime, _, _, cversion, aversion, owner, pzxid, children = node
        new = (data, acl, czxid, zxid, ctime, time, version, cversion, aversion, owner, pzxid, children)
        for mark in self._marks:  # the same as `Tree.replace`, inlined
            mark.setdefault(path, node)
        self._nodes[path] = new
        if self._quotas.limited:
            self._quotas.changed(path, 0, size_of(data) - size_of(old))
        if self.data_paths:
            self._watches.data_changed(path, acl, zxid)
        return zxid, _OK, path, new, ()

    def _create(self, zxid: int, txn: bytes) -> Result:
        time, cversion, owner, path_bytes, data_bytes, acl_bytes = _unpack_create(txn)
        stop = _CREATE_BYTES + path_bytes
        path = txn[_CREATE_BYTES:stop].decode()
        if acl_bytes:
            end = len(txn) - acl_bytes
            acl, data = decode_acl(txn[end:]), txn[stop:end] if data_bytes >= 0 else None
        else:
            acl, data = OPEN, txn[stop:] if data_bytes >= 0 else None
        parent, _, name = path.rpartition("/")
        parent = parent or ROOT
        node = self._tree.create(path, parent, name, data, acl, owner, cversion, zxid, time)
        if isinstance(node, ErrorCode):
            return zxid, int(node), None, None, ()
        if name in NAMES and path.startswith(BELOW):
            self._quotas.quota_node_created(path)
        if self._quotas.limited:
            self._quotas.changed(path, 1, size_of(data))
        if self.data_paths or self.child_paths:
            self._watches.created(path, parent, acl, self._nodes[parent][1], zxid)
        return zxid, _OK, path, node, ()

    def _delete(self, zxid: int, txn: bytes) -> Result:
        return zxid, self._delete_path(zxid, txn[_HEAD_BYTES:].decode()), None, None, ()

    def _delete_path(self, zxid: int, path: str) -> int:
        parent, _, name = path.rpartition("/")
        parent = parent or ROOT
        node = self._tree.delete(path, parent, name, zxid)
        if node is None:
            return _NO_NODE
        if name in NAMES and path.startswith(BELOW):
            self._quotas.quota_node_deleted(path)
        if self._quotas.limited:
            self._quotas.changed(path, -1, -size_of(node[0]))
        if self.data_paths or self.child_paths:
            self._watches.deleted(path, parent, node[1], self._nodes[parent][1], zxid)
        return _OK

    def _set_acl(self, zxid: int, txn: bytes) -> Result:
        _, _, _, _, aversion, path_bytes = transactions.SET_ACL_HEAD.unpack_from(txn)
        stop = _SET_ACL_BYTES + path_bytes
        path = txn[_SET_ACL_BYTES:stop].decode()
        node = self._nodes.get(path)
        if node is None:
            return zxid, _NO_NODE, None, None, ()
        new = (node[0], decode_acl(txn[stop:]), *node[2:8], aversion, *node[9:])
        self._tree.replace(path, node, new)
        return zxid, _OK, path, new, ()

    def _check(self, zxid: int, txn: bytes) -> Result:
        """Change nothing: the leader has compared the version."""
        return zxid, _OK, None, None, ()

    # -- multis and errors -------------------------------------------------------------------------

    def _multi(self, zxid: int, txn: bytes) -> Result:
        handlers = self.handlers
        results = []
        position, end = _HEAD_BYTES, len(txn)
        while position < end:  # the same as `transactions.parts_of`, without a list
            start = position + _LENGTH_BYTES
            position = start + _unpack_length(txn, position)[0]
            part = txn[start:position]
            kind = part[0]
            _, error, path, node, _ = handlers[kind](zxid, part)
            results.append((kind, error, path, node))
        return zxid, _OK, None, None, tuple(results)

    def _failed_multi(self, zxid: int, txn: bytes) -> Result:
        *_, count, failed, code = transactions.FAILED_MULTI_HEAD.unpack(txn)
        return (
            zxid,
            _OK,
            None,
            None,
            tuple((Op.ERROR, each, None, None) for each in transactions.codes_of(count, failed, code)),
        )

    def _error(self, zxid: int, txn: bytes) -> Result:
        return zxid, transactions.CHECK_HEAD.unpack(txn)[4], None, None, ()

    # -- sessions ----------------------------------------------------------------------------------

    def _create_session(self, zxid: int, txn: bytes) -> Result:
        _, session, _, _, timeout_ms, server = transactions.CREATE_SESSION_HEAD.unpack(txn)
        self._sessions.table[session] = (timeout_ms, server)
        return zxid, _OK, None, None, ()

    def _attach_session(self, zxid: int, txn: bytes) -> Result:
        _, session, _, _, server = transactions.SERVER_HEAD.unpack(txn)
        known = self._sessions.table.get(session)
        if known is None:
            return zxid, int(ErrorCode.SESSION_EXPIRED), None, None, ()
        self._sessions.table[session] = (known[0], server)
        return zxid, _OK, None, None, ()

    def _close_session(self, zxid: int, txn: bytes) -> Result:
        """Delete the nodes that the leader listed, then any others that the session owns, then the session."""
        closed = transactions.decode(txn)
        for path in closed.body[0]:
            self._delete_path(zxid, path)
        for path in sorted(self._tree.ephemerals.get(closed.session, ())):
            self._delete_path(zxid, path)
        self._sessions.table.pop(closed.session, None)
        return zxid, _OK, None, None, ()

    def _set_secret(self, zxid: int, txn: bytes) -> Result:
        if self._sessions.secret:
            return zxid, int(ErrorCode.BAD_ARGUMENTS), None, None, ()
        self._sessions.secret = txn[_HEAD_BYTES:]
        return zxid, _OK, None, None, ()
