"""Turn a request into a transaction at the leader, checked against the applied and the outstanding state.

This is the work of ZooKeeper's PrepRequestProcessor. Each operation has one function. It checks the request, builds the
transaction, and only then puts the nodes that the transaction will change into the outstanding changes. So a request
that fails records no change; a multi that fails rolls back its parts. The first check that fails decides the error.
Clients depend on the order of an operation's checks, which is that of Apache ZooKeeper 3.9.5. A request that fails
becomes a transaction that changes nothing, so that its reply keeps its place in the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import frozen

from zab.store import acl as acls
from zab.store import transactions
from zab.store.acl import OPEN, Acl, Identity, allows, decode_identities, fix_up
from zab.store.error_codes import ErrorCode, RequestFailed
from zab.store.operations import ANY_VERSION, CREATES, INTERNAL, MULTI_OPS, NO_TTL, CreateFlag, Fields, Op
from zab.store.outstanding_changes import OutstandingChanges, Record
from zab.store.paths import CONFIG, ROOT, UNDELETABLE, is_valid, name_is_valid
from zab.store.quota import STATS, ExceededLimit, Quotas, measured_by, size_of, starts_measuring
from zab.store.request_format import FOREIGN, HEAD, LOCAL, Decode, unpack_body
from zab.store.request_format import INTERNAL as FROM_SERVER
from zab.store.session_table import NO_SERVER, SECRET_BYTES_MIN, SessionTable
from zab.store.store_settings import TXN_BYTES_MAX, StoreSettings
from zab.store.tree import BESIDE_A_PATH_BYTES, Tree
from zab.store.znode import (
    ACL,
    AVERSION,
    CHILDREN,
    CONTAINER,
    CZXID,
    DATA,
    INT_MAX,
    INT_MIN,
    MTIME,
    OWNER,
    TTL_MAX,
    VERSION,
    Znode,
    is_session,
    ttl_of,
    ttl_owner,
)

_HEAD_BYTES: Final = HEAD.size
_unpack_head: Final = HEAD.unpack_from
_pack_set_data: Final = transactions.SET_DATA_HEAD.pack
_CREATE_CONTAINER: Final = int(Op.CREATE_CONTAINER)
_CREATE_TTL: Final = int(Op.CREATE_TTL)


Reconfigure: TypeAlias = Callable[[Fields, int], bytes | None]
"""((joining, leaving, members, version), zxid): raises `RequestFailed` if this change is not possible now.

Returns the text of the new membership if the transaction at `zxid` is the change, as in an ensemble that speaks
ZooKeeper's protocol. Returns None if it is only the permission, and the client's server requests the change.
"""


ReportExceeded: TypeAlias = Callable[[ExceededLimit, bool], None]
"""(limit of a quota that a request exceeds, whether the request is refused)"""


def no_reconfiguration(fields: Fields, zxid: int) -> bytes | None:
    raise RequestFailed(ErrorCode.RECONFIG_DISABLED)


def next_version(version: int) -> int:
    return version + 1 if version != INT_MAX else INT_MIN


MEASURED_PER_MS: Final = 100
"""After a subtree of N nodes is measured, further measurements are refused for N / `MEASURED_PER_MS` ms.

A measurement takes about N / 1,000 ms. So measuring takes about a tenth of the time at most, unless
`MEASURE_PAUSE_MS_MAX` bounds the pause.
"""
MEASURE_PAUSE_MS_MAX: Final = 60_000


class CurrentRequest:
    """The request that a preparer works on: its sender, its time and its bytes.

    A preparer reuses one such object for all requests, because a new object for each would cost more.
    """

    __slots__ = ("body_at", "cxid", "local", "now_ms", "raw", "server", "session")

    def __init__(self) -> None:
        self.session = self.cxid = self.server = 0
        """The client's session, the number that the client gave the request, and the server that sent the request."""
        self.now_ms = 0
        """The time of the transaction, by the leader's wall clock."""
        self.local = False
        """True if the session is known to its server only."""
        self.raw = b""
        """The whole request: its head, the client's identities, its body."""
        self.body_at = 0
        """The position of the body in `raw`."""

    def identities(self) -> tuple[Identity, ...]:
        """Decode the client's identities. Few requests need them: most nodes are open to all."""
        return decode_identities(self.raw[_HEAD_BYTES : self.body_at])


class MultiUndo(list[tuple[str, Record | None]]):
    """All that a multi has replaced so far: the records of paths, in order, and bytes of ephemeral nodes."""

    __slots__ = ("ephemeral_bytes",)

    def __init__(self) -> None:
        self.ephemeral_bytes: list[tuple[int, int]] = []
        """(session, its earlier bytes), in order."""


@frozen
class AppliedState:
    """The parts of the applied state that are not read for every request."""

    tree: Tree
    sessions: SessionTable


class RequestPreparer:
    """Prepares requests in order. All state but the applied state and `_measure_from_ms` is valid for one epoch.

    Some attributes are parts of others, held directly because every request reads them.
    """

    __slots__ = (
        "_applied",
        "_current",
        "_decode",
        "_ephemeral_bytes",
        "_epoch",
        "_handlers",
        "_measure_from_ms",
        "_nodes",
        "_order",
        "_outstanding",
        "_owners",
        "_quotas",
        "_reconfigure",
        "_records",
        "_report_exceeded",
        "_settings",
        "_txn_bytes_max",
        "_undo",
        "adopts_sessions",
        "zxid",
    )  # fmt: skip

    def __init__(
        self,
        decode: Decode,
        settings: StoreSettings,
        outstanding: OutstandingChanges,
        reconfigure: Reconfigure,
        report_exceeded: ReportExceeded,
        txn_bytes_max: int = TXN_BYTES_MAX,
    ) -> None:
        self._reconfigure = reconfigure
        """Decides whether a change of membership is possible now."""
        self._report_exceeded = report_exceeded
        self._decode = decode
        """Decodes bodies in the format of the client protocol."""
        self._settings = settings
        self._txn_bytes_max = txn_bytes_max - transactions.CHECKPOINT_HEAD.size
        """The largest size of a transaction without a checkpoint before it.

        `auth` in an ACL can make a transaction much larger than its request.
        """
        self._outstanding = outstanding
        """The changes that are prepared and not applied. Empty at the beginning of an epoch."""
        self._records = outstanding.records
        self._order = outstanding.order
        """The two containers of `_outstanding`, held directly: every lookup reads the first, every put writes both."""
        self._epoch = -1
        """The epoch of the last request; -1 before the first one after `switch_to`."""
        self._owners: dict[int, int] = {}
        """session -> the server that it will be attached to when all outstanding transactions are applied."""
        self.adopts_sessions = False
        """True if the history does not tell at which server a session is. Then its first request tells it."""
        self._ephemeral_bytes: dict[int, int] = {}
        """The entries of `Tree.ephemeral_bytes` as they will be when all outstanding transactions are applied."""
        self._measure_from_ms = 0
        """The time from which a subtree may be measured again."""
        self._undo: MultiUndo | None = None
        """The changes to undo if the multi fails; None outside a multi."""
        self.zxid = 0
        """The zxid of the request that is being prepared, or was prepared last."""
        self._current = CurrentRequest()
        """The request that is being prepared, or was prepared last. The functions of the operations share it."""
        self._applied: AppliedState
        self._nodes: dict[str, Znode]
        """The nodes of the applied state, held directly."""
        self._quotas: Quotas
        """The quotas of the applied state."""
        self._handlers: Final[dict[int, Callable[[int, Fields], bytes]]] = {
            Op.SET_DATA: self._set_data,
            **dict.fromkeys(CREATES, self._create),
            Op.DELETE: self._delete,
            Op.SET_ACL: self._set_acl,
            Op.CHECK: self._check,
            Op.MULTI: self._multi,
            Op.RECONFIG: self._reconfig,
            Op.CLOSE_SESSION: self._close_session,
            Op.CREATE_SESSION: self._create_session,
            Op.ATTACH_SESSION: self._attach_session,
            Op.DELETE_CONTAINER: self._delete_container,
            Op.SET_SECRET: self._set_secret,
        }

    def switch_to(self, tree: Tree, sessions: SessionTable, quotas: Quotas) -> None:
        """Use another applied state. The next request drops the outstanding changes, as the first of an epoch does."""
        self._applied = AppliedState(tree, sessions)
        self._nodes = tree.nodes
        self._quotas = quotas
        self._epoch = -1

    # -- one request -------------------------------------------------------------------------------

    def prepare(self, request: bytes, zxid: int, epoch: int, now_ms: int) -> bytes:
        """Return the transaction for a request. A request that fails becomes a transaction with the error.

        The checks, in this order: the sender may request the operation; the session of a client's request is attached
        to the sender, or local to it (a close may also be of a session that is gone); the leader prepares this
        operation; the body can be decoded; then the checks of the operation.
        """
        flags, session, cxid, op, server, identities_bytes = _unpack_head(request)
        if epoch != self._epoch:
            self._begin(epoch)
        self.zxid = zxid
        current = self._current
        current.now_ms = now_ms
        current.session = session
        current.cxid = cxid
        current.server = server
        current.local = False
        current.raw = request
        current.body_at = start = _HEAD_BYTES + identities_bytes
        try:
            if flags & FROM_SERVER:
                if op not in INTERNAL:
                    raise RequestFailed(ErrorCode.UNIMPLEMENTED)
            else:
                if op in _NOT_FOR_CLIENTS:
                    raise RequestFailed(ErrorCode.UNIMPLEMENTED)
                if self._owners.get(session) != server:
                    self._check_session(op, flags)
            handler = self._handlers.get(op)
            if handler is None:
                raise RequestFailed(ErrorCode.UNIMPLEMENTED)
            try:
                fields = (self._decode if flags & FOREIGN else unpack_body)(op, request, start)
            except Exception:  # the body cannot be decoded
                raise RequestFailed(ErrorCode.MARSHALLING_ERROR) from None
            return handler(op, fields)
        except RequestFailed as failure:
            return transactions.error(session, cxid, now_ms, failure.code)
        except AssertionError:
            raise
        except Exception:
            # The decoder accepted invalid fields. No change is recorded: no transaction was built, or a multi has
            # rolled back its parts. Answer with an error: if the request stopped this leader, it would stop the next
            # leader, too.
            return transactions.error(session, cxid, now_ms, ErrorCode.MARSHALLING_ERROR)

    def _begin(self, epoch: int) -> None:
        """Start an epoch: drop the changes that were prepared in another epoch and are not applied."""
        self._epoch = epoch
        self._outstanding.clear()
        self._owners = {session: server for session, (_, server) in self._applied.sessions.table.items()}
        self._ephemeral_bytes = dict(self._applied.tree.ephemeral_bytes)

    def attach(self, session: int, server: int, epoch: int) -> bool:
        """Record the server of a session, which is not part of the history. Return False without such a session."""
        if epoch != self._epoch:
            self._begin(epoch)
        if session not in self._owners:
            return False
        self._owners[session] = server
        return True

    def _check_session(self, op: int, flags: int) -> None:
        current = self._current
        owner = self._owners.get(current.session)
        if owner == NO_SERVER and self.adopts_sessions:
            self._owners[current.session] = current.server
            return
        if owner is not None:
            raise RequestFailed(ErrorCode.SESSION_MOVED)
        current.local = bool(flags & LOCAL)
        # The client and the expiry in the leader may both close a session. The second close finds nothing to do.
        if not current.local and op != Op.CLOSE_SESSION:
            raise RequestFailed(ErrorCode.SESSION_EXPIRED)

    # -- nodes as they will be when all outstanding transactions are applied -----------------------

    def _look_up(self, path: str) -> Znode | None:
        record = self._records.get(path)
        return self._nodes.get(path) if record is None else record[1]

    def _look_up_valid(self, path: str) -> Znode:
        """Return the node at `path`. Fail with `NO_NODE` if there is none, `BAD_ARGUMENTS` if the path is invalid."""
        record = self._records.get(path)
        node = self._nodes.get(path) if record is None else record[1]
        if node is None:
            raise RequestFailed(ErrorCode.NO_NODE if is_valid(path) else ErrorCode.BAD_ARGUMENTS)
        return node

    def _put(self, path: str, node: Znode | None) -> None:
        zxid, records = self.zxid, self._records
        if self._undo is not None:
            self._undo.append((path, records.get(path)))
        records[path] = (zxid, node)
        self._order.append((zxid, path))

    def _authorize(self, acl: Acl, wanted: int) -> None:
        if acl is OPEN:
            return
        access = self._settings.access
        if not access.skip and not allows(acl, wanted, self._current.identities(), access):
            raise RequestFailed(ErrorCode.NO_AUTH)

    def _checked_acl(self, acl: Acl | None) -> Acl:
        if acl is OPEN:
            return OPEN
        settings = self._settings
        fixed = fix_up(
            acl, self._current.identities(), settings.access, settings.acl_entries_max, settings.acl_id_chars_max
        )
        if fixed is None:
            raise RequestFailed(ErrorCode.INVALID_ACL)
        # Refuse an ACL whose transaction the leader might be unable to send, before any change is recorded. A character
        # takes at most four bytes.
        if len(self._current.raw) + 4 * sum([len(name) for _, _, name in fixed]) > self._txn_bytes_max:
            raise RequestFailed(ErrorCode.INVALID_ACL)
        return fixed

    def _check_quota(self, path: str, nodes: int, size: int) -> None:
        """Report the limits that this change exceeds. If quotas are enforced, fail after the first hard one."""
        for exceeded in self._quotas.exceeded(path, nodes, size):
            refused = exceeded.is_hard and self._settings.enforce_quota
            self._report_exceeded(exceeded, refused)
            if refused:
                raise RequestFailed(ErrorCode.QUOTA_EXCEEDED)

    # -- nodes -------------------------------------------------------------------------------------

    def _set_data(self, op: int, fields: Fields) -> bytes:
        """Check the node, the permission, the quota and the version, in this order, and build the transaction.

        This is the order of ZooKeeper's `PrepRequestProcessor`. The first check that fails decides the error code.
        The version wraps to the smallest integer, as Java's does.
        """
        path, data, expected = fields
        records = self._records
        record = records.get(path)
        node = self._nodes.get(path) if record is None else record[1]
        if node is None:
            self._look_up_valid(path)  # raises the error for the path
            raise AssertionError(f"{path} was looked up twice with two results")
        old, acl, czxid, _, ctime, _, version, cversion, aversion, owner, pzxid, children = node
        if acl is not OPEN:
            self._authorize(acl, acls.WRITE)
        if self._quotas.limited:
            self._check_quota(path, 0, size_of(data) - size_of(old))
        if expected != version and expected != ANY_VERSION:
            raise RequestFailed(ErrorCode.BAD_VERSION)
        version = version + 1 if version != INT_MAX else INT_MIN
        current, zxid = self._current, self.zxid
        now_ms = current.now_ms
        raw = path.encode()
        head: bytes = _pack_set_data(
            transactions.SET_DATA,
            current.session,
            current.cxid,
            now_ms,
            version,
            len(raw),
            -1 if data is None else len(data),
        )
        # The same as `_put`, inlined: this is the most frequent operation, and a call costs a twentieth of it.
        if self._undo is not None:
            self._undo.append((path, record))
        records[path] = (
            zxid, (data, acl, czxid, zxid, ctime, now_ms, version, cversion, aversion, owner, pzxid, children),
        )  # fmt: skip
        self._order.append((zxid, path))
        txn: bytes = head + raw if data is None else head + raw + data
        return txn

    def _create(self, op: int, fields: Fields) -> bytes:
        """Check a create, and put the new node and its parent.

        ZooKeeper's checks come in its order: the flags and the TTL, the form of the path, the ACL, the parent and the
        permission to create below it, the name with its number, an existing node, an ephemeral parent, the quota. This
        store also limits the depth of a path, the bytes of a session's ephemeral nodes, and the measuring of subtrees.
        The sequence number is the parent's `cversion`, which counts creations only: no number is used twice.
        """
        if op == _CREATE_TTL:
            path, data, acl, flags, ttl = fields
            owner, sequential = self._owner_of(op, flags, ttl)
        else:
            path, data, acl, flags = fields
            owner, sequential = self._owner_of(op, flags, NO_TTL) if flags or op == _CREATE_CONTAINER else (0, False)
        parent_path, slash, name = path.rpartition("/")
        if not slash or "\0" in path:
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        if acl is not OPEN:
            acl = self._checked_acl(acl)
        parent_path = parent_path or ROOT
        parent = self._look_up(parent_path)
        if parent is None:
            raise RequestFailed(ErrorCode.NO_NODE)
        (p_data, p_acl, p_czxid, p_mzxid, p_ctime, p_mtime, p_version, cversion, p_aversion, p_owner, _, count) = parent
        if p_acl is not OPEN:
            self._authorize(p_acl, acls.CREATE)
        if sequential:
            path = f"{path}{cversion:010d}"
            name = path.rpartition("/")[2]
        # The parent exists, so its path is valid, and only the last name must be checked. The exception is `//name`,
        # for which `rpartition` gives the root as parent.
        if (not name_is_valid(name) and path != ROOT) or path.startswith("//"):
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        if path.count("/") > self._settings.path_depth_max:
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        if self._look_up(path) is not None:
            raise RequestFailed(ErrorCode.NODE_EXISTS)
        if p_owner and is_session(p_owner):
            raise RequestFailed(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
        if self._quotas.limited:
            self._check_quota(path, 1, size_of(data))
        owned_bytes = 0
        if owner and is_session(owner):
            owned_bytes = self._ephemeral_bytes.get(owner, 0) + len(path) + BESIDE_A_PATH_BYTES
            if owned_bytes > self._settings.ephemeral_bytes_max:
                raise RequestFailed(ErrorCode.QUOTA_EXCEEDED)
        if name == STATS and starts_measuring(path):
            self._measure(measured_by(path))
        cversion = cversion + 1 if cversion != INT_MAX else INT_MIN
        current, zxid = self._current, self.zxid
        now_ms = current.now_ms
        if acl is not OPEN:
            # After all checks, so that a refused create leaves nothing in the cache, unless it is part of a multi.
            acl = acls.intern(acl)
        txn = transactions.create(op, current.session, current.cxid, now_ms, path, data, acl, owner, cversion)
        if owned_bytes:
            self._set_ephemeral_bytes(owner, owned_bytes)
        records, order = self._records, self._order
        if self._undo is not None:
            self._undo += (parent_path, records.get(parent_path)), (path, records.get(path))
        records[parent_path] = (
            zxid,
            (p_data, p_acl, p_czxid, p_mzxid, p_ctime, p_mtime, p_version, cversion, p_aversion, p_owner, zxid,
             count + 1),
        )  # fmt: skip
        records[path] = (zxid, (data, acl, zxid, zxid, now_ms, now_ms, 0, 0, 0, owner, zxid, 0))
        order.append((zxid, parent_path))
        order.append((zxid, path))
        return txn

    def _owner_of(self, op: int, flags: int, ttl: int) -> tuple[int, bool]:
        """Return the new node's `owner` field, and whether its name gets a sequence number.

        ZooKeeper's rule: the flags must be known; flags with a TTL need `extended_types` and a TTL in the valid range;
        CREATE_TTL requires such flags, and every other operation refuses them; a local session creates no ephemeral
        node. CREATE_CONTAINER makes a container even if the flags name a persistent or an ephemeral node. CREATE and
        CREATE2 make a persistent node if the flags name a container.
        """
        if not CreateFlag.PERSISTENT <= flags <= CreateFlag.PERSISTENT_SEQUENTIAL_TTL:
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        if flags >= CreateFlag.PERSISTENT_TTL:
            if not self._settings.extended_types:
                raise RequestFailed(ErrorCode.UNIMPLEMENTED)
            if not 0 < ttl <= TTL_MAX or op != _CREATE_TTL:
                raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
            return ttl_owner(ttl), flags == CreateFlag.PERSISTENT_SEQUENTIAL_TTL
        if ttl >= 0 or op == _CREATE_TTL:
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        ephemeral = flags in (CreateFlag.EPHEMERAL, CreateFlag.EPHEMERAL_SEQUENTIAL)
        sequential = flags in (CreateFlag.PERSISTENT_SEQUENTIAL, CreateFlag.EPHEMERAL_SEQUENTIAL)
        if ephemeral and self._current.local:
            raise RequestFailed(ErrorCode.EPHEMERAL_ON_LOCAL_SESSION)
        if op == _CREATE_CONTAINER:
            return CONTAINER, sequential
        return self._current.session if ephemeral else 0, sequential

    def _deletable(self, path: str) -> tuple[str, Znode]:
        """Check that the path may be deleted and that its parent exists. Return the parent's path and the parent."""
        parent_path, slash, _ = path.rpartition("/")
        if not slash or "\0" in path or path in UNDELETABLE:
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        parent_path = parent_path or ROOT
        record = self._records.get(parent_path)  # the same as `_look_up`, inlined
        parent = self._nodes.get(parent_path) if record is None else record[1]
        if parent is None:
            raise RequestFailed(ErrorCode.NO_NODE)
        return parent_path, parent

    def _put_deleted(self, path: str, parent_path: str, parent: Znode) -> None:
        """Record the deletion of the node at `path`, and its parent with one child fewer."""
        data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, _, count = parent
        zxid, records, order = self.zxid, self._records, self._order
        if self._undo is not None:
            self._undo += (parent_path, records.get(parent_path)), (path, records.get(path))
        records[parent_path] = (
            zxid, (data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, zxid, count - 1),
        )  # fmt: skip
        records[path] = (zxid, None)
        order.append((zxid, parent_path))
        order.append((zxid, path))

    def _set_ephemeral_bytes(self, owner: int, owned_bytes: int) -> None:
        """Set this session's bytes of ephemeral nodes as they will be when all outstanding transactions are applied."""
        if self._undo is not None:
            self._undo.ephemeral_bytes.append((owner, self._ephemeral_bytes.get(owner, 0)))
        self._ephemeral_bytes[owner] = owned_bytes

    def _delete(self, op: int, fields: Fields) -> bytes:
        path, expected = fields
        parent_path, parent = self._deletable(path)
        if parent[ACL] is not OPEN:
            self._authorize(parent[ACL], acls.DELETE)
        node = self._look_up(path)
        if node is None:
            raise RequestFailed(ErrorCode.NO_NODE)
        if expected != node[VERSION] and expected != ANY_VERSION:
            raise RequestFailed(ErrorCode.BAD_VERSION)
        if node[CHILDREN]:
            raise RequestFailed(ErrorCode.NOT_EMPTY)
        current = self._current
        txn = transactions.delete(current.session, current.cxid, current.now_ms, path)
        self._put_deleted(path, parent_path, parent)
        owned_bytes = self._ephemeral_bytes.get(node[OWNER])
        if owned_bytes:
            self._set_ephemeral_bytes(node[OWNER], owned_bytes - len(path) - BESIDE_A_PATH_BYTES)
        return txn

    def _delete_container(self, op: int, fields: Fields) -> bytes:
        """Prepare the deletion of a container or TTL node, for the leader itself.

        Fail if the node is missing, has a child or is of another kind, or if its TTL has not passed since the last
        change of its data.
        """
        (path,) = fields
        parent_path, parent = self._deletable(path)
        node = self._look_up(path)
        if node is None:
            raise RequestFailed(ErrorCode.NO_NODE)
        if node[CHILDREN]:
            raise RequestFailed(ErrorCode.NOT_EMPTY)
        current, ttl = self._current, ttl_of(node[OWNER])
        if node[OWNER] != CONTAINER and (ttl is None or current.now_ms - node[MTIME] <= ttl):
            raise RequestFailed(ErrorCode.BAD_VERSION)
        txn = transactions.delete(current.session, current.cxid, current.now_ms, path, transactions.DELETE_CONTAINER)
        self._put_deleted(path, parent_path, parent)
        return txn

    def _measure(self, path: str) -> None:
        """Limit the requests that make every server count a subtree.

        After each of them, others are refused for a time that grows with the count, up to `MEASURE_PAUSE_MS_MAX`.
        """
        now_ms = self._current.now_ms
        if 0 < self._measure_from_ms - now_ms <= MEASURE_PAUSE_MS_MAX:
            raise RequestFailed(ErrorCode.THROTTLED_OP)
        count, _ = self._applied.tree.measure(path)
        self._measure_from_ms = now_ms + min(count // MEASURED_PER_MS, MEASURE_PAUSE_MS_MAX)

    def _set_acl(self, op: int, fields: Fields) -> bytes:
        path, acl, expected = fields
        if self._look_up(path) is None and not is_valid(path):
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        acl = self._checked_acl(acl)
        node = self._look_up_valid(path)
        self._authorize(node[ACL], acls.ADMIN)
        if expected != node[AVERSION] and expected != ANY_VERSION:
            raise RequestFailed(ErrorCode.BAD_VERSION)
        aversion = next_version(node[AVERSION])
        acl = acls.intern(acl)
        current = self._current
        txn = transactions.set_acl(current.session, current.cxid, current.now_ms, path, acl, aversion)
        # From here on, every request is checked against the new ACL.
        self._put(path, (node[DATA], acl, *node[CZXID:AVERSION], aversion, *node[OWNER:]))
        return txn

    def _check(self, op: int, fields: Fields) -> bytes:
        path, expected = fields
        node = self._look_up_valid(path)
        self._authorize(node[ACL], acls.READ)
        if expected != node[VERSION] and expected != ANY_VERSION:
            raise RequestFailed(ErrorCode.BAD_VERSION)
        current = self._current
        return transactions.check(current.session, current.cxid, current.now_ms, path, next_version(node[VERSION]))

    # -- multi -------------------------------------------------------------------------------------

    def _multi(self, op: int, fields: Fields) -> bytes:
        """Prepare all operations or none. Each operation sees the effects of those before it.

        If one fails, every path that the multi has touched gets its earlier record back, and the transaction names the
        failed operation: ZooKeeper's rollbackPendingChanges. An operation fails with `BAD_ARGUMENTS` if the transaction
        would exceed `_txn_bytes_max` with it.
        """
        operations = fields
        if not _PLAIN_PARTS.issuperset([op for op, _ in fields]):
            if any(op not in MULTI_OPS for op, _ in fields):
                raise RequestFailed(ErrorCode.MARSHALLING_ERROR)
            operations = tuple([_as_decoded(op, sub_fields) for op, sub_fields in fields])
            if sum([op in CREATES and starts_measuring(sub_fields[0]) for op, sub_fields in operations]) > 1:
                raise RequestFailed(ErrorCode.BAD_ARGUMENTS)  # each of them would make every server walk a subtree
        if len(operations) > self._settings.multi_ops_max:
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        current, handlers, prepared = self._current, self._handlers, []
        position = self._outstanding.position()
        undo = self._undo = MultiUndo()
        room = self._txn_bytes_max - transactions.HEAD.size
        try:
            for op, sub_fields in operations:
                part = handlers[op](op, sub_fields)
                room -= transactions.LENGTH.size + len(part)
                if room < 0:
                    raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
                prepared.append(part)
        except RequestFailed as failure:
            self._roll_back(position, undo)
            return transactions.failed_multi(
                current.session, current.cxid, current.now_ms, len(fields), len(prepared), failure.code
            )
        except BaseException:
            self._roll_back(position, undo)
            raise
        finally:
            self._undo = None
        return transactions.multi(current.session, current.cxid, current.now_ms, prepared)

    def _roll_back(self, position: int, undo: MultiUndo) -> None:
        self._outstanding.roll_back(position, undo)
        for owner, owned_bytes in reversed(undo.ephemeral_bytes):
            self._ephemeral_bytes[owner] = owned_bytes

    # -- sessions ----------------------------------------------------------------------------------

    def _create_session(self, op: int, fields: Fields) -> bytes:
        (timeout_ms,) = fields
        current = self._current
        session, server = current.session, current.server
        if session in (0, CONTAINER) or session in self._owners:
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        txn = transactions.create_session(session, current.cxid, current.now_ms, timeout_ms, server)
        self._owners[session] = server
        return txn

    def _attach_session(self, op: int, fields: Fields) -> bytes:
        current = self._current
        if current.session not in self._owners:
            raise RequestFailed(ErrorCode.SESSION_EXPIRED)
        txn = transactions.attach_session(current.session, current.cxid, current.now_ms, current.server)
        self._owners[current.session] = current.server
        return txn

    def _close_session(self, op: int, fields: Fields) -> bytes:
        """Prepare the close of a session and the deletion of its ephemeral nodes, which the transaction lists.

        The list is complete, because the session creates no node after its close. A leader that expires a session puts
        the leader's epoch into the request. In a later epoch the request is refused, because the leader of that epoch
        may have received later pings of the session.
        """
        if fields and fields[0] != self._epoch:
            raise RequestFailed(ErrorCode.SESSION_MOVED)
        current = self._current
        session = current.session
        paths = dict(self._applied.tree.ephemerals.get(session, {}))
        for path, (_, node) in self._records.items():
            if node is not None and node[OWNER] == session:
                paths[path] = None
            else:
                paths.pop(path, None)
        txn = transactions.close_session(session, current.cxid, current.now_ms, tuple(paths))
        self._owners.pop(session, None)
        self._ephemeral_bytes.pop(session, None)
        for path in paths:
            slash = path.rfind("/")
            parent_path = path[:slash] or ROOT
            parent = self._look_up(parent_path)
            assert parent is not None, f"the ephemeral node {path} has no parent"
            self._put_deleted(path, parent_path, parent)
        return txn

    def _set_secret(self, op: int, fields: Fields) -> bytes:
        (secret,) = fields
        if self._applied.sessions.secret or len(secret) < SECRET_BYTES_MIN:
            raise RequestFailed(ErrorCode.BAD_ARGUMENTS)
        return transactions.set_secret(self._current.now_ms, secret)

    # -- membership --------------------------------------------------------------------------------

    def _reconfig(self, op: int, fields: Fields) -> bytes:
        """Check whether this client may change the membership. The consensus makes the change.

        If the transaction is only the permission, it changes nothing. When it is applied, the client's server submits
        the change to the consensus; `Store.configure` receives the new membership. Otherwise the leader attaches the
        transaction to the change, and it sets the node.
        """
        text = self._reconfigure(fields, self.zxid)
        node = self._look_up(CONFIG)
        assert node is not None, f"{CONFIG} cannot be deleted"
        self._authorize(node[ACL], acls.WRITE)
        current = self._current
        who = current.session, current.cxid, current.now_ms
        if text is None:
            return transactions.error(*who, ErrorCode.OK)
        return transactions.set_data(*who, CONFIG, text, ANY_VERSION, transactions.RECONFIG)


def _as_decoded(op: int, fields: Fields) -> tuple[int, Fields]:
    """Return an operation as ZooKeeper decodes it in a multi: the flags of a create may change its type.

    Fail with `MARSHALLING_ERROR` if ZooKeeper cannot decode the create, because of its flags or a null ACL.
    """
    if op not in CREATES:
        return op, fields
    flags = fields[3]
    with_ttl = flags in (CreateFlag.PERSISTENT_TTL, CreateFlag.PERSISTENT_SEQUENTIAL_TTL)
    if op == Op.CREATE_TTL:
        if with_ttl:
            return op, fields
        return (Op.CREATE_CONTAINER if flags == CreateFlag.CONTAINER else Op.CREATE), fields[:4]
    if with_ttl or not CreateFlag.PERSISTENT <= flags <= CreateFlag.CONTAINER or fields[2] is None:
        raise RequestFailed(ErrorCode.MARSHALLING_ERROR)
    return (Op.CREATE_CONTAINER if flags == CreateFlag.CONTAINER else op), fields


_PLAIN_PARTS: Final = frozenset(map(int, MULTI_OPS - CREATES))
"""Operations of a multi that keep their type in the transaction. The flags of a create may change its type."""

_NOT_FOR_CLIENTS: Final = frozenset(INTERNAL - {Op.CLOSE_SESSION}) | {Op.CHECK}
"""Operations that a client may not send as a request. CHECK is allowed inside a multi."""
