"""The port through which the controller reads and writes its metadata (KafkaZkClient in Apache Kafka).

`wire.znode_store` implements it on znodes. Every write carries the controller epoch fence: it is applied only while
this broker is the controller, and raises `ControllerMoved` otherwise. Reads of lists and nodes that change leave a
watch, so every later change arrives as an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from attrs import frozen

from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition, Version
from kraft_controller.core.state import Broker, PartitionState, Topic
from kraft_controller.core.store_requests import StoreRequests

# -- results ---------------------------------------------------------------------------------------------


@frozen
class Written:
    """The write was applied; the node has this version now."""

    version: Version = Version(0)


@frozen
class Changed:
    """The write was not applied: the node has another version, or exists already."""


@frozen
class Missing:
    """The node does not exist."""


@frozen
class Damaged:
    """The node's data cannot be parsed. The controller leaves the node and everything it describes as they are."""

    why: str
    written: int = 0
    """The zxid of the write that damaged the node."""


@frozen
class ConfigChanges:
    entities: tuple[str, ...]
    """The changed entities, such as `topics/t`, each once."""
    seen: int
    """The sequence number of the newest notification."""
    of: int = 0
    """The zxid that created `/config/changes`. A re-created parent numbers its notifications from 0."""
    listed: int = 0
    """The number of all notifications; old ones stay for minutes."""


@frozen
class ElectionRequest:
    """The content of `/admin/preferred_replica_election`."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool = False
    """Elect any live replica if no leader is alive."""


WriteResult: TypeAlias = Written | Changed | Missing
Config: TypeAlias = Mapping[str, str]
Reassignments: TypeAlias = Mapping[TopicPartition, tuple[BrokerId, ...]]


class ControllerStore(Protocol):
    """Methods that take several keys return their results in the order of the keys."""

    # -- brokers -----------------------------------------------------------------------------------------

    def registered_brokers(self) -> StoreRequests[Mapping[BrokerId, BrokerEpoch]]:
        """List the registered brokers and watch the list."""

    def read_brokers(self, ids: Sequence[BrokerId]) -> StoreRequests[list[Broker | Damaged | Missing]]:
        """Read registrations and watch each of them."""

    # -- topics and partitions -----------------------------------------------------------------------------

    def topic_names(self) -> StoreRequests[tuple[str, ...]]:
        """List all topics and watch the list."""

    def read_topics(self, names: Sequence[str]) -> StoreRequests[list[Topic | Damaged | Missing]]:
        """Read topics and watch each of them."""

    def write_topic(self, topic: Topic) -> StoreRequests[WriteResult]:
        """Write a topic if its node still has `topic.version`."""

    def delete_topic(self, name: str) -> StoreRequests[bool]:
        """Delete the topic's nodes, then its configuration, then the deletion request.

        Return False, and keep the request, if other clients re-create nodes below the topic as fast as they go.
        """

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool = False
    ) -> StoreRequests[list[PartitionState | Damaged | Missing]]:
        """Read partition states; with `watch`, watch each of them."""

    def create_states(self, states: Mapping[TopicPartition, PartitionState]) -> StoreRequests[list[WriteResult]]:
        """Create the first state of each partition."""

    def write_states(self, states: Mapping[TopicPartition, PartitionState]) -> StoreRequests[list[WriteResult]]:
        """Write each state whose node still has `state.version`."""

    # -- configurations ------------------------------------------------------------------------------------

    def read_topic_configs(self, names: Sequence[str]) -> StoreRequests[list[Config | Damaged | Missing]]:
        """Read the dynamic configurations of topics."""

    def read_broker_configs(
        self, brokers: Sequence[BrokerId | None]
    ) -> StoreRequests[list[Config | Damaged | Missing]]:
        """Read the dynamic configurations of brokers; None stands for the cluster-wide default."""

    def config_changes(self, seen: int | None, of: int = 0) -> StoreRequests[ConfigChanges | Missing]:
        """Read the notifications after number `seen` and watch for more; None reads only the newest number.

        The notifications stay for the brokers. `of` identifies the parent node that `seen` was counted below.
        """

    # -- requests of administrators and notifications of brokers -------------------------------------------

    def topic_deletions(self) -> StoreRequests[tuple[str, ...]]:
        """List the topics whose deletion is requested and watch the list."""

    def drop_topic_deletion(self, name: str) -> StoreRequests[None]:
        """Remove a deletion request but not the topic. A configuration that outlived its topic goes as well."""

    def reassignments(self) -> StoreRequests[Reassignments | Damaged | Missing]:
        """Read the requested reassignments and watch the node."""

    def drop_reassignments(
        self, partitions: Sequence[TopicPartition], targets: Sequence[tuple[BrokerId, ...]] = ()
    ) -> StoreRequests[None]:
        """Remove requested reassignments; the node goes with the last of them.

        With `targets`, a partition whose requested target has changed since then stays.
        """

    def preferred_elections(self) -> StoreRequests[ElectionRequest | Damaged | Missing]:
        """Read the requested preferred leader elections and watch the node."""

    def drop_preferred_elections(self) -> StoreRequests[None]:
        """Remove the request for preferred leader elections."""

    def take_isr_changes(self) -> StoreRequests[tuple[TopicPartition, ...]]:
        """Read and remove the ISR change notifications, and watch for more."""

    def take_log_dir_events(self) -> StoreRequests[tuple[BrokerId, ...]]:
        """Read and remove the notifications of brokers with a failed log directory, and watch for more."""

    # -- the controller itself -----------------------------------------------------------------------------

    def raise_controller_epoch(self, to: ControllerEpoch) -> StoreRequests[WriteResult]:
        """Write a newer controller epoch. This controller is fenced by it."""


def remaining_reassignments(
    requested: Reassignments, done: Sequence[TopicPartition], targets: Sequence[tuple[BrokerId, ...]] = ()
) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Return what `drop_reassignments` leaves of the requested reassignments."""
    dropped = dict(zip(done, targets, strict=True)) if targets else {}
    named = set(done)
    return {tp: to for tp, to in requested.items() if tp not in named or (targets and dropped[tp] != to)}
