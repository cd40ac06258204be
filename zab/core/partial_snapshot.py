"""A snapshot of the leader as it arrives, and the part of one that the disk keeps for a later attempt."""

from __future__ import annotations

from zab.core.messages import SnapHeld
from zab.core.outbox import Outbox
from zab.core.ready import AbortSnapshot, BeginSnapshot, InstallSnapshot, KeepSnapshot, ResumeSnapshot, SnapshotChunk
from zab.core.zxid import Ticket, Zxid


class PartialSnapshot:
    """Writes what arrives. A snapshot either arrives, or a part of it is held, or there is none."""

    def __init__(self, out: Outbox, held: SnapHeld | None) -> None:
        """`held` is the part that was found on the disk at the start."""
        self.held = held
        """The part of a snapshot that the disk last reported. Up to date whenever a later write is reported."""
        self.is_held = held is not None
        """True if the disk holds part of a snapshot once it has done all writes so far."""
        self._arrives = False
        """True while a snapshot arrives."""
        self._out = out

    def begin(self, zxid: Zxid) -> None:
        self._arrives, self.is_held = True, False
        self._out.save.append(BeginSnapshot(self._out.next_ticket(), zxid))

    def resume(self, held: SnapHeld) -> None:
        """Continue with the part that is held."""
        self._arrives, self.is_held = True, False
        self._out.save.append(ResumeSnapshot(self._out.next_ticket(), held))

    def append(self, data: bytes) -> None:
        self._out.save.append(SnapshotChunk(self._out.next_ticket(), data))

    def keep(self) -> None:
        """Keep the part that has arrived, without effect, for a leader that can send the rest."""
        if self._arrives:
            self._arrives, self.is_held = False, True
            self._out.save.append(KeepSnapshot(self._out.next_ticket()))

    def drop(self) -> None:
        """Delete the part on the disk: the history does not need it any more."""
        if self.is_held:
            self.is_held = False
            self._out.save.append(AbortSnapshot(self._out.next_ticket()))

    def install(self, zxid: Zxid, digest: int) -> Ticket:
        """Replace the history on the disk by the snapshot, which has arrived as a whole."""
        self._arrives = False
        ticket = self._out.next_ticket()
        self._out.save.append(InstallSnapshot(ticket, zxid, digest))
        return ticket
