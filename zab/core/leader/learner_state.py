"""A leader's view of one server at the other end of a link."""

from __future__ import annotations

from attrs import define

from zab.core.messages import AckEpoch, FollowerInfo, SnapHeld
from zab.core.ready import FindSnapshot, FoundSnapshot
from zab.core.zxid import NOTHING, Millis, ServerId, Zxid


@define
class LearnerState:
    sid: ServerId
    silent_until: Millis
    info: FollowerInfo | None = None
    observer: bool = False
    """Taken from `info`."""
    told_epoch: bool = False
    ack_epoch: AckEpoch | None = None
    forwarding: bool = False
    """Its synchronization is under way, and every new proposal goes to it behind that."""
    synced: bool = False
    """True once it has acknowledged NEWLEADER: from here on its acknowledgements count."""
    synced_until: Zxid = NOTHING
    acked: Zxid = NOTHING
    forgotten: bool = False
    """True if it may have lost promises: it is synchronized, but not counted before it is readmitted."""
    pong: int = 0
    behind: tuple[Zxid, Millis] | None = None
    """The proposal whose acknowledgement is outstanding, and the time of the last progress towards it."""
    sync_began: Millis = 0
    asks: bool = False
    """It holds part of a snapshot, and wants to know if the rest can be sent."""
    held: SnapHeld | None = None
    """That part."""
    question: FindSnapshot | None = None
    """Waits for an answer from the disk, and its synchronization with it."""
    found: FoundSnapshot | None = None
    """The snapshot file here that begins with `held`."""
    moved: int = 0
    """Bytes of its synchronization that the link has taken so far, as the driver reported."""

    @property
    def counts(self) -> bool:
        return self.synced and not self.forgotten
