"""Messages between servers beside the consensus, mostly about requests. The core never sees them.

They travel on the learner link and share its fate: when the link breaks, the messages under way are lost, and the
server where a request was made decides whether to submit it again.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from attrs import frozen

from zab.core.zxid import Epoch, ServerId, Zxid

ORIGIN_BYTES: Final = 8
COUNTER_BYTES: Final = 8
TAG_BYTES: Final = ORIGIN_BYTES + COUNTER_BYTES
"""The prefix of every transaction in the log: the submitting member, and the number of the submission there."""
TAG: Final = Struct(f">{ORIGIN_BYTES}sQ")


@frozen
class Forward:
    """Requests for the leader of `epoch`, submitted at `origin` as its numbers `first`, `first + 1`, ...

    A leader of another epoch drops them: what was meant for the one before must not come true in the next,
    because by then its origin may have asked again.
    """

    epoch: Epoch
    origin: bytes
    first: int
    requests: tuple[bytes, ...]


@frozen
class CatchUpRequest:
    """Which zxid have you reached? Sent first on a new link, before anything is asked for a second time."""

    number: int


@frozen
class ReconfigureRequest:
    """Change the membership: servers to add and to remove, or all `members`; not unless it is at version `expect`."""

    number: int
    joining: tuple[str, ...] = ()
    leaving: tuple[ServerId, ...] = ()
    members: str | None = None
    expect: Zxid | None = None


@frozen
class LeaderMessage:
    """For the leader's application, outside of the history: no answer, no order, and it may get lost on the way."""

    body: bytes


@frozen
class MemberMessage:
    """From the leader's application to yours, outside of the history: it may get lost on the way, too."""

    body: bytes


@frozen
class Refusals:
    """These requests of yours were refused, by a state that you share once you have applied `after`."""

    epoch: Epoch
    after: Zxid
    refused: tuple[tuple[int, str], ...]


@frozen
class CatchUpPoint:
    """Whatever you sent on an earlier link is in my log at or before `zxid`, or nowhere and never will be."""

    number: int
    zxid: Zxid


@frozen
class ReconfigureReply:
    """The change is in the log at `zxid`; or, without one, `error` names what forbade it and `reason` says it."""

    number: int
    zxid: Zxid | None
    error: str = ""
    reason: str = ""


@frozen
class SnapPiece:
    """A part of the snapshot chunk that ends with the next `SnapChunk`: it is larger than a frame."""

    data: bytes


RelayToLeader: TypeAlias = Forward | CatchUpRequest | ReconfigureRequest | LeaderMessage
RelayToLearner: TypeAlias = Refusals | CatchUpPoint | ReconfigureReply | SnapPiece | MemberMessage
Relay: TypeAlias = RelayToLeader | RelayToLearner
