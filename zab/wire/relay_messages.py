"""Messages between servers outside of the consensus, mostly about requests. The core never receives them.

They are sent over the learner link. If the link breaks, the messages on their way are lost, and the server where a
request was made decides whether to submit it again.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from zab.core.frozen import frozen
from zab.core.zxid import Epoch, ServerId, Zxid

ORIGIN_BYTES: Final = 8
COUNTER_BYTES: Final = 8
TAG_BYTES: Final = ORIGIN_BYTES + COUNTER_BYTES
"""The size of the tag before each transaction in the log. Only membership changes have no tag.

The tag holds the origin, which names one run of the submitting member, and the submission's number there.
"""
TAG: Final = Struct(f">{ORIGIN_BYTES}sQ")


@frozen
class Forward:
    """Requests for the leader of `epoch`, submitted at `origin` with the numbers `first`, `first + 1`, ...

    A leader of another epoch drops them, because their origin may have submitted them again meanwhile.
    """

    epoch: Epoch
    origin: bytes
    first: int
    requests: tuple[bytes, ...]


@frozen
class CatchUpRequest:
    """Ask the leader for a `CatchUpPoint`. A member asks on each new link before it submits any request there."""

    number: int


@frozen
class ReconfigureRequest:
    """Change the membership: add and remove servers, or replace all `members`.

    If `expect` is given, the leader refuses the change unless the membership has this version.
    """

    number: int
    joining: tuple[str, ...] = ()
    leaving: tuple[ServerId, ...] = ()
    members: str | None = None
    expect: Zxid | None = None


@frozen
class LeaderMessage:
    """A message for the leader's application, outside of the history: no reply, no order, and it may get lost."""

    body: bytes


@frozen
class MemberMessage:
    """A message from the leader's application to a member's, outside of the history: no reply, and it may get lost."""

    body: bytes


@frozen
class Refusals:
    """Requests of the receiver that the leader refused.

    The receiver reports the refusals once it has applied `after`: then its state includes all that the leader checked.
    """

    epoch: Epoch
    after: Zxid
    refused: tuple[tuple[int, str], ...]


@frozen
class CatchUpPoint:
    """Reply to `CatchUpRequest`.

    A request that the member sent over an earlier link is in the log at or before `zxid`, or lost for ever.
    """

    number: int
    zxid: Zxid


@frozen
class ReconfigureReply:
    """The leader has proposed the change at `zxid`, or refused it: then `zxid` is None.

    `error` is the name of the error's class, `reason` its text; both are empty if the change was proposed.
    """

    number: int
    zxid: Zxid | None
    error: str = ""
    reason: str = ""


@frozen
class SnapPiece:
    """A part of a snapshot chunk that is larger than a frame. The next `SnapChunk` ends the chunk."""

    data: bytes


RelayToLeader: TypeAlias = Forward | CatchUpRequest | ReconfigureRequest | LeaderMessage
RelayToLearner: TypeAlias = Refusals | CatchUpPoint | ReconfigureReply | SnapPiece | MemberMessage
Relay: TypeAlias = RelayToLeader | RelayToLearner
