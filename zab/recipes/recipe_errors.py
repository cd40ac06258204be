"""Errors of recipes, in addition to the errors of the store."""

from __future__ import annotations

from zab.core.errors import OutcomeUnknown, ZabError, present_as


class Lost(ZabError):
    """The lock, leadership or membership of the block is lost, or may be lost.

    A block that was still running was cancelled. The error also comes before a block begins, and after one that ended.
    Another client may hold it already. Work done under it is safe only if its target compares fencing tokens.
    """


class Taken(ZabError):
    """The lock, lease or entry is not free, and the caller did not want to wait."""


class Contended(ZabError):
    """Every attempt lost against another client. Try again later, or raise `RecipeSettings.attempts_max`."""


class EntryInDoubt(OutcomeUnknown):
    """An entry of a queue is gone, and it is unknown whether this consumer or another one took it.

    `data` is its content. If this consumer handles the entry, it may be handled twice; if not, it may be lost.
    """

    def __init__(self, path: str, data: bytes | None) -> None:
        super().__init__(f"{path}: taken, and it is unknown whether by this consumer or by another")
        self.path = path
        self.data = data


present_as("zab.recipes", globals())
