"""The delayed operations of a broker after each of its steps: none waits whose condition holds."""

from __future__ import annotations

from typing import Final

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.observed import Broker
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.leader_role import LeaderRole
from replica.core.purgatory import Condition, DelayedFetch, DelayedProduce
from replica.core.replica_manager import ReplicaManager
from replica.core.replica_messages import CONSUMER, Fetch, FetchPartition

WAITS: Final = "a request whose condition holds is answered"


def check_waiting(broker: Broker) -> None:
    core = broker.core
    purgatory = core.purgatory
    for (where, condition), queue in purgatory._queues.items():
        partition = core.partitions.get(where)
        if partition is None or condition is Condition.DELETED:
            continue
        reached = partition.high_watermark if condition is Condition.COMMITTED else partition.durable
        for awaited, delayed in queue.waiting.values():
            if awaited <= reached and isinstance(delayed, DelayedProduce):
                text = f"a produce waits for {awaited} at broker {broker.id}, and {condition.name.lower()} is {reached}"
                raise Violation(WAITS, f"{where}: {text}")
    for waiting in purgatory._delayed.values():
        if isinstance(waiting, DelayedFetch):
            part = _readable(core, waiting)
            if part is not None:
                text = f"a fetch of {waiting.fetch.replica} waits at offset {part.offset} of broker {broker.id}"
                raise Violation(WAITS, f"{part.where}: {text}")


def _readable(core: ReplicaManager, delayed: DelayedFetch) -> FetchPartition | None:
    """Return a partition that has records for the fetch. Return None if there is none, or if one record is not
    enough."""
    asked = delayed.fetch
    if asked.bytes_min > 1:
        return None
    parts = asked.parts
    if delayed.session:
        session = core.fetches.sessions.of(asked.replica)
        parts = () if session is None or session.id != delayed.session else tuple(session.requests.values())
    return next((part for part in parts if _has_records(core, asked, part)), None)


def _has_records(core: ReplicaManager, asked: Fetch, part: FetchPartition) -> bool:
    partition = core.partitions.get(part.where)
    if partition is None or part.leader_epoch not in (-1, partition.leader_epoch):
        return False
    role = partition.role
    follows = isinstance(role, FollowerRole) and asked.any_replica and core.settings.follower_reads
    if not (follows or isinstance(role, LeaderRole)):
        return False
    if asked.replica != CONSUMER:
        bound = partition.log.end_offset
    else:
        bound = partition.stable_offset if asked.committed else partition.high_watermark
    return partition.log.start_offset <= part.offset < bound
