"""The interface through which the controller reads and writes its metadata (KafkaZkClient in Apache Kafka).

`wire.znode_store` implements it with znodes. Every write checks the controller epoch: it is applied only while this
broker is the controller, and raises `ControllerMoved` otherwise. Reads whose docstrings mention a watch set it, so that
every later change causes an event.
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
    """The write was applied. `version`: the new version of the node."""

    version: Version = Version(0)


@frozen
class Changed:
    """The write was not applied: the node has another version, or exists already."""


@frozen
class Missing:
    """The node does not exist."""


@frozen
class Damaged:
    """The node cannot be parsed. The controller does not overwrite it."""

    why: str
    written: int = 0
    """Identifies the write that damaged the node, by its zxid or by the node's version; 0 if unknown."""


@frozen
class ConfigChanges:
    entities: tuple[str, ...]
    """The changed entities without duplicates, such as `topics/t`."""
    seen: int
    """The sequence number of the newest notification read so far; -1 if there was none."""
    of: int = 0
    """The zxid that created `/config/changes`. If the node is re-created, the sequence numbers start from 0 again."""
    listed: int = 0
    """The number of notifications in the store, including those read earlier."""


@frozen
class ElectionRequest:
    """The content of `/admin/preferred_replica_election`."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool = False
    """True: elect leaders for partitions without a live one, from outside the ISR if no ISR member is live. False:
    elect the preferred leaders."""


WriteResult: TypeAlias = Written | Changed | Missing
Config: TypeAlias = Mapping[str, str]
Reassignments: TypeAlias = Mapping[TopicPartition, tuple[BrokerId, ...]]


class ControllerStore(Protocol):
    """Access to the controller's metadata. Methods with several keys return the results in the order of the keys."""

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

    def delete_partitions(self, topic: str, limit: int) -> StoreRequests[int]:
        """Delete the nodes of up to `limit` partitions. Return the number of partitions left."""

    def delete_topic(self, name: str) -> StoreRequests[bool]:
        """Delete the topic's remaining nodes, then its configuration, then the deletion request.

        Return False, and keep the request, if other clients keep re-creating nodes below the topic.
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
        """Read the notifications after number `seen`, and watch for more. With None, read only the newest number.

        The notifications are not removed, since the brokers read them, too. `of` identifies the parent node to which
        `seen` refers.
        """

    # -- requests of administrators and notifications of brokers -------------------------------------------

    def topic_deletions(self) -> StoreRequests[tuple[str, ...]]:
        """List the topics whose deletion is requested and watch the list."""

    def drop_topic_deletion(self, name: str) -> StoreRequests[None]:
        """Remove a deletion request without deleting the topic. If the topic does not exist, also remove its
        configuration."""

    def reassignments(self) -> StoreRequests[Reassignments | Damaged | Missing]:
        """Read the requested reassignments and watch the node."""

    def drop_reassignments(
        self, partitions: Sequence[TopicPartition], targets: Sequence[tuple[BrokerId, ...]] = ()
    ) -> StoreRequests[None]:
        """Remove requested reassignments. When none is left, remove the node.

        With `targets`, keep a partition whose requested target differs from the given one.
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
        """Write a newer controller epoch, which fences this controller."""


def remaining_reassignments(
    requested: Reassignments, done: Sequence[TopicPartition], targets: Sequence[tuple[BrokerId, ...]] = ()
) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Return the requested reassignments that `drop_reassignments` keeps."""
    dropped = dict(zip(done, targets, strict=True)) if targets else {}
    named = set(done)
    return {tp: to for tp, to in requested.items() if tp not in named or (targets and dropped[tp] != to)}
