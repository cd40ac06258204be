"""A leadership: the time in which a server serves with one leader in one epoch, over one link.

When the leader, its epoch or the link changes, a new leadership begins. A request sent in one leadership is sent again
in a later one only if it certainly was not carried out: see `pending_submissions`.
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
