"""The role of a replica that follows a leader in one leader epoch."""

from __future__ import annotations

from enum import Enum, auto

from attrs import define

from kraft_controller.core.names import BrokerId, LeaderEpoch


class FetchStep(Enum):
    """The next request that a follower sends for its partition."""

    FETCH = auto()
    ASK_EPOCH = auto()
    """OffsetForLeaderEpoch: ask where the epoch of the last record ended. See `replica.core.partitions.divergence`."""
    ASK_LATEST = auto()
    """ListOffsets: the fetch offset is out of range, so ask where the leader's log ends."""
    ASK_EARLIEST = auto()
    """ListOffsets: the fetch offset is out of range, and the leader's log does not end earlier, so ask where it
    begins."""
    STOP = auto()
    """The leader knows a newer epoch. Wait for the controller's command."""


@define
class FollowerRole:
    """The state of a follower: its leader, and the next request."""

    leader: BrokerId
    epoch: LeaderEpoch
    step: FetchStep = FetchStep.FETCH
    resume_ms: int = 0
    """The follower requests nothing before this time."""
    leader_high_watermark: int = -1
    in_sync: bool = False
    """True if this replica was in the ISR when it began to follow. Then this broker's follower quota does not apply."""
