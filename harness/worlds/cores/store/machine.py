"""The real machine of the store for a simulated server, which restores snapshots without a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol
from zlib import crc32

from harness.checkers.oracle_state import Violation
from zab.core.batch import Batch
from zab.core.zxid import Zxid, show
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.store_machine import Observer, StoreMachine
from zab.store import transactions
from zab.store.acl import Access
from zab.store.apply import Handler, Result
from zab.store.request_preparer import Reconfigure, no_reconfiguration
from zab.store.store_settings import StoreSettings
from zab.wire.relay_messages import TAG_BYTES


class PreparationObserver(Observer, Protocol):
    def prepared(self, zxid: int, applied: int) -> None:
        """Note that the leader prepared transaction `zxid` when `applied` was the last zxid that it had applied."""


LEFT: Final = "nothing is left when nothing is outstanding"
SETTINGS: Final = StoreSettings(enforce_quota=True, extended_types=True, access=Access(supers=frozenset({"digest"})))
"""Settings that enable every operation."""


class SimulatedStore(StoreMachine):
    observer: PreparationObserver | None

    def __init__(self, reconfigure: Reconfigure = no_reconfiguration) -> None:
        self._sessions_digest = -1
        super().__init__(SETTINGS, reconfigure, ClientPortSettings())
        self.in_loop = _call

    def prepare_at(self, request: bytes, zxid: int, epoch: int, now_ms: int) -> bytes:
        if self.observer is not None:
            self.observer.prepared(zxid, self.zxid)
        txn = super().prepare_at(request, zxid, epoch, now_ms)
        if self._records:
            self._judge_outstanding()
        return txn

    def apply(self, zxid: int, txn: bytes) -> Result:
        result = super().apply(zxid, txn)
        if zxid >= self._preparer.zxid:
            left = sorted(self._records)
            if left or self._outstanding.order:
                what = f"outstanding changes of {left} remain at {show(Zxid(zxid))}"
                raise Violation(LEFT, f"{what}, but every prepared transaction is applied")
        return result

    def _judge_outstanding(self) -> None:
        """Check that each outstanding node belongs to the newest transaction that waits with a change of its path."""
        newest = {path: zxid for zxid, path in self._outstanding.order}
        for path, (zxid, _) in self._records.items():
            if newest.get(path) != zxid:
                what = f"{path} has an outstanding change of {show(Zxid(zxid))}, which is not the newest that waits"
                raise Violation(LEFT, what)

    @property
    def sessions_digest(self) -> int:
        """Return the digest of the sessions. It is cached, because changes of sessions are rare."""
        if self._sessions_digest < 0:
            sessions = self.sessions
            self._sessions_digest = crc32(repr((sessions.secret, sorted(sessions.table.items()))).encode())
        return self._sessions_digest

    def state_replaced(self) -> None:
        super().state_replaced()
        self._sessions_digest = -1
        for kind in (
            transactions.CREATE_SESSION,
            transactions.ATTACH_SESSION,
            transactions.CLOSE_SESSION,
            transactions.SET_SECRET,
        ):
            self.wrap_handler(kind, self._with_new_digest)

    def _with_new_digest(self, handler: Handler) -> Handler:
        def handle(zxid: int, txn: bytes) -> Result:
            self._sessions_digest = -1
            return handler(zxid, txn)

        return handle


def _call(job: Callable[[], object]) -> None:
    job()


class Machine:
    """A store with the interface of the machine of a simulated server."""

    def __init__(self, reconfigure: Reconfigure = no_reconfiguration) -> None:
        self.store = SimulatedStore(reconfigure)
        self.count = 0

    @property
    def zxid(self) -> Zxid:
        return Zxid(self.store.zxid)

    @property
    def digest(self) -> int:
        """The digest of the tree and of the sessions."""
        return self.store.digest.value << 32 | self.store.sessions_digest

    def apply(self, batch: Batch) -> None:
        """Apply a batch of the committed history. Servers use the real `BatchApplier` instead."""
        payloads = batch.payloads()
        if batch.config:
            self.store.configure(batch.last, payloads[0], applied=True)
            return
        apply = self.store.apply
        for zxid, payload in enumerate(payloads, start=batch.first):
            apply(zxid, payload[TAG_BYTES:])

    def snapshot(self) -> list[bytes]:
        return list(self.store.snapshot())

    def restore(self, chunks: Iterable[bytes]) -> None:
        """Replace the state. Watches stay (see `Store.deliver_missed`)."""
        self.store.restore(chunks)
