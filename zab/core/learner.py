"""What a leader knows of one server at the other end of a link."""

from __future__ import annotations

from attrs import define

from zab.core.messages import AckEpoch, FollowerInfo
from zab.core.zxid import NOTHING, Millis, ServerId, Zxid


@define
class Learner:
    sid: ServerId
    silent_until: Millis
    info: FollowerInfo | None = None
    observer: bool = False
    """As its `info` says."""
    told_epoch: bool = False
    ack_epoch: AckEpoch | None = None
    forwarding: bool = False
    """Its synchronization is under way, and every new proposal goes to it behind that."""
    synced: bool = False
    """It has acknowledged NEWLEADER: from here on its acknowledgements count."""
    synced_until: Zxid = NOTHING
    acked: Zxid = NOTHING
    forgotten: bool = False
    """It may have made promises that it lost: synced, but not counted before it is readmitted."""
    pong: int = 0
    behind: tuple[Zxid, Millis] | None = None
    """The proposal whose acknowledgement is waited for, and the time of the last one that brought it nearer."""
    sync_began: Millis = 0
    moved: int = 0
    """Bytes of its synchronization that the link has taken so far, as the driver reported."""

    @property
    def counts(self) -> bool:
        return self.synced and not self.forgotten
