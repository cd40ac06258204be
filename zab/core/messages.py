"""What servers say to each other. The set is closed, so mypy knows when a match forgets one.

Three channels carry them. *Election*: any server to any voter, may be lost or reordered. *To the leader*
and *to the learner*: the two directions of the one link that a learner dialled to its leader; first in,
first out, and when the link breaks both ends hear `LinkDown` and nothing else from it, so that within a
link there is never a gap.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias, get_args

from attrs import frozen

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, show


class State(IntEnum):
    """The role of a server."""

    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


# -- election ----------------------------------------------------------------------------------------


@frozen
class Notification:
    """My vote: whom I want to lead (or, when I am not LOOKING, whom I follow), and how far that log reaches.

    `pending` is a change of membership that stands in my log, undecided. Whom it adds may not have heard of it.
    """

    state: State
    leader: ServerId
    zxid: Zxid
    epoch: Epoch
    round: int
    ensemble: Ensemble
    pending: Ensemble | None = None


# -- learner to leader -------------------------------------------------------------------------------


@frozen
class FollowerInfo:
    """First on a link: the newest epoch that I promised to anyone. An observer gets `Inform`, and never votes."""

    accepted_epoch: Epoch
    ensemble_version: Zxid
    observer: bool = False


@frozen
class AckEpoch:
    """I have durably promised your epoch; this is where my history stands. Sync me.

    `counts` is false when this promise was made before, perhaps to somebody else: sync me, but do not count
    me. `last` is unknown when my history may be incomplete; otherwise `digest` sums it up. `forgotten`: I may
    have promised things that I no longer know of; do not count me before I am readmitted.
    """

    current_epoch: Epoch
    last: Zxid
    digest: int
    counts: bool = True
    forgotten: bool = False


@frozen
class AckNewLeader:
    """Your initial history is my durable history, and so is your epoch."""

    epoch: Epoch


@frozen
class Ack:
    """Durable here: this zxid and, links being FIFO, everything before it."""

    zxid: Zxid


@frozen
class Pong:
    """I heard `Ping(number)` and still follow you."""

    number: int


ALIVE: Final = Pong(0)
"""A learner's report that its synchronization makes progress. No ping has this number, and every version accepts it.

Ahead of `FollowerInfo` it says that the learner holds part of a snapshot.
"""


@frozen
class BarrierRequest:
    """Prove that you still lead, then tell me a zxid behind every write acknowledged before now."""

    number: int


@frozen
class Veto:
    """I do not follow: your history lacks transactions that I know to be committed, and I keep mine.

    leader, epoch   the addressee, and the epoch that it leads or wants to lead
    common          the two histories agree at most up to here
    committed       everything up to here was committed in my history
    last, count     my history ends at `last`; so many transactions of it lie behind `common`
    """

    leader: ServerId
    epoch: Epoch
    common: Zxid
    committed: Zxid
    last: Zxid
    count: int

    def text(self) -> str:
        """Return what a person has to know, as the server would say it that vetoes."""
        return (
            f"the history of leader {self.leader} agrees with this server's at most up to {show(self.common)}, but "
            f"{show(self.committed)} was committed here; its {self.count} transactions up to {show(self.last)} would go"
        )


@frozen
class SnapHeld:
    """Ahead of `AckEpoch`: my disk has the first `size` bytes of a snapshot file at `zxid`.

    `checksum` is that of these bytes. Only for a leader that said `RESUMES`.
    """

    zxid: Zxid
    size: int
    checksum: bytes


# -- leader to learner -------------------------------------------------------------------------------


@frozen
class LeaderInfo:
    """The epoch I propose to lead. Durable at the leader before it is sent."""

    epoch: Epoch


@frozen
class Diff:
    """Your history up to `common` is also mine; what you lack follows. `digest` is of `common` if I know it."""

    common: Zxid
    digest: int | None = None


@frozen
class Trunc:
    """Discard everything behind `common`: nobody else has it. What you lack follows."""

    common: Zxid
    digest: int | None = None


@frozen
class SnapBegin:
    """Forget your history. My whole state as of `zxid` follows in chunks, then what came after it."""

    zxid: Zxid
    digest: int


@frozen
class SnapChunk:
    data: bytes


@frozen
class SnapResume:
    """The `size` bytes that you hold of the snapshot at `zxid` are the beginning of my file, which has `total` bytes.

    The chunks behind them follow, then what came after the snapshot. `digest` is that of the history up to `zxid`.
    """

    zxid: Zxid
    digest: int
    size: int
    total: int


@frozen
class SnapEnd:
    pass


@frozen
class NewLeader:
    """You now have my initial history. Make it durable, then the epoch, then acknowledge. Never another order."""

    epoch: Epoch
    ensemble: Ensemble


@frozen
class UpToDate:
    """A quorum adopted this epoch. When you have applied up to `committed`, serve."""

    committed: Zxid


@frozen
class Propose:
    """Put this on disk, then `Ack` it. Never the other way round."""

    batch: Batch


@frozen
class Commit:
    """A quorum has this zxid, and therefore everything before it, on disk."""

    zxid: Zxid


@frozen
class CommitAndActivate:
    """`Commit` of a membership change, with the server that should lead under it."""

    zxid: Zxid
    designated: ServerId


@frozen
class Inform:
    """Observers hear only what is committed: a proposal and its commit in one."""

    batch: Batch


@frozen
class InformAndActivate:
    batch: Batch
    designated: ServerId


@frozen
class Ping:
    number: int
    committed: Zxid


@frozen
class BarrierReply:
    number: int
    zxid: Zxid


RESUMES: Final = BarrierReply(0, NOTHING)
"""Ahead of `LeaderInfo`: this leader understands `SnapHeld`. The answer to an `ALIVE` ahead of `FollowerInfo`.

No barrier has this number, and every version ignores a reply to a barrier that it did not ask for.
"""


# -- said by the driver, about the links ---------------------------------------------------------------


@frozen
class LinkUp:
    """`dialled`: the link that I asked for in `Ready.links`. Otherwise a learner has dialled me."""

    dialled: bool


@frozen
class LinkDown:
    dialled: bool


@frozen
class Reachable:
    """The election channel to this peer (re)opened: what I said before may have been lost."""


ToLeader: TypeAlias = FollowerInfo | AckEpoch | AckNewLeader | Ack | Pong | BarrierRequest | Veto | SnapHeld
ToLearner: TypeAlias = (
    LeaderInfo
    | Diff
    | Trunc
    | SnapBegin
    | SnapChunk
    | SnapResume
    | SnapEnd
    | NewLeader
    | UpToDate
    | Propose
    | Commit
    | CommitAndActivate
    | Inform
    | InformAndActivate
    | Ping
    | BarrierReply
)
Message: TypeAlias = Notification | ToLeader | ToLearner
LinkEvent: TypeAlias = LinkUp | LinkDown | Reachable

TO_LEADER: tuple[type[ToLeader], ...] = get_args(ToLeader)
TO_LEARNER: tuple[type[ToLearner], ...] = get_args(ToLearner)
ON_LINKS: frozenset[type[Message]] = frozenset((*TO_LEADER, *TO_LEARNER))
"""The messages on learner links, in both directions."""
