"""A leader's view of one learner: how far it has come, and what it has acknowledged."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from attrs import define

from zab.core.errors import RemoteProtocolError
from zab.core.messages import AckEpoch, FollowerInfo, SnapHeld
from zab.core.ready import FindSnapshot, FoundSnapshot
from zab.core.sync_progress import SyncProgress
from zab.core.zxid import NOTHING, Millis, ServerId, Zxid


class LearnerStep(IntEnum):
    """The steps of a learner from its first message to broadcast, in order.

    They are the same for a learner that joins during discovery and for one that joins an established leader.
    """

    CONNECTED = 0
    """The link is up, and no message but `ALIVE` has arrived."""
    INTRODUCED = 1
    """`FollowerInfo` has arrived."""
    ASKED = 2
    """`LeaderInfo` was sent: the learner is asked for its promise."""
    PROMISED = 3
    """`AckEpoch` has arrived; the learner waits for its synchronization."""
    SYNCHRONIZING = 4
    """History and NEWLEADER were sent. Later proposals and commits, or `Inform` for an observer, follow on the link."""
    SYNCED = 5
    """NEWLEADER is acknowledged. From here on the learner may acknowledge proposals."""


# Looking up a member of an enum is slow.
_SYNCED: Final = LearnerStep.SYNCED


@define
class LearnerState:
    sid: ServerId
    silent_until: Millis
    """The leader drops the learner at this time, unless a message or progress extends it."""
    step: LearnerStep = LearnerStep.CONNECTED
    """The last step that the learner has reached. It never goes back on one link."""
    info: FollowerInfo | None = None
    """The learner's `FollowerInfo`. Set from INTRODUCED on."""
    observer: bool = False
    """True if `info` says that the learner is an observer."""
    ack_epoch: AckEpoch | None = None
    """The learner's promise, with the end of its history. Set from PROMISED on."""
    forgotten: bool = False
    """True if the learner may have lost promises: it is synchronized, but not counted before it is readmitted."""
    resumes: bool = False
    """True if the learner holds part of a snapshot, and asked whether the leader can send the rest."""
    held: SnapHeld | None = None
    """The part of a snapshot that the learner holds; None without one, or if this server's disk has no such file."""
    question: FindSnapshot | None = None
    """The pending question to the disk, or None. The synchronization begins only after the answer."""
    found: FoundSnapshot | None = None
    """The snapshot file on this server's disk that begins with `held`; None if none was found yet."""
    sync_began: Millis = 0
    """The time at which NEWLEADER was queued after the history. Valid from SYNCHRONIZING on."""
    synced_until: Zxid = NOTHING
    """The end of the history that the synchronization brings. Valid from SYNCHRONIZING on."""
    moved: int = 0
    """The number of bytes of the synchronization that the link has sent so far, as the driver reported."""
    sync_progress: SyncProgress | None = None
    """Decides when a line about the progress of the synchronization is logged. Set from SYNCHRONIZING on."""
    acked: Zxid = NOTHING
    """The learner has everything up to this zxid on disk. Never goes back; at least `synced_until` once SYNCED."""
    behind: tuple[Zxid, Millis] | None = None
    """A zxid that the learner must acknowledge, and the time of the last progress towards it; None if none is due."""
    pong: int = 0
    """The highest number of a ping that the learner has answered."""

    @property
    def counts(self) -> bool:
        """True if the learner may count in quorums. The membership decides whether it has a vote."""
        return self.step is _SYNCED and not self.forgotten

    def require(self, step: LearnerStep, message: object) -> None:
        """Raise RemoteProtocolError unless the learner is at `step`, the only step at which it may send `message`."""
        if self.step is not step:
            raise RemoteProtocolError(
                f"{type(message).__name__} from a learner in step {self.step.name}; it belongs to step {step.name}"
            )
