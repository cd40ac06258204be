"""Applies dynamic configurations: of topics, of this broker, of all brokers, and client quotas.

Settings of this broker take precedence over those of all brokers, and both over the broker's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kraft_controller.core.configuration.config_keys import BROKER, DEFAULT, TOPIC, ConfigError, Value, key_of
from kraft_controller.core.configuration.throttles import Throttles
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.admin.entity_configs import Entity
from kraft_controller.runtime.config_feed import ConfigFeed
from replica.core.errors import KafkaError
from replica.core.network.client_quotas import ClientQuotaManager
from replica.core.partition_table import PartitionTable
from replica.core.partitions.log_config import NAMES, LogConfig
from replica.core.replica_messages import RoleTaken
from replica.runtime.configuration.config_layers import Layers, StartSettings
from replica.runtime.configuration.topic_configs import TopicConfigs
from replica.runtime.handlers import client_throttling
from replica.runtime.logs import Log
from replica.runtime.replication.log_manager_runtime import LogManagerRuntime
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime

TOPIC_KEY: Final[Mapping[str, str]] = {
    key.broker: name for name, key in TOPIC.items() if key.broker is not None and name in NAMES
}
"""The topic key for which each of these broker keys is the default."""

LimitConnections = Callable[[int | None, int | None], None]
"""Receives the values of `max.connections` and `max.connections.per.ip`; None leaves a limit unchanged."""


class DynamicConfigManager:
    """Follows the dynamic configuration across all store sessions of a broker, and applies each change."""

    def __init__(
        self,
        me: BrokerId,
        topics: TopicConfigs,
        replica_manager: ReplicaManagerRuntime,
        log_manager: LogManagerRuntime,
        file: StartSettings,
        log: Log,
        limit_connections: LimitConnections,
    ) -> None:
        self.file = file
        """The static settings of this broker."""
        self.quotas = ClientQuotaManager()
        self.feed = ConfigFeed(self._apply, kinds=("brokers", "topics", "clients", "users"))
        """Runs while a session lasts. Without a session the last known settings stay in force."""
        self._me = me
        self._topics = topics
        self._file_defaults = topics.defaults
        self._replica_manager = replica_manager
        self._log_manager = log_manager
        self._log = log
        self._limit_connections = limit_connections
        self._dynamic: dict[str, Mapping[str, str]] = {}
        """The dynamic settings of this broker, and the default of all brokers, by entity name."""
        self._led: PartitionTable[TopicPartition, None] = PartitionTable()
        self._followed: PartitionTable[TopicPartition, None] = PartitionTable()
        self._throttles = Throttles(me)
        self._throttled: object = None
        """The throttles that were applied last."""
        self._idle_logged: set[str] = set()
        """Keys in `_dynamic` without effect that were already logged."""
        topics.add_listener(self)
        replica_manager.add_role_listener(self.role_taken)

    @property
    def layers(self) -> Layers:
        """The known settings of this broker, of all brokers, and of the file."""
        return Layers(self._dynamic.get(str(self._me), {}), self._dynamic.get(DEFAULT, {}), self.file)

    # -- topics ------------------------------------------------------------------------------------------------

    def topic_wanted(self, topic: str) -> None:
        self.feed.want(Entity.of("topics", topic))

    def topic_configured(self, topic: str, config: LogConfig) -> None:
        self._log_manager.reconfigure(topic)
        self._replica_manager.require_in_sync(topic, config.min_insync_replicas)

    def topic_deleted(self, topic: str, *, recreated: bool) -> None:
        """Forget the settings of a deleted topic. If a new topic has its name, read the settings of that one."""
        self._topics.forget(topic)
        self._replica_manager.require_in_sync(topic, None)
        self.feed.forget(Entity.of("topics", topic))
        if recreated:
            self.topic_wanted(topic)

    # -- changes -----------------------------------------------------------------------------------------------

    def _apply(self, entity: Entity, values: Mapping[str, str]) -> None:
        kind, _, name = entity.path.partition("/")
        if kind in ("clients", "users"):
            for why in client_throttling.apply_quotas(self.quotas, entity, values):
                self._log.warn_rate_limited("bad_config", (entity, why), entity=entity.path, why=why)
        elif self._throttles.configure(entity.path, values):
            self._throttle()
        if kind == "topics":
            self._topics.set(name, values)
        elif kind == "brokers" and name in (str(self._me), DEFAULT):
            self._dynamic[name] = values
            self._topics.set_defaults(self._defaults())
            self._limit_connections(self._int("max.connections"), self._int("max.connections.per.ip"))
            pause_ms = self._int("log.cleaner.backoff.ms")
            self._log_manager.configure_cleaner(
                cleans=bool(self._value("log.cleaner.enable")), pause_s=None if pause_ms is None else pause_ms / 1000
            )
            self._log_idle()

    def _log_idle(self) -> None:
        """Log each dynamic setting without effect, once until it is removed."""
        names = {name for values in self._dynamic.values() for name in values}
        self._idle_logged &= names
        for name in sorted(names - self._idle_logged):
            try:
                why = key_of("brokers", name).idle
            except ConfigError as error:  # a static key, which another program has stored
                why = str(error)
            if why:
                self._idle_logged.add(name)
                self._log.warn_rate_limited("without_effect", name, cause="brokers", broker_config=name, why=why)

    # -- throttles ---------------------------------------------------------------------------------------------

    def role_taken(self, taken: RoleTaken) -> None:
        where = taken.where
        for role, held in ((True, self._led), (False, self._followed)):
            if taken.leads is role:
                held[where] = None
            else:
                held.pop(where, None)
        if self._throttles.slows_follower(where) or self._throttles.slows_leader(where):
            self._throttle()  # it examines all throttled partitions, so call it only for these

    def _throttle(self) -> None:
        throttles = self._throttles
        following = tuple(
            where
            for topic in throttles.followed_topics
            for where in self._followed.of(topic)
            if throttles.slows_follower(where)
        )
        leading = tuple(
            where for topic in throttles.led_topics for where in self._led.of(topic) if throttles.slows_leader(where)
        )
        rates = throttles.follower_rate(), throttles.leader_rate()
        wanted = following, leading, rates
        if wanted != self._throttled:
            self._throttled = wanted
            self._log.say(
                "throttled", follows=len(following), bytes_s=rates[0], leads=len(leading), leader_bytes_s=rates[1]
            )
            self._replica_manager.throttle(following, rates[0])
            self._replica_manager.throttle_followers(leading, rates[1])

    # -- values ------------------------------------------------------------------------------------------------

    def _defaults(self) -> LogConfig:
        """Return the broker's defaults of topic settings. An invalid dynamic setting is logged and ignored."""
        made = self._file_defaults
        for name in (DEFAULT, str(self._me)):
            for key, text in self._dynamic.get(name, {}).items():
                if key not in TOPIC_KEY:
                    continue
                try:
                    made = LogConfig.of({TOPIC_KEY[key]: text.strip()}, made)
                except KafkaError as error:
                    self._log.warn_rate_limited("bad_config", (name, key), broker_config=key, why=error)
        return made

    def _int(self, key: str) -> int | None:
        value = self._value(key)
        return value if isinstance(value, int) else None

    def _value(self, key: str) -> Value | None:
        """Return the first valid value of a key, of this broker, all brokers, or the file; None if there is none."""
        texts = [self._dynamic.get(name, {}).get(key) for name in (str(self._me), DEFAULT)]
        for text in (*texts, self.file.get(key, (None, False))[0]):
            if text is None:
                continue
            try:
                return BROKER[key].value(text)
            except ConfigError as error:
                self._log.warn_rate_limited("bad_config", key, broker_config=key, why=error)
        return None
