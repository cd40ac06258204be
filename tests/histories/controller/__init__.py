"""For every promise of a controller, stories in which it is kept and in which it is broken, told in a few words."""

from __future__ import annotations

from tests.histories.controller import commands, partitions, rulers
from tests.histories.controller.story import STORIES, Told, said

MODULES = (commands, partitions, rulers)

__all__ = ["MODULES", "STORIES", "Told", "said"]
