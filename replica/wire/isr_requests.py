"""ISRs in the store, as procedures of store requests: a conditional write, and a read after an unknown outcome."""

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
    RepliesLost,
    Set,
    StoreRequests,
    Sync,
    Why,
)
from kraft_controller.wire import znodes
from replica.core.alter_partition_manager import IsrWriteError
from replica.core.replica_messages import WriteIsr

ANY_VERSION: Final = Version(-1)
"""The version in a check that only requires that the node exists."""
ISR_CHANGE_NOTICE: Final = f"{znodes.ISR_CHANGES}/isr_change_"
"""The path prefix of brokers' notifications of changed ISRs. The controller then reads those partition states again."""
LOG_DIR_NOTICE: Final = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"
"""The path prefix of a broker's notifications of failed log directories. The controller then sends that broker a
LeaderAndIsr, and the reply names the replicas that the broker cannot use."""


def write_isr(write: WriteIsr) -> StoreRequests[Version | IsrWriteError]:
    """Write an ISR. Return the node's new version, or the reason why the write is not known to be in force.

    The zxid that created a broker's node identifies its registration. A multi cannot check that zxid, so it is read
    first. If a broker dies and registers again between the read and the write, it joins the ISR, but only until the
    controller notices the death and writes the state again without that broker.
    """
    joins = zip(write.joins, write.broker_epochs, strict=False)
    registered = [(broker, epoch) for broker, epoch in joins if epoch != -1]
    if registered:
        [synced] = yield [Sync(znodes.BROKERS)]
        if not isinstance(synced, Done):
            return IsrWriteError.LOST
        found = yield [Exists(znodes.broker_path(broker)) for broker, _ in registered]
        for there, (_, epoch) in zip(found, registered, strict=True):
            if not isinstance(there, Node) or there.made != epoch:
                return IsrWriteError.UNWANTED
    checks = tuple(Check(znodes.broker_path(broker), ANY_VERSION) for broker in write.joins)
    change = Set(znodes.state_path(write.where), znodes.partition_state(write.state), write.state.version)
    [outcome] = yield [Multi((*checks, change))]
    if isinstance(outcome, Done):
        version = outcome.versions[-1]
        assert version is not None
        return version
    assert isinstance(outcome, Failed)
    if outcome.why is Why.NO_NODE:
        return IsrWriteError.UNWANTED if outcome.part < len(checks) else IsrWriteError.GONE
    return IsrWriteError.LOST if outcome.why is Why.UNKNOWN else IsrWriteError.REFUSED


def read_isr(where: TopicPartition) -> StoreRequests[PartitionState | None]:
    """Return the current state; None if the node does not exist. Raise `znodes.DamagedNode` if it cannot be parsed,
    and `RepliesLost` if a reply is lost."""
    path = znodes.state_path(where)
    [synced] = yield [Sync(path)]
    [node] = yield [Get(path)]
    if not isinstance(synced, Done) or (isinstance(node, Failed) and node.why is Why.UNKNOWN):
        raise RepliesLost(path)
    return znodes.read_partition_state(where, node.data, node.version) if isinstance(node, Node) else None
