"""The coordination store as a replicated machine: `prepare` at the leader, `apply` on every server.

    store = Store(deliver=queue_event)
    txn = store.prepare(request, view)         # leader
    result = store.apply(zxid, txn)            # every server; delivers events before it returns
    error, node = store.reads.get_data("/a", True, connection)

All calls come from one thread, except for the chunks of a snapshot and for `restore`, during which no other call may be
made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from attrs import frozen

from zab.core.errors import DamagedError, LocalProtocolError
from zab.core.settings_checks import check_settings
from zab.store import missed_events, store_snapshot, transactions
from zab.store.acl import DEFAULT_ACCESS, ENTRIES_MAX, ID_CHARS_MAX, Access
from zab.store.apply import Applier, Result
from zab.store.digest import CHANGED_MAX, CHECKPOINT_EVERY, Digest
from zab.store.missed_events import MissedEvent
from zab.store.operations import Op
from zab.store.outstanding_changes import OutstandingChanges
from zab.store.paths import CONFIG
from zab.store.quota import Quotas
from zab.store.read_handler import ReadHandler
from zab.store.request_format import Decode, describe_request, no_decoder, op_name
from zab.store.request_preparer import Reconfigure, RequestPreparer
from zab.store.server_watches import Deliver, ServerWatches, Watcher
from zab.store.session_table import SessionTable
from zab.store.store_snapshot import StoreSnapshot
from zab.store.tree import Tree
from zab.store.znode import Znode


class LeaderView(Protocol):
    """The leader's knowledge when a request is prepared."""

    @property
    def zxid(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def now_ms(self) -> int: ...


@frozen
class StoreSettings:
    """`enforce_quota`, `extended_types`, `access`: ZooKeeper's settings of these names; looked at by the leader only.

    checkpoints          whether the tree's digest is kept and compared among servers
    acl_entries_max      entries of a list of permissions that a client sets, with `auth` expanded; a longer list that
                         is in the state already stays in force
    acl_id_chars_max     characters of one id in such a list
    path_depth_max       names in the path of a node that is created: quotas and recursive watches look at each ancestor
    multi_ops_max        operations of one multi
    ephemeral_bytes_max  paths of the ephemeral nodes of one session, and 64 bytes more for each node: closing the
                         session is one transaction that deletes all of them
    """

    access: Access = DEFAULT_ACCESS
    enforce_quota: bool = False
    extended_types: bool = False
    checkpoints: bool = True
    acl_entries_max: int = ENTRIES_MAX
    acl_id_chars_max: int = ID_CHARS_MAX
    path_depth_max: int = 100
    multi_ops_max: int = 10_000
    ephemeral_bytes_max: int = 2 << 20

    def __attrs_post_init__(self) -> None:
        check_settings(self, {})


@frozen
class Mismatch:
    """The leader had another tree than this server, at the same zxid. One of them is wrong, and both go on."""

    zxid: int
    leaders: int
    ours: int


def nobody(watchers: Sequence[Watcher], event: int, path: str, zxid: int) -> None:
    """Deliver to no client: the default without connections."""


DEFAULT_SETTINGS: Final = StoreSettings()
_BETWEEN_CHECKPOINTS: Final = CHECKPOINT_EVERY - 1


class Store:
    def __init__(
        self,
        settings: StoreSettings = DEFAULT_SETTINGS,
        deliver: Deliver = nobody,
        decode: Decode = no_decoder,
    ) -> None:
        self.settings = settings
        self.zxid = 0
        """The zxid of the last applied transaction."""
        self.mismatches = 0
        self.mismatch: Mismatch | None = None
        """The last one."""
        self.watches = ServerWatches(deliver, settings.access)
        self._outstanding = OutstandingChanges()
        self._records = self._outstanding.records
        self._outstanding_since = 0
        """The zxid up to which transactions are applied and no longer outstanding. Only `prepare` looks at outstanding
        ones.
        """
        self._preparer = RequestPreparer(
            decode,
            settings.access,
            enforce_quota=settings.enforce_quota,
            extended_types=settings.extended_types,
            acl_entries_max=settings.acl_entries_max,
            acl_id_chars_max=settings.acl_id_chars_max,
            path_depth_max=settings.path_depth_max,
            multi_ops_max=settings.multi_ops_max,
            ephemeral_bytes_max=settings.ephemeral_bytes_max,
            outstanding=self._outstanding,
        )
        self._snapshots = store_snapshot.OpenSnapshots()
        self._missed: list[MissedEvent] = []
        tree = Tree()
        self.reads = ReadHandler(tree, self.watches, settings.access)
        self._become(tree, SessionTable(), Digest(tree))

    def describe(self, request: bytes) -> str:
        """Name a request for the log."""
        return describe_request(request)

    def describe_transaction(self, txn: bytes) -> str:
        """Name a transaction for the log."""
        if txn[0] == transactions.CHECKPOINT:
            txn = txn[transactions.CHECKPOINT_HEAD.size :]
        kind, session, _, _ = transactions.HEAD.unpack_from(txn)
        op = next((each for each in Op if each & 0xFF == kind), kind)
        return f"{op_name(op)} of session {session & 0xFFFF_FFFF_FFFF_FFFF:#x}"

    def _become(self, tree: Tree, sessions: SessionTable, digest: Digest) -> None:
        self.tree = tree
        self.sessions = sessions
        self.quotas = Quotas(tree)
        self.digest = digest
        self._unsettled = digest.changed
        self._unannounced = False
        """True while this server has a digest checkpoint that it has not sent to the others."""
        self._applier = Applier(tree, sessions, self.quotas, self.watches)
        self._handlers = self._applier.handlers
        self._handlers[transactions.CHECKPOINT] = self._checked
        self._preparer.look_at(tree, sessions, self.quotas)
        self._outstanding.clear()
        self.reads.look_at(tree)

    # -- the leader --------------------------------------------------------------------------------

    @property
    def reconfigure(self) -> Reconfigure:
        """The function that checks a client's request for another membership. By default it refuses every one."""
        return self._preparer.reconfigure

    @reconfigure.setter
    def reconfigure(self, reconfigure: Reconfigure) -> None:
        self._preparer.reconfigure = reconfigure

    def prepare(self, request: bytes, view: LeaderView) -> bytes:
        """The transaction for a request that `request.pack_request` made. Refuses nothing: an error is one, too."""
        return self.prepare_at(request, view.zxid, view.epoch, view.now_ms)

    def prepare_at(self, request: bytes, zxid: int, epoch: int, now_ms: int) -> bytes:
        """Prepare like `prepare`, without a view: the store keeps account of the outstanding transactions itself. For
        the hot path.
        """
        if self._outstanding_since != self.zxid:
            self._outstanding_since = self.zxid
            self._outstanding.applied(self.zxid)
        txn = self._preparer.prepare(request, zxid, epoch, now_ms)
        if self._unannounced:
            self._unannounced = False
            return transactions.checkpoint(*self.digest.history[-1], txn)
        return txn

    # -- everybody ---------------------------------------------------------------------------------

    def apply(self, zxid: int, txn: bytes) -> Result:
        if zxid <= self.zxid:
            raise LocalProtocolError(f"transaction {zxid:#x} after {self.zxid:#x}")
        if self._missed:
            self.deliver_missed()
        result = self._handlers[txn[0]](zxid, txn)
        # Set this after a whole multi, never within one: a reader who sees this zxid sees all of the transaction.
        self.zxid = zxid
        if self._records and zxid >= self._preparer.zxid:
            self._outstanding.clear()  # at once: `prepare` may never be called again, and they hold data
        if not zxid & _BETWEEN_CHECKPOINTS:
            self._checkpoint(zxid)
        elif len(self._unsettled) > CHANGED_MAX:
            self.digest.settle()
        return result

    def _checked(self, zxid: int, txn: bytes) -> Result:
        self._compare(txn)
        txn = txn[transactions.CHECKPOINT_HEAD.size :]
        return self._handlers[txn[0]](zxid, txn)

    def _checkpoint(self, zxid: int) -> None:
        if self.settings.checkpoints:
            self.digest.checkpoint(zxid)
            self._unannounced = True
        if self._snapshots:
            self._snapshots.sweep(self.tree)

    def _compare(self, txn: bytes) -> None:
        _, zxid, leaders = transactions.CHECKPOINT_HEAD.unpack_from(txn)
        ours = self.digest.at(zxid)
        if ours is not None and ours != leaders:
            self.mismatches += 1
            self.mismatch = Mismatch(zxid, leaders, ours)

    def configure(self, zxid: int, text: bytes, *, applied: bool = False) -> None:
        """Set the membership in force. It comes from the consensus, on every server, and is no transaction.

        `applied`: `zxid` is its place in the history, and everything before it has been applied.
        """
        if applied and zxid > self.zxid:
            self.zxid = zxid
        old = self.tree.nodes[CONFIG]
        if not text and not old[0]:
            return  # a server alone: its configuration was never written
        new: Znode = (text, *old[1:3], zxid, old[4], old[5], -1, *old[7:])
        self.tree.replace(CONFIG, old, new)
        if self.watches.data_paths and old[0] != text:
            self.watches.data_changed(CONFIG, new[1], zxid)

    # -- the whole of it ---------------------------------------------------------------------------

    def snapshot(self) -> StoreSnapshot:
        return self._snapshots.begin(self.tree, self.sessions, self.zxid, self.digest.value)

    def restore(self, chunks: Iterable[bytes]) -> None:
        """Replace the state by that of a snapshot. A damaged snapshot leaves the store unchanged.

        Watches stay: call `deliver_missed` before anything else, in the thread that delivers events.
        """
        tree, sessions, zxid, digest = store_snapshot.read(chunks)
        found = Digest(tree)
        if found.value != digest:
            raise DamagedError(f"a snapshot with digest {digest:#x} whose nodes have {found.value:#x}")
        self._missed += missed_events.compare(self.tree, tree, self.watches)
        self.zxid = zxid
        self._snapshots = store_snapshot.OpenSnapshots()
        self._handlers.clear()  # else they hold the old state, and it holds them, where no collector looks
        self._become(tree, sessions, found)

    def deliver_missed(self) -> None:
        """Send the events that watchers missed during `restore`."""
        told, self._missed = self._missed, []
        missed_events.tell(told, self.watches, self.zxid)
