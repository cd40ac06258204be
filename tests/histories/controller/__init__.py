"""For every promise of a controller, stories in which it is kept and in which it is broken, case in a few words."""

from __future__ import annotations

from tests.histories.controller import commands, elections, partitions
from tests.histories.controller.scenario import EXAMPLES, Example, result_of

MODULES = (commands, partitions, elections)

__all__ = ["MODULES", "EXAMPLES", "Example", "result_of"]
