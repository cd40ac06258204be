"""The coordination store as a replicated state machine: `prepare` at the leader, `apply` on every server.

    store = Store(deliver=queue_event)
    txn = store.prepare(request, view)         # leader
    result = store.apply(zxid, txn)            # every server; delivers events before it returns
    error, node = store.reads.get_data(connection, "/a", True)

All calls must come from one thread, with two exceptions: a snapshot may be iterated in another thread at any time, and
`restore` may run in another thread while no other call is made but `watches.drop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from attrs import frozen

from zab.core.errors import DamagedError, LocalProtocolError
from zab.core.zxid import Zxid, show
from zab.store import missed_events, store_snapshot, transactions
from zab.store.apply import Applier, Handler, Result
from zab.store.digest import CHANGED_MAX, CHECKPOINT_EVERY, Digest
from zab.store.missed_events import MissedEvent
from zab.store.operations import Op
from zab.store.outstanding_changes import OutstandingChanges
from zab.store.paths import CONFIG
from zab.store.predicted_digest import PredictedDigest
from zab.store.quota import ExceededLimit, Quotas
from zab.store.read_handler import ReadHandler
from zab.store.request_format import Decode, describe_request, no_decoder, op_name
from zab.store.request_preparer import Reconfigure, RequestPreparer, no_reconfiguration
from zab.store.server_watches import Deliver, ServerWatches, Watcher
from zab.store.session_table import SessionTable
from zab.store.store_settings import DEFAULT_SETTINGS, NO_READ_LIMITS, TXN_BYTES_MAX, ReadLimits, StoreSettings
from zab.store.store_snapshot import StoreSnapshot
from zab.store.tree import Tree
from zab.store.znode import Znode


class LeaderView(Protocol):
    """The leader's epoch, time and next zxid when it prepares a request."""

    @property
    def zxid(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def now_ms(self) -> int: ...


@frozen
class Mismatch:
    """A zxid at which the digest of the leader's tree differs from this server's. Both servers continue."""

    zxid: int
    leaders: int
    ours: int


def no_delivery(watchers: Sequence[Watcher], event: int, path: str, zxid: int) -> None:
    """Deliver no event: the default of a store without connections."""


class Store:
    """The replicated state of the coordination store, and the leader's state for the preparation of requests."""

    kind: Final = "store"
    """The kind of this state machine, as data directories record it."""

    def __init__(
        self,
        settings: StoreSettings = DEFAULT_SETTINGS,
        deliver: Deliver = no_delivery,
        decode: Decode = no_decoder,
        reconfigure: Reconfigure = no_reconfiguration,
        read_limits: ReadLimits = NO_READ_LIMITS,
        txn_bytes_max: int = TXN_BYTES_MAX,
    ) -> None:
        """`reconfigure` checks a client's request for a change of membership. By default it refuses every request."""
        self.settings = settings
        self.zxid = 0
        """The zxid of the last applied transaction or membership. It only grows, except by `restore`."""
        self.mismatches = 0
        """The number of digests of the leader that differed from this server's."""
        self.mismatch: Mismatch | None = None
        """The last mismatch; None if there was none."""
        self.watches = ServerWatches(
            deliver, settings.access, read_limits.watches_per_client_max, read_limits.watches_max
        )
        """The watches of this server's clients. `restore` keeps them."""
        self._outstanding = OutstandingChanges()
        """The changes that this server has prepared as the leader and that are not applied yet."""
        self._records = self._outstanding.records
        self._outstanding_since = 0
        """`self.zxid` when `prepare` last removed applied changes from `_outstanding`."""
        self._preparer = RequestPreparer(
            decode,
            settings,
            self._outstanding,
            reconfigure,
            self.limit_exceeded,
            txn_bytes_max,
        )
        self.open_snapshots = store_snapshot.OpenSnapshots()
        """The snapshots whose marks are in the tree."""
        self._missed: list[MissedEvent] = []
        """Events found by `restore` and not delivered yet. Delivered before the next transaction is applied."""
        tree = Tree()
        self.reads = ReadHandler(tree, self.watches, settings.access, read_limits.multi_read_bytes_max)
        self._switch_to(tree, SessionTable(), Digest(tree))

    def describe(self, request: bytes) -> str:
        """Describe a request in one phrase, for log messages."""
        return describe_request(request)

    def describe_transaction(self, txn: bytes) -> str:
        """Describe a transaction in one phrase, for log messages."""
        if txn[0] == transactions.CHECKPOINT:
            txn = txn[transactions.CHECKPOINT_HEAD.size :]
        kind, session, _, _ = transactions.HEAD.unpack_from(txn)
        op = Op.MULTI if kind == transactions.FAILED_MULTI else next((each for each in Op if each & 0xFF == kind), kind)
        return f"{op_name(op)} of session {session & 0xFFFF_FFFF_FFFF_FFFF:#x}"

    def _switch_to(self, tree: Tree, sessions: SessionTable, digest: Digest) -> None:
        """Use another applied state, with the objects that follow from it: quotas, digest and applier."""
        self.tree = tree
        self.sessions = sessions
        self.quotas = Quotas(tree)
        self.digest = digest
        self._predicted = PredictedDigest(tree, digest, self._outstanding)
        self._unsettled = digest.changed
        """The dict inside `digest`: the nodes whose changes the digest does not contain yet."""
        self._unannounced = False
        """True while there is a digest checkpoint that `prepare` has not put before a transaction."""
        self._applier = Applier(tree, sessions, self.quotas, self.watches)
        self._handlers = self._applier.handlers
        self._handlers[transactions.CHECKPOINT] = self._apply_behind_checkpoint
        self._preparer.switch_to(tree, sessions, self.quotas)
        self._outstanding.clear()
        self.reads.switch_to(tree)
        self.state_replaced()

    # -- for subclasses ----------------------------------------------------------------------------

    def state_replaced(self) -> None:
        """Hook: called at the start and in each `restore`, once tree, sessions and handlers are new objects."""

    def limit_exceeded(self, exceeded: ExceededLimit, refused: bool) -> None:
        """Hook: called at the leader if a request exceeds a limit of a quota."""

    def checkpointed(self) -> None:
        """Hook: called after the application of a transaction whose zxid is a multiple of `CHECKPOINT_EVERY`."""

    def wrap_handler(self, kind: int, wrap: Callable[[Handler], Handler]) -> None:
        """Replace the handler of a kind of transaction by `wrap(handler)`, until `restore` replaces all handlers."""
        self._handlers[kind] = wrap(self._handlers[kind])

    # -- the leader --------------------------------------------------------------------------------

    def prepare(self, request: bytes, view: LeaderView) -> bytes:
        """Return the transaction for a request of `pack_request`. A request that fails becomes a transaction, too."""
        return self.prepare_at(request, view.zxid, view.epoch, view.now_ms)

    def prepare_at(self, request: bytes, zxid: int, epoch: int, now_ms: int) -> bytes:
        """Do the same as `prepare`, without a view object, which would cost too much for each request."""
        if self._outstanding_since != self.zxid:
            self._outstanding_since = self.zxid
            self._outstanding.applied(self.zxid)
        txn = self._preparer.prepare(request, zxid, epoch, now_ms)
        if self._unannounced:
            self._unannounced = False
            return transactions.checkpoint(*self.digest.history[-1], txn)
        return txn

    def adopt_sessions(self) -> None:
        """Let the leader remember at which server each session is, instead of reading it from the history."""
        self._preparer.adopts_sessions = True

    def attach_session(self, session: int, server: int, epoch: int) -> bool:
        """Record the server of a session at the leader of an epoch. Return False if there is no such session."""
        return self._preparer.attach(session, server, epoch)

    # -- every server ------------------------------------------------------------------------------

    def apply(self, zxid: int, txn: bytes) -> Result:
        """Apply a transaction, deliver its events and return its result.

        Raise `LocalProtocolError` if `zxid` is not above the last one, `DamagedError` if `txn` cannot be decoded.
        """
        if zxid <= self.zxid:
            raise LocalProtocolError(f"transaction {zxid:#x} cannot be applied after {self.zxid:#x}: zxids must grow")
        if self._missed:
            self.deliver_missed()
        try:
            result = self._handlers[txn[0]](zxid, txn)
        except Exception as wrong:
            self._check_is_ours(zxid, txn, wrong)
            raise
        # Only after the whole transaction: a read that reports this zxid must see all parts of a multi.
        self.zxid = zxid
        if self._records and zxid >= self._preparer.zxid:
            self._outstanding.clear()  # frees their data now, because `prepare` may never be called again
        if not zxid % CHECKPOINT_EVERY:
            self._checkpoint(zxid)
        elif len(self._unsettled) > CHANGED_MAX:
            self.digest.settle()
        return result

    def _check_is_ours(self, zxid: int, txn: bytes, wrong: Exception) -> None:
        """Raise `DamagedError` if the transaction, whose handler raised `wrong`, cannot be decoded."""
        try:
            transactions.decode(txn)
        except DamagedError as error:
            raise DamagedError(
                f"transaction {show(Zxid(zxid))} was not written by a store ({error}). Inspect it "
                "with `zab log dump DATA`, and save the state before it with `zab log repair DATA NEW`"
            ) from wrong

    def _apply_behind_checkpoint(self, zxid: int, txn: bytes) -> Result:
        self._compare(txn)
        txn = txn[transactions.CHECKPOINT_HEAD.size :]
        return self._handlers[txn[0]](zxid, txn)

    def _checkpoint(self, zxid: int) -> None:
        if self.settings.checkpoints:
            self.digest.checkpoint(zxid)
            self._unannounced = True
        if self.open_snapshots:
            self.open_snapshots.sweep(self.tree)
        self.checkpointed()

    def _compare(self, txn: bytes) -> None:
        _, zxid, leaders = transactions.CHECKPOINT_HEAD.unpack_from(txn)
        ours = self.digest.at(zxid)
        if ours is not None and ours != leaders:
            self.tree_differs(zxid, leaders, ours)

    def tree_digest(self) -> int:
        """Return the digest of the tree after the last transaction."""
        return self.digest.value

    def predicted_digest(self, zxid: int) -> int:
        """Return the digest that the tree will have after the transaction that was prepared last, with this zxid.

        Once it is called in an epoch, it must be called after each `prepare`.
        """
        return self._predicted.after(zxid)

    def tree_differs(self, zxid: int, leaders: int, ours: int) -> None:
        """Record that the leader's tree had another digest after this transaction."""
        self.mismatches += 1
        self.mismatch = Mismatch(zxid, leaders, ours)

    def configure(self, zxid: int, text: bytes, *, applied: bool = False) -> None:
        """Write the current membership to `/zookeeper/config`.

        The consensus interprets changes of the membership itself, so they arrive here and not through `apply`.
        `applied` is True if everything before `zxid`, the membership's place in the history, has been applied.
        """
        if applied and zxid > self.zxid:
            self.zxid = zxid
        old = self.tree.nodes[CONFIG]
        if not text and not old[0]:
            return  # an ensemble without addresses, as in an embedded store, has nothing to show
        new: Znode = (text, *old[1:3], zxid, old[4], old[5], -1, *old[7:])
        self.tree.replace(CONFIG, old, new)
        if self.watches.data_paths and old[0] != text:
            self.watches.data_changed(CONFIG, new[1], zxid)

    # -- the whole state ---------------------------------------------------------------------------

    def snapshot(self) -> StoreSnapshot:
        """Return the present state. The snapshot may be iterated while later transactions are applied."""
        return self.open_snapshots.begin(self.tree, self.sessions, self.zxid, self.digest.value)

    def restore(self, chunks: Iterable[bytes]) -> None:
        """Replace the state by that of a snapshot. A damaged one raises `DamagedError` and leaves the store unchanged.

        The watches remain: call `deliver_missed` before anything else, in the thread that delivers events.
        """
        tree, sessions, zxid, digest = store_snapshot.read(chunks)
        found = Digest(tree)
        if found.value != digest:
            raise DamagedError(f"the snapshot names the digest {digest:#x}, but its nodes have {found.value:#x}")
        self._missed += missed_events.compare(self.tree, tree, self.watches)
        self.zxid = zxid
        self.open_snapshots = store_snapshot.OpenSnapshots()
        self._handlers.clear()  # breaks the cycle with the old state, so that it is freed at once
        self._switch_to(tree, sessions, found)

    def deliver_missed(self) -> None:
        """Deliver the events that watchers missed because `restore` replaced the state."""
        missed, self._missed = self._missed, []
        missed_events.deliver(missed, self.watches, self.zxid)
