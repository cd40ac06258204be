"""The messages between servers. `Message` is the union of all of them.

Three channels carry them. *Election* connects any two servers, and may lose or reorder messages. *To the
leader* and *to the learner* are the two directions of the one link that a learner has dialled to its leader. A link
delivers messages in order and without a gap. When it breaks, both ends get `LinkDown` and nothing more from it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias, get_args

from attrs import frozen

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.plurals import counted
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
    """The sender's vote: while LOOKING its current proposal, otherwise the vote for its leader.

    `pending` is an undecided membership change in the sender's log. A server that the change adds may not know of it.
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
    """The first message on a link, except for `ALIVE`: the newest promised epoch, and the active membership's version.

    An observer has no vote. After its synchronization it receives `Inform` in place of proposals.
    """

    accepted_epoch: Epoch
    ensemble_version: Zxid
    observer: bool = False


@frozen
class AckEpoch:
    """The leader's epoch is durably promised. The message reports the learner's history and asks for synchronization.

    current_epoch  the newest epoch whose initial history the learner has
    last           the end of the history; UNKNOWN if the history may be incomplete
    digest         the digest of the history up to its end; None if it is not known (`History`)
    counts         False if the promise must not be counted: the learner promised the same epoch before, perhaps to
                   another leader, or is `forgotten`
    forgotten      True if the learner may have lost promises: it must not be counted before it is readmitted
    """

    current_epoch: Epoch
    last: Zxid
    digest: int | None
    counts: bool = True
    forgotten: bool = False


@frozen
class AckNewLeader:
    """The learner's history as of `NewLeader` is durable, and so is the epoch."""

    epoch: Epoch


@frozen
class Ack:
    """This zxid is durable at the follower, with everything before it."""

    zxid: Zxid


@frozen
class Pong:
    """The learner has received `Ping(number)` and still follows."""

    number: int


ALIVE: Final = Pong(0)
"""A learner's report that its synchronization makes progress. No ping has this number, and every version accepts it.

If it comes before `FollowerInfo`, it reports that the learner holds part of a snapshot.
"""


@frozen
class BarrierRequest:
    """Asks for a proof of leadership, and for a zxid at or after every write acknowledged before the request."""

    number: int


@frozen
class Veto:
    """The learner does not follow: it keeps transactions that it knows to be committed, and that the leader lacks.

    leader, epoch   the addressee, and the epoch that it leads or wants to lead
    common          the two histories agree at most up to here
    committed       everything up to here is committed in the learner's history
    last            the end of the learner's history
    count           the number of the learner's transactions after `common`; too low if the outline of its
                    history begins later
    """

    leader: ServerId
    epoch: Epoch
    common: Zxid
    committed: Zxid
    last: Zxid
    count: int

    def text(self) -> str:
        """Return the reason for operators, as the vetoing server logs it."""
        return (
            f"the history of leader {self.leader} agrees with this server's at most up to {show(self.common)}, but "
            f"{show(self.committed)} was committed here; this server would lose "
            f"{counted(self.count, 'transaction')}, up to {show(self.last)}"
        )


@frozen
class SnapHeld:
    """Sent before `AckEpoch`: the learner's disk has the first `size` bytes of a snapshot file at `zxid`.

    `checksum` is the checksum of these bytes. The message is sent only to a leader that has sent `RESUMES`.
    """

    zxid: Zxid
    size: int
    checksum: bytes


# -- leader to learner -------------------------------------------------------------------------------


@frozen
class LeaderInfo:
    """Announces the leader's epoch and asks for a promise, once the leader's own promise is durable."""

    epoch: Epoch


@frozen
class Diff:
    """Both histories agree up to `common`. The missing transactions follow.

    `digest` is the digest of the leader's history up to `common`; None if the leader does not know it. Then a second
    `Diff`, with a later `common` and its digest, may come between the transactions.
    """

    common: Zxid
    digest: int | None = None


@frozen
class Trunc:
    """The learner must discard its history after `common`, because the leader lacks it. The leader's history follows.

    `digest` has the same meaning as in `Diff`.
    """

    common: Zxid
    digest: int | None = None


@frozen
class SnapBegin:
    """A snapshot of the leader's state at `zxid` follows in chunks, then the transactions after it.

    The snapshot replaces the learner's whole history. `digest` is the digest of the history up to `zxid`; None if the
    leader does not know it.
    """

    zxid: Zxid
    digest: int | None


@frozen
class SnapChunk:
    data: bytes


@frozen
class SnapResume:
    """The `size` bytes that the learner holds are the beginning of the leader's snapshot file of `total` bytes.

    The remaining chunks follow, then the transactions after the snapshot. `digest` has the same meaning as in
    `SnapBegin`.
    """

    zxid: Zxid
    digest: int | None
    size: int
    total: int


@frozen
class SnapEnd:
    pass


@frozen
class NewLeader:
    """The leader's history was sent; `ensemble` is the membership of the epoch.

    The learner makes the history durable, then the epoch, and then acknowledges.
    """

    epoch: Epoch
    ensemble: Ensemble


@frozen
class UpToDate:
    """A quorum has adopted the epoch. The learner serves once it has applied everything up to `committed`."""

    committed: Zxid


@frozen
class Propose:
    """A batch to log. A follower acknowledges the batch once it is durable there."""

    batch: Batch


@frozen
class Commit:
    """A quorum has the transaction at this zxid, and therefore everything before it, on disk."""

    zxid: Zxid


@frozen
class CommitAndActivate:
    """`Commit` of a membership change, with the server that should lead under it."""

    zxid: Zxid
    designated: ServerId


@frozen
class Inform:
    """A committed batch for an observer: a proposal and its commit in one."""

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
"""Sent before `LeaderInfo`, if the learner sent `ALIVE` before `FollowerInfo`: this leader understands `SnapHeld`.

It is a reply to a barrier number that no server uses, and every version ignores a reply that it did not ask for.
"""


# -- events of the links, from the driver -----------------------------------------------------------------


@frozen
class LinkUp:
    """A link is up. `dialled` is True if this server opened it, as `Ready.links` asked; False if a learner did."""

    dialled: bool


@frozen
class LinkDown:
    dialled: bool


@frozen
class Reachable:
    """The election channel to this peer has opened (again): earlier notifications may have been lost."""


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
