"""The delayed operations of a broker: after each step, no operation waits whose condition already holds.

The check derives the awaited offset of each result from the request itself, not from the queues of the purgatory.
"""

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
    for delayed in broker.core.purgatory._delayed.values():
        if isinstance(delayed, DelayedProduce):
            _check_produce(broker, delayed)
        elif isinstance(delayed, DelayedFetch):
            part = _readable(broker.core, delayed)
            if part is not None:
                text = f"of replica {delayed.fetch.replica} waits for a record at offset {part.offset}, which exists"
                raise Violation(WAITS, f"{part.where}: a fetch at broker {broker.id} {text}")


def _check_produce(broker: Broker, delayed: DelayedProduce) -> None:
    """Check a request with one batch. It waits for the end of the batch."""
    for index, (where, condition) in delayed.awaited.items():
        partition = broker.core.partitions.get(where)
        if partition is not None:
            reached = partition.high_watermark if condition is Condition.COMMITTED else partition.durable
            awaited = delayed.results[index].base_offset + broker.produced[delayed.token]
            if awaited <= reached:
                text = f"waits for {awaited} {condition.name.lower()} records, and there are {reached}"
                raise Violation(WAITS, f"{where}: a produce at broker {broker.id} {text}")


def _readable(core: ReplicaManager, delayed: DelayedFetch) -> FetchPartition | None:
    """Return a partition that has records for the fetch. Return None if no partition has, or if the fetch waits for
    more than one byte."""
    fetch = delayed.fetch
    if fetch.bytes_min > 1:
        return None
    parts = fetch.parts
    if delayed.session:
        session = core.fetches.sessions.of(fetch.replica)
        parts = () if session is None or session.id != delayed.session else tuple(session.requests.values())
    return next((part for part in parts if _has_records(core, fetch, part)), None)


def _has_records(core: ReplicaManager, fetch: Fetch, part: FetchPartition) -> bool:
    partition = core.partitions.get(part.where)
    if partition is None or part.leader_epoch not in (-1, partition.leader_epoch):
        return False
    role = partition.role
    follows = isinstance(role, FollowerRole) and fetch.any_replica and core.settings.follower_reads
    if not (follows or isinstance(role, LeaderRole)):
        return False
    if fetch.replica != CONSUMER:
        bound = partition.log.end_offset
    else:
        bound = partition.stable_offset if fetch.committed else partition.high_watermark
    return partition.log.start_offset <= part.offset < bound
