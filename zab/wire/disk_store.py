"""Convert a ZooKeeper data directory into a state of our store, and back.

Import: a snapshot becomes chunks for `Store.restore`, then the log is replayed. ZooKeeper's snapshots contain parts of
the changes made while they were written, so only the replay completes them. If the log records digests, the last one
tells whether the result is correct.

Export: one snapshot holds everything; no log is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from attrs import frozen

from zab.core.errors import DamagedError
from zab.store import transactions
from zab.store.acl import OPEN, Acl
from zab.store.digest import VERSION as DIGEST_VERSION
from zab.store.digest import Digest
from zab.store.operations import Op
from zab.store.paths import ROOT, UNDELETABLE, is_valid, parent_of
from zab.store.session_table import NO_SERVER, SessionTable
from zab.store.store import Store
from zab.store.store_snapshot import OpenSnapshots, read_head, read_nodes
from zab.store.tree import Tree
from zab.store.znode import CONTAINER, CVERSION, EMPTY_ROOT, TTL_MAX, Znode, ttl_owner
from zab.wire.disk_snapshot import OPEN_KEY, FileDigest, FileNode, SnapshotReader, snapshot_chunks
from zab.wire.disk_txn import FileTxn

NOBODY: Final[Acl] = ((0, "world", "anyone"),)
"""The replacement for an ACL that the snapshot lacks, because the ACL was added while the snapshot was written.

The replay of the log sets the real ACL. If the log lacks it as well, no client gets access, which is safer than access
for all.
"""


# -- from ZooKeeper's files ----------------------------------------------------------------------------


def arrival(reader: SnapshotReader, zxid: int, secret: bytes = b"") -> Iterable[bytes]:
    """Convert a snapshot file to chunks for `Store.restore`, or raise `DamagedError`.

    The replay begins after `zxid`, the zxid in the file's name. ZooKeeper derives a session's password from the
    session's id alone. Our passwords also depend on `secret`, so the clients of imported sessions cannot attach to
    these sessions.
    """
    tree = Tree.blank()
    for path, data, key, stat in reader:
        if path == "":
            path = ROOT
        elif not is_valid(path) or parent_of(path) not in tree.nodes or path in tree.nodes:
            raise DamagedError(f"the node {path!r} has no parent, has an invalid name, or occurs twice")
        acl = OPEN if key == OPEN_KEY else reader.acls.get(key, NOBODY)
        *head, pzxid = stat
        czxid, mzxid, ctime, mtime, version, cversion, aversion, owner = head
        # The number of children is unknown until all nodes are read; `restore` counts them.
        tree.load(path, (data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, 0))
    for path, node in Tree().nodes.items():
        if path not in tree.nodes:
            tree.load(path, node if path != ROOT else EMPTY_ROOT)
    sessions = SessionTable()
    sessions.secret = secret
    sessions.table = {session: (timeout_ms, NO_SERVER) for session, timeout_ms in reader.sessions.items()}
    return OpenSnapshots().begin(tree, sessions, zxid, Digest(tree).value)


@frozen
class Replay:
    """The outcome of a replay.

    applied        the number of transactions that were applied
    skipped        the number of transactions that the state already contained
    digest_zxid    the zxid of the last applied transaction that records a digest of version 2; 0 if none does
    digest_agrees  True if the tree had that digest after the transaction, or if none was recorded
    """

    applied: int
    skipped: int
    digest_zxid: int
    digest_agrees: bool


def replay(store: Store, log: Iterable[FileTxn]) -> Replay:
    """Apply the transactions newer than the store, and check the tree by the last digest that they record."""
    applied = skipped = digest_zxid = 0
    expected = found = None
    for txn in log:
        if txn.zxid <= store.zxid:
            skipped += 1
            continue
        says = txn.digest is not None and txn.digest[0] == DIGEST_VERSION
        if not says and found is None:
            # the tree's digest before this transaction changes it, to be compared with the last recorded one
            found = store.digest.value
        store.apply(txn.zxid, store_txn(txn, store.tree))
        applied += 1
        if txn.digest is not None and says:
            expected, found, digest_zxid = txn.digest[1], None, txn.zxid
    agrees = expected is None or expected == (store.digest.value if found is None else found)
    return Replay(applied, skipped, digest_zxid, agrees)


def store_txn(txn: FileTxn, tree: Tree) -> bytes:
    """Return `txn` in our store's encoding, or raise `DamagedError`. `tree` is the tree before the transaction."""
    return _translated(txn.kind, txn.fields, txn, tree)


def _translated(kind: int, fields: tuple[object, ...], txn: FileTxn, tree: Tree) -> bytes:
    """Translate one operation. Raise `DamagedError` for a bad path, and for a kind or fields that `FileTxn` lacks."""
    who = txn.session, txn.cxid, txn.time_ms
    if fields and isinstance(fields[0], str) and not _is_changeable(kind, fields[0]):
        raise DamagedError(f"transaction {txn.zxid:#x}: operation {kind} on {fields[0]!r:.100} is not possible")
    match kind, fields:
        case ((Op.CREATE | Op.CREATE2), (str(path), data, acl, ephemeral, int(cversion))):
            return _created(kind, who, path, data, acl, txn.session if ephemeral else 0, cversion, tree)
        case Op.CREATE_CONTAINER, (str(path), data, acl, int(cversion)):
            return _created(kind, who, path, data, acl, CONTAINER, cversion, tree)
        case Op.CREATE_TTL, (str(path), data, acl, int(cversion), int(ttl)) if 0 < ttl <= TTL_MAX:
            return _created(kind, who, path, data, acl, ttl_owner(ttl), cversion, tree)
        case ((Op.DELETE | Op.DELETE_CONTAINER), (str(path),)):
            return transactions.delete(*who, path, kind)
        case ((Op.SET_DATA | Op.RECONFIG), (str(path), (bytes() | None) as data, int(version))):
            return transactions.set_data(*who, path, data, version, kind)
        case Op.SET_ACL, (str(path), acl, int(version)):
            return transactions.set_acl(*who, path, _list(acl), version)
        case Op.CHECK, (str(path), int(version)):
            return transactions.check(*who, path, version)
        case Op.ERROR, (int(code),):
            return transactions.error(*who, code)
        case Op.CREATE_SESSION, (int(timeout_ms),):
            return transactions.create_session(*who, timeout_ms, NO_SERVER)
        case Op.CLOSE_SESSION, (None,):
            return transactions.close_session(*who, ())
        case Op.CLOSE_SESSION, (tuple(paths),) if all(_is_changeable(Op.DELETE, path) for path in paths):
            return transactions.close_session(*who, paths)
        case Op.MULTI, parts:
            return _multi(who, parts, txn, tree)
        case _:
            pass
    raise DamagedError(f"transaction {txn.zxid:#x}: operation {kind} with fields {fields!r:.100} is not valid")


def _is_changeable(kind: int, path: str) -> bool:
    """Return whether the path is valid, and may be deleted if this operation deletes it.

    The store checks this in `prepare`, which a replay does not call.
    """
    return is_valid(path) and not (kind in (Op.DELETE, Op.DELETE_CONTAINER) and path in UNDELETABLE)


def _multi(who: tuple[int, int, int], parts: tuple[object, ...], txn: FileTxn, tree: Tree) -> bytes:
    codes: list[int] = []
    """The code of each operation of a failed multi. 0 also for one before the failed one, whatever its record holds."""
    translated: list[bytes] = []
    fails = False
    for part in parts:
        assert isinstance(part, tuple)
        kind, fields = part
        if kind == Op.ERROR:
            fails = True
            codes.append(fields[0] if len(fields) == 1 else 0)
        else:
            codes.append(0)
            translated.append(_translated(kind, fields, txn, tree))
    if not fails:
        return transactions.multi(*who, translated)
    failed = next((index for index, code in enumerate(codes) if code), 0)
    return transactions.failed_multi(*who, len(parts), failed, codes[failed])


def _created(
    kind: int, who: tuple[int, int, int], path: str, data: object, acl: object, owner: int, cversion: int, tree: Tree
) -> bytes:
    assert data is None or isinstance(data, bytes)
    if cversion == -1 and ROOT in path:
        # Logs of old versions lack the parent's cversion. It is one more than before the transaction.
        parent = tree.nodes.get(parent_of(path))
        cversion = 0 if parent is None else parent[CVERSION] + 1
    return transactions.create(kind, *who, path, data, _list(acl), owner, cversion)


def _list(acl: object) -> Acl:
    """Return the ACL of a record. A missing or empty one is the open ACL, as in ZooKeeper."""
    assert acl is None or isinstance(acl, tuple)
    return acl or OPEN


# -- to ZooKeeper's files ------------------------------------------------------------------------------


def departure(store: Store) -> Iterator[bytes]:
    """Yield a snapshot file of the store, to be named after `store.zxid`. The store must not change meanwhile."""
    keys: dict[Acl, int] = {OPEN: OPEN_KEY}
    for node in store.tree.nodes.values():
        keys.setdefault(node[1], len(keys))
    acls = {key: acl for acl, key in keys.items() if key != OPEN_KEY}
    sessions = {session: timeout_ms for session, (timeout_ms, _) in store.sessions.table.items()}
    digest = FileDigest(store.zxid, DIGEST_VERSION, store.digest.value)
    return snapshot_chunks(sessions, acls, _file_nodes(store.tree, keys), digest, store.zxid)


def departure_of(again: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """Yield a ZooKeeper snapshot file, made from a snapshot of our store. `again` is that of `departing_state`."""
    state = departing_state(again)
    digest = FileDigest(state.zxid, DIGEST_VERSION, state.digest)
    return snapshot_chunks(state.sessions, state.acls, state.nodes, digest, state.zxid)


@frozen
class DepartingState:
    """A snapshot of our store in the parts of a ZooKeeper snapshot. `nodes` can be read once."""

    zxid: int
    sessions: Mapping[int, int]
    acls: Mapping[int, Acl]
    nodes: Iterable[FileNode]
    digest: int


def departing_state(again: Callable[[], Iterable[bytes]]) -> DepartingState:
    """Read the parts of a snapshot of our store.

    `again()` returns the snapshot's chunks from the beginning. They are read twice, because they may be too large for
    the memory: the first pass numbers the ACLs, which stand before the nodes.
    """
    zxid, sessions, lists, digest = 0, SessionTable(), list[Acl](), 0
    for index, chunk in enumerate(again()):
        if index == 0:
            zxid, sessions = read_head(chunk)
        else:
            found = read_nodes(chunk, lists)
            if isinstance(found, int):
                digest = found
    keys: dict[Acl, int] = {OPEN: OPEN_KEY}
    for acl in lists:
        keys.setdefault(acl, len(keys))
    acls = {key: acl for acl, key in keys.items() if key != OPEN_KEY}
    timeouts = {session: timeout_ms for session, (timeout_ms, _) in sessions.table.items()}

    def nodes() -> Iterator[FileNode]:
        lists: list[Acl] = []
        for index, chunk in enumerate(again()):
            found = read_nodes(chunk, lists) if index else ()
            for path, node in () if isinstance(found, int) else found:
                yield FileNode("" if path == ROOT else path, node[0], keys[node[1]], _persisted(node))

    return DepartingState(zxid, timeouts, acls, nodes(), digest)


def _file_nodes(tree: Tree, keys: dict[Acl, int]) -> Iterator[FileNode]:
    for path, node in tree.walk(ROOT):
        yield FileNode("" if path == ROOT else path, node[0], keys[node[1]], _persisted(node))


def _persisted(node: Znode) -> tuple[int, ...]:
    return node[2:11]
