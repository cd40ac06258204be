"""A snapshot that arrives from the leader, or the part of it that the disk keeps for a later attempt."""

from __future__ import annotations

from zab.core.messages import SnapHeld
from zab.core.outbox import Outbox
from zab.core.ready import AbortSnapshot, BeginSnapshot, InstallSnapshot, KeepSnapshot, ResumeSnapshot, SnapshotChunk
from zab.core.zxid import Ticket, Zxid


class PartialSnapshot:
    """Writes the leader's snapshot to the disk. The snapshot is arriving, partly held, or absent."""

    def __init__(self, out: Outbox, held: SnapHeld | None) -> None:
        """`held` is the part of a snapshot that the disk had at the start."""
        self.held = held
        """The part of a snapshot that the disk last reported (`Node.holds`), or None."""
        self.is_held = held is not None
        """True if, after all writes so far, the disk keeps part of a snapshot that no longer arrives."""
        self._arrives = False
        """True while a snapshot arrives."""
        self._out = out

    def begin(self, zxid: Zxid) -> None:
        self._arrives, self.is_held = True, False
        self._out.save.append(BeginSnapshot(self._out.next_ticket(), zxid))

    def resume(self, held: SnapHeld) -> None:
        """Continue the snapshot of which the disk holds a part."""
        self._arrives, self.is_held = True, False
        self._out.save.append(ResumeSnapshot(self._out.next_ticket(), held))

    def append(self, data: bytes) -> None:
        self._out.save.append(SnapshotChunk(self._out.next_ticket(), data))

    def keep(self) -> None:
        """Keep the part that has arrived, without installing it, for a leader that can send the rest."""
        if self._arrives:
            self._arrives, self.is_held = False, True
            self._out.save.append(KeepSnapshot(self._out.next_ticket()))

    def discard(self) -> None:
        """Delete the snapshot that has arrived, which will not be installed."""
        self._arrives = False
        self._out.save.append(AbortSnapshot(self._out.next_ticket()))

    def drop(self) -> None:
        """Delete the part on the disk: the history does not need it any more."""
        if self.is_held:
            self.is_held = False
            self._out.save.append(AbortSnapshot(self._out.next_ticket()))

    def install(self, zxid: Zxid, digest: int | None) -> Ticket:
        """Replace the history on the disk by the snapshot, which has arrived as a whole."""
        self._arrives = False
        ticket = self._out.next_ticket()
        self._out.save.append(InstallSnapshot(ticket, zxid, digest))
        return ticket
