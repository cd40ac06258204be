"""What a run with real brokers adds up to."""

from __future__ import annotations

from harness.faults import AllowUnclean, WipeBroker
from harness.history import History
from harness.outcome import Outcome
from harness.worlds.brokers.undone import Loss, undone
from harness.worlds.brokers.verdict import with_records
from harness.worlds.processes.brokers.broker import POSITIONS_PARTITIONS
from harness.worlds.processes.brokers.world import LOST, BrokersWorld
from harness.worlds.processes.verdict import NO_TRACEBACK, WITHOUT_BEGINNING, outcome_of
from kraft_controller.core.names import TopicPartition


def outcome_of_brokers(world: BrokersWorld) -> Outcome:
    """All have ended."""
    for broker in world.brokers.values():
        for line in broker.tracebacks[:1]:
            world.broken(NO_TRACEBACK, f"broker {broker.sid}: {line}")
    made = outcome_of(world, clients=False)
    assert made.history is not None
    whole = WITHOUT_BEGINNING not in dict(made.counts)
    return with_records(made, world.records, _gone(world, made.history, whole=whole))


def _gone(world: BrokersWorld, history: History, *, whole: bool) -> list[TopicPartition]:
    """By the marks that stand in the history. Most runs have none, and then there is nothing to look for."""
    if not whole and any(isinstance(op, AllowUnclean | WipeBroker) for op in world.script.ops):
        positions = [TopicPartition("__consumer_offsets", number) for number in range(POSITIONS_PARTITIONS)]
        return [*world.workload.partitions(), *positions]  # it could be any of them
    losses = [
        Loss(change.zxid, int(change.data or b"0"))
        for change in history.changes
        if change.kind == "create" and change.path.startswith(LOST)
    ]
    unclean = any(isinstance(op, AllowUnclean) for op in world.script.ops)
    return undone(history, losses) if losses or unclean else []
