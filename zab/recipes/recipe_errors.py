"""Errors of recipes, in addition to the errors of the store."""

from __future__ import annotations

from zab.core.errors import OutcomeUnknown, ZabError, present_as


class Lost(ZabError):
    """The lock, lease, membership or queue entry of the block is lost, or may be lost.

    A block that was still running was cancelled. The error may also be raised before a block begins, and after its end.
    Another client may already have it. Work done under a lock is safe only if its target compares fencing tokens.
    """


class Taken(ZabError):
    """The lock, lease or entry is not free, and the caller did not want to wait."""


class Contended(ZabError):
    """Another client was faster at every attempt. Try again later, or increase `RecipeSettings.attempts_max`."""


class EntryInDoubt(OutcomeUnknown):
    """It is unknown whether this consumer took an entry of a `Queue`.

    This consumer or another one may have taken the entry, or the entry may still be in the queue. `data` is the entry's
    content. If this consumer handles the entry, it may be handled twice; if not, it may be lost.
    """

    def __init__(self, path: str, data: bytes | None) -> None:
        super().__init__(f"{path}: it is unknown whether this consumer has taken the entry")
        self.path = path
        self.data = data


present_as("zab.recipes", globals())
