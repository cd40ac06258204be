"""A leadership: one stretch of serving with one leader over one link. Requests travel within one leadership.

When the leader, its epoch or the link changes, a new leadership begins. `pending_submissions` says why no request is
sent a second time before it is known what became of it in the leadership before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import frozen

from zab.core.zxid import Epoch, ServerId


class LearnerLink(Protocol):
    """A link between a leader and a learner. Frames arrive in order, or the link breaks."""

    @property
    def peer(self) -> ServerId: ...
    @property
    def dialled(self) -> bool:
        """True if this server is the learner on this link."""
        ...

    @property
    def over(self) -> bool: ...
    def send(self, frame: bytes) -> None: ...
    def cut(self, why: str) -> None: ...


class LearnerLinks(Protocol):
    """The current links of a server, by peer."""

    @property
    def dialled(self) -> Mapping[ServerId, LearnerLink]: ...
    @property
    def accepted(self) -> Mapping[ServerId, LearnerLink]: ...


@frozen
class Leadership:
    """The epoch of a leader, and the link to it. `link` is None if this server leads."""

    epoch: Epoch
    link: LearnerLink | None
