"""Examples for every invariant of a controller: legal runs, and runs that violate it."""

from __future__ import annotations

from tests.histories.controller import commands, elections, partitions
from tests.histories.controller.scenario import EXAMPLES, Example, result_of

MODULES = (commands, partitions, elections)

__all__ = ["MODULES", "EXAMPLES", "Example", "result_of"]
