"""The bounds of the recipes. A name says the unit."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.core.errors import ConfigError
from zab.store.acl import OPEN, Acl


@frozen
class RecipeSettings:
    """
    leave_ms      how long whoever leaves, also by a cancellation, may take to remove its node; None: as long as its
                  session's timeout. After that it is removed in the background, or goes with the session
    suspended_ms  how long a block goes on after it was noticed that the connection is lost, before it is cancelled as
                  if the session were over; 0: not at all. At most until the session's timeout has passed since the
                  store's last word, and so long if it is None
    attempts_max  of a change that is made only if nobody else was faster, before `Contended` is raised
    loads_max     reads of a cache that are under way at the same time
    acl           of every node that a recipe makes
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
