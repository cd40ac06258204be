"""A disk with exact promises: a crash loses unsaved writes and keeps saved ones.

It models the promise, not files. Tests step it by hand.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

import msgpack
from attrs import define, field

from zab.core.batch import Batch, digest_of
from zab.core.ensemble import Ensemble
from zab.core.messages import SnapHeld
from zab.core.ready import (
    AbortSnapshot,
    Append,
    BeginSnapshot,
    FoundSnapshot,
    InstallSnapshot,
    KeepSnapshot,
    Recovered,
    ResumeSnapshot,
    SaveEpochs,
    SnapshotChunk,
    Truncate,
    Write,
)
from zab.core.zxid import NOTHING, Epoch, Ticket, Zxid, epoch_of

State = list[tuple[Zxid, bytes]]
"""What the machine of these stories is: everything that was ever applied to it."""


def freeze(state: State) -> bytes:
    return bytes(msgpack.packb(state))


def thaw(data: bytes) -> State:
    return [(Zxid(zxid), payload) for zxid, payload in msgpack.unpackb(data)]


def beginning(zxid: Zxid, data: bytes) -> SnapHeld:
    return SnapHeld(zxid, len(data), blake2b(data, digest_size=16).digest())


@define
class Disk:
    accepted: Epoch = Epoch(0)
    current: Epoch = Epoch(0)
    ensemble: Ensemble | None = None
    whole: bool = True
    forgotten: bool = False
    log_start: Zxid = NOTHING
    log_digest: int | None = 0
    """Of the history up to `log_start`."""
    batches: list[Batch] = field(factory=list)
    """Everything behind `log_start`."""
    snapshot: Zxid = NOTHING
    snapshot_digest: int | None = 0
    state: bytes = freeze([])
    pending: deque[Write] = field(factory=deque)
    held: SnapHeld | None = None
    """The beginning of a snapshot that is kept, in `_beginning`."""
    _beginning: bytes = b""
    _arriving: Zxid = NOTHING
    _incoming: bytes | None = None

    # -- writing -----------------------------------------------------------------------------------

    def save_one(self) -> tuple[Write, Ticket]:
        """The oldest write becomes durable."""
        write = self.pending.popleft()
        match write:
            case SaveEpochs():
                self.accepted, self.current, self.ensemble = write.accepted, write.current, write.ensemble
                self.whole, self.forgotten = write.whole, write.forgotten
            case Append(batch=batch):
                self.batches.append(batch)
            case Truncate(zxid=zxid):
                self._truncate(zxid)
            case BeginSnapshot(zxid=zxid):
                self._arriving, self._incoming, self.held = zxid, b"", None
            case KeepSnapshot():
                self._keep()
            case ResumeSnapshot(held=held):
                assert held == self.held, "the rest of what is not held"
                self._arriving, self._incoming, self.held = held.zxid, self._beginning, None
            case SnapshotChunk(data=data):
                assert self._incoming is not None, "a chunk without a beginning"
                self._incoming += data
            case AbortSnapshot():
                self._incoming = self.held = None
            case InstallSnapshot(zxid=zxid, digest=digest):
                assert self._incoming is not None, "the end of a snapshot without a beginning"
                self.state, self._incoming = self._incoming, None
                self.snapshot = self.log_start = zxid
                self.snapshot_digest = self.log_digest = digest
                self.batches = []
        return write, write.ticket

    def take_snapshot(self, zxid: Zxid, digest: int | None, state: State, purge: bool) -> None:
        """Take a snapshot of the applied state. The log before it may be purged."""
        self.snapshot, self.snapshot_digest, self.state = zxid, digest, freeze(state)
        if purge:
            self.log_start, self.log_digest = zxid, digest
            self.batches = self.read(zxid)

    def crash(self) -> None:
        self.pending.clear()
        self._keep()

    def _keep(self) -> None:
        if self._incoming is not None:
            self._beginning = self._incoming
            self.held = beginning(self._arriving, self._incoming) if self._incoming else None
            self._incoming = None

    def find(self, held: SnapHeld) -> FoundSnapshot | None:
        """Return the server's own snapshot if it begins with the held bytes."""
        same = beginning(self.snapshot, self.state[: held.size]) == held
        return FoundSnapshot(self.snapshot_digest, len(self.state)) if same else None

    # -- reading -----------------------------------------------------------------------------------

    def read(self, after: Zxid, until: Zxid | None = None) -> list[Batch]:
        found: list[Batch] = []
        for batch in self.batches:
            if batch.last <= after or (until is not None and batch.first > until):
                continue
            if batch.first <= after:
                batch = batch.after(after)
            found.append(batch if until is None else batch.until(until))
        return found

    def recovered(self) -> Recovered:
        ends: dict[Epoch, Zxid] = {}
        for batch in self.batches:
            if batch.first <= self.snapshot:
                ends[epoch_of(batch.first)] = min(batch.last, self.snapshot)
        return Recovered(
            accepted=self.accepted,
            current=self.current,
            ensemble=self.ensemble,
            snapshot=self.snapshot,
            digest=self.snapshot_digest,
            batches=tuple(self.read(self.snapshot)),
            log_start=self.log_start,
            epoch_ends=tuple(ends.values()),
            voting=self.whole,
            forgotten=self.forgotten,
            held=self.held,
        )

    def digest(self) -> int | None:
        """Return the digest of the whole log, if it is known."""
        digest = self.log_digest
        if digest is None:
            return None
        for batch in self.batches:
            digest = digest_of(batch.payloads(), digest)
        return digest

    def _truncate(self, zxid: Zxid) -> None:
        assert zxid >= self.snapshot, "cut below the snapshot: what is in a snapshot was committed"
        self.batches = [batch.until(zxid) for batch in self.batches if batch.first <= zxid]
