"""The store as what a simulated server feeds, with somebody who is told of its sessions and its watches.

It stands for `zab.runtime.store_server.store_machine.StoreMachine`, which is the same store with a way out of a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol
from zlib import crc32

from zab.core.batch import Batch
from zab.core.zxid import Zxid
from zab.store import transactions
from zab.store.apply import Handler, Result
from zab.store.digest import Digest
from zab.store.server_watches import Watcher
from zab.store.session_table import SessionTable
from zab.store.store import Store, StoreSettings
from zab.store.tree import Tree
from zab.wire.client.requests import decode_fields
from zab.wire.relay import TAG_BYTES


class Observer(Protocol):
    def session_changed(self, session: int) -> None:
        """Made, attached anew or closed, as the table of sessions says now."""

    def happened(self, watchers: Sequence[Watcher], event: int, path: str, zxid: int) -> None: ...

    def prepared(self, zxid: int, applied: int) -> None:
        """A transaction was made for this place, by a leader that had applied so much."""


SETTINGS: Final = StoreSettings(enforce_quota=True, extended_types=True)
"""All that there is can be asked for."""


class StoreMachine(Store):
    def __init__(self) -> None:
        self.observer: Observer | None = None
        self._sessions_digest = -1
        super().__init__(SETTINGS, self._tell, decode_fields)

    def prepare_at(self, request: bytes, zxid: int, epoch: int, now_ms: int) -> bytes:
        if self.observer is not None:
            self.observer.prepared(zxid, self.zxid)
        return super().prepare_at(request, zxid, epoch, now_ms)

    @property
    def sessions_digest(self) -> int:
        """Worked out anew when they have changed, which is seldom."""
        if self._sessions_digest < 0:
            sessions = self.sessions
            self._sessions_digest = crc32(repr((sessions.secret, sorted(sessions.table.items()))).encode())
        return self._sessions_digest

    def _tell(self, watchers: Sequence[Watcher], event: int, path: str, zxid: int) -> None:
        assert self.observer is not None, "somebody watches, and nobody hears of it"
        self.observer.happened(watchers, event, path, zxid)

    def _become(self, tree: Tree, sessions: SessionTable, digest: Digest) -> None:
        super()._become(tree, sessions, digest)
        self._sessions_digest = -1
        for kind in (
            transactions.CREATE_SESSION,
            transactions.ATTACH_SESSION,
            transactions.CLOSE_SESSION,
            transactions.SET_SECRET,
        ):
            self._handlers[kind] = self._observed(self._handlers[kind])

    def _observed(self, handler: Handler) -> Handler:
        def observed(zxid: int, txn: bytes) -> Result:
            result = handler(zxid, txn)
            self._sessions_digest = -1
            if self.observer is not None:
                self.observer.session_changed(transactions.HEAD.unpack_from(txn)[1])
            return result

        return observed


Applied = Callable[[bytes, Result], None]
"""A transaction with its tag, and what became of it."""


def ignore(payload: bytes, result: Result) -> None:
    """Nobody waits for it."""


class Machine:
    """A store as a server of the cores world knows its machine."""

    def __init__(self) -> None:
        self.store = StoreMachine()
        self.count = 0

    @property
    def zxid(self) -> Zxid:
        return Zxid(self.store.zxid)

    @property
    def digest(self) -> int:
        """Of the tree and of the sessions."""
        return self.store.digest.value << 32 | self.store.sessions_digest

    def apply(self, batch: Batch, applied: Applied = ignore) -> None:
        self.count += batch.count
        payloads = batch.payloads()
        if batch.config:
            self.store.configure(batch.last, payloads[0], applied=True)
            return
        apply = self.store.apply
        for zxid, payload in enumerate(payloads, start=batch.first):
            applied(payload, apply(zxid, payload[TAG_BYTES:]))

    def snapshot(self) -> list[bytes]:
        return list(self.store.snapshot())

    def restore(self, chunks: Iterable[bytes]) -> None:
        """Watches stay: see `Store.deliver_missed`."""
        self.store.restore(chunks)
