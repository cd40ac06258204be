"""The limits of the recipes. The names of times end with their unit."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.core.errors import ConfigError
from zab.store.acl import OPEN, Acl


@frozen
class RecipeSettings:
    """Limits of the recipes. A time or a number that is out of range raises `ConfigError`.

    leave_ms      the most time to remove the node at the end of a block, also after a cancellation; None: the session's
                  timeout. A node that could not be removed in this time is removed by a background task, or goes
                  with the session. `Queue` may take this time to delete an entry
    suspended_ms  time that a block continues after the connection was lost, or moved to a read-only server, before
                  the block is cancelled with `Lost`; 0: none. The block is cancelled at the latest when the session's
                  timeout has passed since `Session.last_received_at`; None: only then
    attempts_max  attempts of a compare-and-set before `Contended` is raised
    loads_max     concurrent reads of one cache
    acl           the ACL of every node that a recipe creates
    """

    leave_ms: int | None = None
    suspended_ms: int | None = None
    attempts_max: int = 100
    loads_max: int = 32
    acl: Acl = OPEN

    def __attrs_post_init__(self) -> None:
        if self.leave_ms is not None and self.leave_ms <= 0:
            raise ConfigError(f"leave_ms must be positive or None, not {self.leave_ms}")
        if self.suspended_ms is not None and self.suspended_ms < 0:
            raise ConfigError(f"suspended_ms must be 0, positive or None, not {self.suspended_ms}")
        for name in ("attempts_max", "loads_max"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")


DEFAULT_RECIPES: Final = RecipeSettings()
