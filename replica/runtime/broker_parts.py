"""The composition of a broker: its parts and their dependencies."""

from __future__ import annotations

import os
from functools import partial

from attrs import evolve, frozen

from kraft_controller.core.names import BrokerId
from replica.core.fetching.fetch_session_cache import EPOCH_MAX, FetchSessionCache, FetchSessionLimits
from replica.core.metadata_cache import MetadataCache
from replica.runtime.broker_access import BrokerAccess
from replica.runtime.cluster_membership import ClusterMembership, OpenSession
from replica.runtime.configuration.broker_config import BrokerConfig
from replica.runtime.configuration.config_layers import started_with
from replica.runtime.configuration.dynamic_config_manager import DynamicConfigManager, LimitConnections
from replica.runtime.configuration.topic_configs import TopicConfigs
from replica.runtime.control_plane import ControlPlane
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from replica.runtime.coordination.internal_topics import InternalTopics
from replica.runtime.coordination.transaction_coordinator_runtime import TransactionCoordinatorRuntime
from replica.runtime.coordination.transaction_marker_sender import TransactionMarkerSender
from replica.runtime.environment import Environment
from replica.runtime.logs import Log
from replica.runtime.network.descriptor_share import DescriptorShare
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.runtime.replication.alter_partition_sender import AlterPartitionPace
from replica.runtime.replication.fetcher_tasks import FetcherSettings
from replica.runtime.replication.log_manager_runtime import LogManagerRuntime
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime
from replica.runtime.store.auto_topic_creation_manager import AutoTopicCreationManager
from replica.runtime.store.producer_id_manager import ProducerIdManager
from replica.runtime.store.topic_manager import Defaults, TopicManager
from zab.host.clocks import wall_ms
from zab.host.watchdog import Watchdogs


@frozen
class BrokerParts:
    """The long-lived parts of one broker, each with its own state."""

    membership: ClusterMembership
    access: BrokerAccess
    metadata_cache: MetadataCache
    topics: TopicManager
    internal_topics: InternalTopics
    auto_creation: AutoTopicCreationManager
    topic_configs: TopicConfigs
    dynamic_configs: DynamicConfigManager
    log_manager: LogManagerRuntime
    replica_manager: ReplicaManagerRuntime
    group_coordinator: GroupCoordinatorRuntime
    transaction_coordinator: TransactionCoordinatorRuntime
    control_plane: ControlPlane
    producer_ids: ProducerIdManager
    fetch_sessions: FetchSessionCache


def build_parts(
    config: BrokerConfig,
    open_session: OpenSession,
    share: DescriptorShare,
    log: Log,
    watchdogs: Watchdogs,
    limit_connections: LimitConnections,
    environment: Environment,
) -> BrokerParts:
    """Build the parts in the order of their dependencies, and lock the log directories."""
    me = config.id
    cache = MetadataCache()
    membership = ClusterMembership(config, open_session, cache, log, environment.connect)
    topics = TopicManager(
        membership.session,
        cache,
        Defaults(config.partitions, config.replication_factor),
        os.urandom,
        deletion=config.deletion,
    )
    internal_topics = InternalTopics(topics, config.offsets, config.transactions_topic)
    producer_ids = ProducerIdManager(me, membership.session, log)
    topic_configs = TopicConfigs(config.log, log)
    limits = evolve(config.logs, open_files_max=share.logs)
    log_manager = LogManagerRuntime(
        config.log_dirs,
        topic_configs,
        log,
        wall_ms,
        config.disk,
        limits,
        cleans=config.cleans,
        environment=environment,
    )
    address = partial(inter_broker_address, cache, config.inter_broker_listener)
    between = InterBrokerClients(config.peers, environment.connect)
    replica_manager = ReplicaManagerRuntime(
        me,
        log_manager,
        log,
        lambda: membership.epoch,
        membership.session,
        address,
        config.replication,
        AlterPartitionPace(),
        FetcherSettings(answer_s=config.fetch_answer_ms / 1000),
        between,
        config.examining,
        checkpoint_s=config.watermark_checkpoint_s,
        watchdogs=watchdogs,
        in_thread=environment.in_thread,
    )
    group_coordinator = GroupCoordinatorRuntime(
        replica_manager,
        internal_topics.offsets.count,
        log,
        config.groups,
        config.commit_timeout_ms,
        membership.still_registered,
        watchdogs,
    )
    replica_manager.add_role_listener(group_coordinator.role_taken)
    markers = TransactionMarkerSender(me, cache, topics.has, address, log, between)
    transaction_coordinator = TransactionCoordinatorRuntime(
        replica_manager,
        internal_topics.transactions.count,
        markers,
        producer_ids,
        log,
        config.transactions,
        membership.still_registered,
        watchdogs,
    )
    replica_manager.add_role_listener(transaction_coordinator.role_taken)
    limits_of_file = {
        "max.connections": config.port.connections_max,
        "max.connections.per.ip": config.port.connections_per_host_max,
        "log.cleaner.enable": config.cleans,
        "log.cleaner.backoff.ms": round(config.disk.clean_pause_s * 1000),
    }
    file = started_with(config.log, config.log_keys_in_file, limits_of_file, config.settings)
    dynamic_configs = DynamicConfigManager(
        me, topic_configs, replica_manager, log_manager, file, log, limit_connections
    )
    control_plane = ControlPlane(
        replica_manager,
        cache,
        topics,
        dynamic_configs,
        internal_topics,
        group_coordinator,
        transaction_coordinator,
        watchdogs.add("controller's commands"),
    )
    return BrokerParts(
        membership=membership,
        access=BrokerAccess(log, membership.session, config.acls, config.failed_logins),
        metadata_cache=cache,
        topics=topics,
        internal_topics=internal_topics,
        auto_creation=AutoTopicCreationManager(internal_topics.create, log),
        topic_configs=topic_configs,
        dynamic_configs=dynamic_configs,
        log_manager=log_manager,
        replica_manager=replica_manager,
        group_coordinator=group_coordinator,
        transaction_coordinator=transaction_coordinator,
        control_plane=control_plane,
        producer_ids=producer_ids,
        fetch_sessions=FetchSessionCache(_draw_session_id, FetchSessionLimits(config.fetch_sessions)),
    )


def inter_broker_address(cache: MetadataCache, listener: str, broker: BrokerId) -> tuple[str, int] | None:
    """Return the address at which other brokers reach a broker; None if it is unknown."""
    endpoint = cache.endpoint(broker, listener)
    return None if endpoint is None else (endpoint.host, endpoint.port)


def _draw_session_id() -> int:
    return int.from_bytes(os.urandom(4), "big") % EPOCH_MAX + 1
