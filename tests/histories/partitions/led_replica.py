"""A partition of which broker 1 leads the only replica, with the fields that the checkers read."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from harness.checkers.partitions.copies import Copy, Key, Record, Truth
from harness.checkers.partitions.replicas import Replicas
from kraft_controller.core.names import TopicPartition
from replica.wire.batch import parse_header, stamp


def stored(*batches: bytes) -> bytes:
    """Return the batches as a log stores them, with offsets from 0 on."""
    found, offset = bytearray(), 0
    for batch in batches:
        made = bytearray(batch)
        stamp(made, 0, offset, 0)
        found += made
        offset = parse_header(made).next_offset
    return bytes(found)


class LedReplica:
    """Broker 1 leads in epoch 3, with these records in its log, of which the first `committed` ones are committed."""

    def __init__(self, where: TopicPartition, records: Iterable[Record] = (), committed: int | None = None) -> None:
        log = list(records)
        self.where, self.key, self.counts = where, Key(where, b"1"), list[str]()
        self.broker: Any = SimpleNamespace(id=1, core=SimpleNamespace(partitions={where: None}))
        self.world: Any = SimpleNamespace(
            transacted=frozenset({where.topic}), counted=self.counts.append, brokers={1: self.broker}
        )
        self.replicas = Replicas(self.world)
        self.truth = self.adds(where)
        self.truth.committed = log[:committed]
        self.copy = Copy(self.key, log, leads=True, epoch=3)
        self.replicas.copies[1] = {where: self.copy}

    def adds(self, where: TopicPartition) -> Truth:
        """Add a partition to the store."""
        self.replicas._idents[where.topic] = self.key.ident
        truth = self.replicas.truth(where)
        truth.state = SimpleNamespace(leader=1, leader_epoch=3)  # type: ignore[assignment]
        return truth

    def loses_replica(self) -> None:
        """Let the broker's disk fail."""
        self.broker.core.partitions.clear()
