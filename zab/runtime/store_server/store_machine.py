"""The pure store as a member's machine, with notifications about applied transactions.

A member knows nothing of sessions, and the store knows nothing of clients. This class connects them: it passes events
to watchers, and reports each session that a transaction creates, moves or closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from zab.host.collector import pass_all_by, pass_by, spare, undisturbed
from zab.runtime.environment import REAL_ENVIRONMENT
from zab.store import transactions
from zab.store.apply import Handler, Result
from zab.store.quota import ExceededLimit
from zab.store.request_preparer import Reconfigure, no_reconfiguration
from zab.store.server_watches import Watcher
from zab.store.store import Store
from zab.store.store_settings import NO_READ_LIMITS, TXN_BYTES_MAX, ReadLimits, StoreSettings
from zab.store.store_snapshot import StoreSnapshot
from zab.store.tree import Mark, Tree
from zab.wire.client.replies import encode_event
from zab.wire.client.requests import decode_fields


class ChangeEvent:
    """An event and its frame, which is encoded once for all connections that receive it."""

    __slots__ = ("_frame", "event", "path", "zxid")

    def __init__(self, event: int, path: str, zxid: int) -> None:
        self.event = event
        self.path = path
        self.zxid = zxid
        self._frame = b""

    @property
    def frame(self) -> bytes:
        if not self._frame:
            self._frame = encode_event(self.event, self.path, self.zxid)
        return self._frame


class EventWatcher(Watcher, Protocol):
    """A watcher that receives events. `notify` is called in the middle of `apply`, so it must be quick."""

    def notify(self, change: ChangeEvent) -> None: ...
    def failed(self, mistake: Exception) -> None:
        """Report the exception that `notify` raised."""


class Observer(Protocol):
    def session_changed(self, session: int) -> None:
        """Called when the session was created, attached again or closed: the table of sessions shows its state."""

    def session_closes(self, session: int, owned: Iterable[str]) -> None:
        """Called when a session with ephemeral nodes is about to close; `owned` are their paths."""

    def limit_exceeded(self, exceeded: ExceededLimit, refused: bool) -> None:
        """Called at the leader if a request exceeds a limit of a quota."""

    def restore_begins(self) -> None: ...
    def restore_ended(self) -> None: ...


def tell(watchers: Sequence[Watcher], event: int, path: str, zxid: int) -> None:
    change = ChangeEvent(event, path, zxid)
    for watcher in watchers:
        try:
            watcher.notify(change)  # type: ignore[attr-defined]  # all watchers here are `EventWatcher`s
        except (
            Exception
        ) as mistake:  # an error of this watcher: the transaction is applied, and the other watchers get the event
            watcher.failed(mistake)  # type: ignore[attr-defined]


class StoreMachine(Store):
    """The store as the machine that a member replicates."""

    def __init__(
        self,
        settings: StoreSettings,
        reconfigure: Reconfigure = no_reconfiguration,
        read_limits: ReadLimits = NO_READ_LIMITS,
        txn_bytes_max: int = TXN_BYTES_MAX,
    ) -> None:
        self.observer: Observer | None = None
        """Notified of sessions, exceeded quotas and restores; None for a store without a server around it."""
        self.in_loop = REAL_ENVIRONMENT.in_loop
        self._changed: Mark | None = None
        """Paths changed since the last checkpoint; None while the garbage collector still visits this tree."""
        super().__init__(settings, tell, decode_fields, reconfigure, read_limits, txn_bytes_max)

    def state_replaced(self) -> None:
        self._changed = None
        for kind in (transactions.CREATE_SESSION, transactions.ATTACH_SESSION, transactions.CLOSE_SESSION):
            self.wrap_handler(kind, partial(self._observed, closes=kind == transactions.CLOSE_SESSION))

    def limit_exceeded(self, exceeded: ExceededLimit, refused: bool) -> None:
        if self.observer is not None:
            self.observer.limit_exceeded(exceeded, refused)

    def _observed(self, handler: Handler, *, closes: bool) -> Handler:
        def observed(zxid: int, txn: bytes) -> Result:
            session = transactions.HEAD.unpack_from(txn)[1]
            if self.observer is not None and closes and session in self.tree.ephemerals:
                self.observer.session_closes(session, sorted(self.tree.ephemerals[session]))
            result = handler(zxid, txn)
            if self.observer is not None:
                self.observer.session_changed(session)
            return result

        return observed

    def observe(self, observer: Observer, in_loop: Callable[[Callable[[], object]], None]) -> None:
        """Notify `observer` of sessions, exceeded quotas and restores. Call this before the member runs.

        `in_loop` calls a function in the event loop from a thread.
        """
        self.observer, self.in_loop = observer, in_loop

    def snapshot(self) -> StoreSnapshot:
        with undisturbed():
            taken = super().snapshot()
            pass_by(taken.paths)
        return taken

    def restore(self, chunks: Iterable[bytes]) -> None:
        """Restore, in a thread. Between `restore_begins` and `restore_ended`, which are called in the loop, no read may
        run and no watch may be added.
        """
        if self.observer is None:
            super().restore(chunks)
            return
        old, wanted = self.tree, self.open_snapshots
        self.in_loop(self.observer.restore_begins)
        try:
            super().restore(chunks)
        finally:
            self.in_loop(self.observer.restore_ended)
        wanted.sweep(old)
        if not wanted:  # otherwise an open snapshot still reads the old tree
            use_up(old)

    def spare_the_collector(self) -> None:
        """Exempt this tree from the cyclic collector, unless it is exempt already."""
        if self._changed is None:
            self._changed = {}
            self.tree.marks.append(self._changed)
            spare(self.tree.nodes)

    def checkpointed(self) -> None:
        if self._changed:
            # The garbage collector starts a round when many more objects were created than freed. Replacing a node
            # does both, so it starts no round, but each new node is one more object for the next round to visit. After
            # seconds of such changes, that round would hold up the loop for long.
            nodes = self.tree.nodes
            pass_all_by([nodes[path] for path in self._changed if path in nodes])
            self._changed.clear()


def use_up(tree: Tree) -> None:
    """Free a tree node by node, so that other threads run meanwhile.

    Freeing a million nodes at once would block the interpreter for a third of a second.
    """
    tables: Iterable[dict[str, Any]] = (tree.nodes, *tree.children.values())
    for table in tables:
        while table:
            table.popitem()
