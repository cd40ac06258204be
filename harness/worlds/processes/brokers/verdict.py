"""What a run with real brokers adds up to."""

from __future__ import annotations

from harness.outcome import Outcome
from harness.worlds.brokers.verdict import with_records
from harness.worlds.processes.brokers.world import BrokersWorld
from harness.worlds.processes.verdict import NO_TRACEBACK, outcome_of


def outcome_of_brokers(world: BrokersWorld) -> Outcome:
    """All have ended."""
    for broker in world.brokers.values():
        for line in broker.tracebacks[:1]:
            world.broken(NO_TRACEBACK, f"broker {broker.sid}: {line}")
    return with_records(outcome_of(world, clients=False), world.records)
