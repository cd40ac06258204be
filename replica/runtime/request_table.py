"""The handler for each request type, wrapped in quotas, authorization and fetch sessions."""

from __future__ import annotations

from functools import partial

from replica.runtime.authorization.guard_table import guard_handlers
from replica.runtime.broker_parts import BrokerParts
from replica.runtime.configuration.broker_config import BrokerConfig
from replica.runtime.handlers import acl_requests as acl_handlers
from replica.runtime.handlers import config_requests as config_handlers
from replica.runtime.handlers import coordinator_requests as coordinator_handlers
from replica.runtime.handlers import fetch_requests as fetch_handlers
from replica.runtime.handlers import group_requests as group_handlers
from replica.runtime.handlers import log_dir_requests as log_dir_handlers
from replica.runtime.handlers import marker_requests as marker_handlers
from replica.runtime.handlers import metadata_requests as metadata_handlers
from replica.runtime.handlers import offset_requests as offset_handlers
from replica.runtime.handlers import produce_requests as produce_handlers
from replica.runtime.handlers import producer_id_requests as producer_handlers
from replica.runtime.handlers import quota_requests as quota_handlers
from replica.runtime.handlers import reassignment_requests as move_handlers
from replica.runtime.handlers import scram_requests as user_handlers
from replica.runtime.handlers import topic_requests as topic_handlers
from replica.runtime.handlers import transaction_requests as transaction_handlers
from replica.runtime.handlers.client_throttling import metered
from replica.runtime.handlers.consumer_fetch_sessions import in_sessions
from replica.runtime.logs import Log
from replica.runtime.requests import ApiKey, Handlers, handler_table, handles, joined
from replica.runtime.store.internal_topic_size import InternalTopicSize
from replica.wire.schemas.data_schemas import FETCH
from zab.host.clocks import wall_ms


def request_handlers(config: BrokerConfig, parts: BrokerParts, cluster: str, log: Log) -> Handlers:
    """Return the handlers by API key (Kafka: KafkaApis)."""
    cache, replica_manager, membership = parts.metadata_cache, parts.replica_manager, parts.membership
    inter_broker = config.inter_broker_listener
    group_topic = _coordinator_topic(parts, parts.internal_topics.offsets, log)
    transaction_topic = _coordinator_topic(parts, parts.internal_topics.transactions, log)

    def may_be_shortened(topic: str) -> bool:
        """Return whether DeleteRecords may delete records of the topic.

        Return True for an unknown topic: it gets another error later, and reading its configuration would begin to
        watch it.
        """
        return topic not in cache.topics or parts.topic_configs[topic].delete

    handlers: Handlers = joined(
        metadata_handlers.handlers(
            cache,
            metadata_handlers.MetadataSettings(cluster, config.auto_create),
            membership.acting_controller,
            parts.auto_creation.create,
        ),
        topic_handlers.handlers(parts.topics, cache, lambda: parts.dynamic_configs.layers),
        config_handlers.handlers(config.id, cache, membership.session, parts.dynamic_configs.file),
        quota_handlers.handlers(membership.session),
        move_handlers.handlers(lambda: membership.controller),
        producer_handlers.handlers(parts.producer_ids, parts.transaction_coordinator),
        user_handlers.handlers(parts.access.users),
        acl_handlers.handlers(parts.access.authorizer),
        log_dir_handlers.handlers(parts.log_manager, replica_manager.core.high_watermarks),
        produce_handlers.handlers(replica_manager),
        fetch_handlers.handlers(replica_manager, inter_broker),
        marker_handlers.handlers(replica_manager, wall_ms, parts.group_coordinator.complete_transaction),
        offset_handlers.handlers(replica_manager, inter_broker, may_be_shortened),
        group_handlers.handlers(parts.group_coordinator, cache.__contains__),
        transaction_handlers.handlers(parts.transaction_coordinator, cache.__contains__, group_topic.count),
        coordinator_handlers.handlers(
            cache,
            {coordinator_handlers.GROUP: group_topic, coordinator_handlers.TRANSACTION: transaction_topic},
        ),
    )
    handlers = metered(handlers, parts.dynamic_configs.quotas, replica_manager.now, inter_broker)
    if parts.access.authorizer is not None:
        handlers = guard_handlers(handlers, parts.access.authorizer, cache, auto_create=config.auto_create)
    fetch = in_sessions(handlers[ApiKey.FETCH], parts.fetch_sessions, replica_manager.now, inter_broker)
    return {**handlers, **handler_table(handles(FETCH, fetch))}


def _coordinator_topic(
    parts: BrokerParts, topic: InternalTopicSize, log: Log
) -> coordinator_handlers.CoordinatorTopicLookup:
    create = partial(parts.internal_topics.create, topic.name)
    return coordinator_handlers.CoordinatorTopicLookup(topic.name, topic.count, create, log)
