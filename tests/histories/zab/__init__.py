"""Examples for every invariant of ZAB: legal runs, and runs that violate it."""

from __future__ import annotations

from tests.histories.zab import (
    delivery,
    durability,
    histories,
    leadership,
    primary_order,
    recovery,
    service,
    specification,
)
from tests.histories.zab.scenario import EXAMPLES, Example, Scenario, result_of, violation_of

MODULES = (leadership, histories, durability, delivery, primary_order, recovery, service, specification)

__all__ = ["MODULES", "EXAMPLES", "Scenario", "Example", "violation_of", "result_of"]
