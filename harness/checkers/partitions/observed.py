"""The parts of a simulated world that the checkers of replication read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from attrs import frozen

from harness.history import Change
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.core.metadata_cache import MetadataCache
from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.partition import Partition
from replica.core.replica_manager import ReplicaManager
from replica.core.replica_settings import ReplicaSettings
from replica.storage.log_manager import LogManager
from replica.storage.unified_log import UnifiedLog
from zab.storage.memory_disk import MemoryDisk


@frozen
class Replicated:
    """The configuration of all brokers."""

    settings: ReplicaSettings
    log: LogConfig
    durable: bool
    """True if the records of an ISR member are on its disk before they count as committed."""
    anywhere: bool
    """True if consumers also read from followers."""
    timeout_ms: int = 300
    """The timeout of requests that wait for the other replicas."""


class Disk(Protocol):
    @property
    def files(self) -> MemoryDisk: ...
    @property
    def logs(self) -> LogManager: ...
    def held(self) -> Mapping[TopicPartition, tuple[UnifiedLog, bytes | None]]: ...


class Groups(Protocol):
    @property
    def coordinator(self) -> GroupCoordinator: ...
    @property
    def retention_ms(self) -> int: ...


class Broker(Protocol):
    @property
    def id(self) -> BrokerId: ...
    @property
    def epoch(self) -> BrokerEpoch: ...
    @property
    def core(self) -> ReplicaManager: ...
    @property
    def disk(self) -> Disk: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def metadata(self) -> MetadataCache: ...
    @property
    def produced(self) -> Mapping[int, int]:
        """The number of records of each produce request without a reply, by its token."""

    def clock(self) -> int: ...
    def ident(self, partition: Partition, /) -> bytes: ...


class Workload(Protocol):
    @property
    def producers(self) -> Mapping[Any, Any]: ...
    @property
    def committers(self) -> Mapping[Any, Any]: ...
    @property
    def consumers(self) -> Mapping[Any, Any]: ...
    @property
    def transactors(self) -> Mapping[Any, Any]: ...


class World(Protocol):
    @property
    def replication(self) -> Replicated: ...
    @property
    def transacted(self) -> frozenset[str]: ...
    @property
    def brokers(self) -> Mapping[int, Broker]: ...
    @property
    def workload(self) -> Workload: ...
    @property
    def changes_upto(self) -> int: ...
    def changes_since(self, place: int, /) -> Iterator[Change]: ...
    def counted(self, what: str, /) -> None: ...
