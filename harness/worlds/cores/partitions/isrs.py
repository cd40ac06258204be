"""ISRs at the store, as work on its nodes. It stands for `replica.runtime.replication.isr_store`."""

from __future__ import annotations

from typing import Final

from kraft_controller.core.names import TopicPartition, Version
from kraft_controller.core.state import PartitionState
from kraft_controller.core.store_requests import (
    Check,
    Done,
    Exists,
    Failed,
    Get,
    Multi,
    Node,
    Set,
    StoreRequests,
    Sync,
    Why,
)
from kraft_controller.wire import znodes
from replica.core.replica_messages import WriteIsr
from replica.runtime.replication.isr_store import NOTICE, Outcome
from replica.runtime.replication.log_dir_failures import LOG_DIR_NOTICE

ANY: Final = Version(-1)


def write(asked: WriteIsr) -> StoreRequests[Version | Outcome]:
    lives = [(broker, life) for broker, life in zip(asked.joins, asked.lives, strict=False) if life != -1]
    if lives:
        yield [Sync(znodes.BROKERS)]
        found = yield [Exists(znodes.broker_path(broker)) for broker, _ in lives]
        for there, (_, life) in zip(found, lives, strict=True):
            if not isinstance(there, Node) or there.made != life:
                return Outcome.UNWANTED
    checks = tuple(Check(znodes.broker_path(broker), ANY) for broker in asked.joins)
    change = Set(znodes.state_path(asked.where), znodes.partition_state(asked.state), asked.state.version)
    [outcome] = yield [Multi((*checks, change))]
    if isinstance(outcome, Done):
        version = outcome.versions[-1]
        assert version is not None
        return version
    assert isinstance(outcome, Failed)
    if outcome.why is Why.NO_NODE:
        return Outcome.UNWANTED if outcome.part < len(checks) else Outcome.GONE
    return Outcome.LOST if outcome.why is Why.UNKNOWN else Outcome.REFUSED


def read(where: TopicPartition) -> StoreRequests[PartitionState | None]:
    path = znodes.state_path(where)
    yield [Sync(path)]
    [node] = yield [Get(path)]
    return znodes.read_partition_state(where, node.data, node.version) if isinstance(node, Node) else None


__all__ = ["LOG_DIR_NOTICE", "NOTICE", "Outcome", "read", "write"]
