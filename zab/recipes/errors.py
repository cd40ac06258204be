"""What can become of a recipe, beside what the store may answer."""

from __future__ import annotations

from zab.core.errors import ZabError, present_as
from zab.runtime.errors import OutcomeUnknown


class Lost(ZabError):
    """What the block stood for, a lock, a leadership, a membership, is gone or may be. The block was cancelled.

    Somebody else may have it already. Whatever was done for it is safe only if whoever it was done to compares tokens.
    """


class Taken(ZabError):
    """It is not free now, and the caller did not want to wait."""


class Contended(ZabError):
    """Others were faster, as often as the settings allow to try. Wait a moment, or raise `attempts_max`."""


class EntryInDoubt(OutcomeUnknown):
    """This entry of a queue is gone, and nobody can tell whether this consumer took it or another one did.

    `data` is what was in it. To handle it may be to handle it twice; not to handle it may be to lose it.
    """

    def __init__(self, path: str, data: bytes | None) -> None:
        super().__init__(f"{path}: taken by this consumer or by another")
        self.path = path
        self.data = data


present_as("zab.recipes", globals())
