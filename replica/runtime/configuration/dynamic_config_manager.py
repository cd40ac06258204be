"""What is configured while brokers run is heard of here, and done: for topics, for this broker and for all brokers.

What is said of one broker stands before what is said of all, and both before the file that it was started with.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from attrs import evolve

from kraft_controller.core.config_keys import BROKER, DEFAULT, TOPIC, ConfigError, Value
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.throttles import Throttles
from kraft_controller.runtime.admin.entity_configs import Entity
from kraft_controller.runtime.config_feed import ConfigFeed
from replica.core.client_quotas import ClientQuotaManager
from replica.core.errors import KafkaError
from replica.core.log_config import NAMES, LogConfig
from replica.runtime.configuration.config_layers import Layers, Said
from replica.runtime.configuration.topic_configs import TopicConfigs
from replica.runtime.handlers import client_throttling
from replica.runtime.logs import Log
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.replication.log_manager_runtime import LogManagerRuntime
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime

TOPIC_KEY: Final[Mapping[str, str]] = {
    key.broker: name for name, key in TOPIC.items() if key.broker is not None and name in NAMES
}
"""Of a broker's key, which of a topic's it is the default of."""


class DynamicConfigManager:
    """feed    runs while a session lasts; what it said stays in force without one
    doors   whose bounds can be changed
    file    what this broker was started with
    quotas  of clients and users
    """

    def __init__(
        self,
        me: BrokerId,
        topics: TopicConfigs,
        replication: ReplicaManagerRuntime,
        disk: LogManagerRuntime,
        file: Said,
        log: Log,
    ) -> None:
        self.doors: list[ClientListener] = []
        self.file = file
        self._me = me
        self._topics = topics
        self._started_with = topics.defaults
        self._replication = replication
        self._disk = disk
        self._log = log
        self._said: dict[str, Mapping[str, str]] = {}
        self._led: dict[TopicPartition, None] = {}
        self._followed: dict[TopicPartition, None] = {}
        self._throttled: object = None
        self._idle_said: set[str] = set()
        self._throttles = Throttles(me)
        self.quotas = ClientQuotaManager()
        self.feed = ConfigFeed(self._heard, kinds=("brokers", "topics", "clients", "users"))
        topics.want = lambda topic: self.feed.want(Entity.of("topics", topic))

    @property
    def layers(self) -> Layers:
        """As far as it has been heard."""
        return Layers(self._said.get(str(self._me), {}), self._said.get(DEFAULT, {}), self.file)

    def topic_gone(self, topic: str, *, another: bool) -> None:
        """`another`: there is a new one of that name, and what is said of it has to be read."""
        self._topics.forget(topic)
        self.feed.forget(Entity.of("topics", topic))
        if another:
            self._topics.want(topic)

    def role_taken(self, where: TopicPartition, leads: bool | None, epoch: int) -> None:
        for role, held in ((True, self._led), (False, self._followed)):
            if leads is role:
                held[where] = None
            else:
                held.pop(where, None)
        if self._throttles.slows_follower(where) or self._throttles.slows_leader(where):
            self._throttle()  # of no other partition anything is new; looking at all of them for each takes seconds

    def _heard(self, entity: Entity, said: Mapping[str, str]) -> None:
        kind, _, name = entity.path.partition("/")
        if kind in ("clients", "users"):
            for why in client_throttling.apply_quotas(self.quotas, entity, said):
                self._log.warn_rate_limited("bad_config", (entity, why), entity=entity.path, why=why)
        elif self._throttles.heard(entity.path, said):
            self._throttle()
        if kind == "topics":
            self._topics.heard(name, said)
        elif kind == "brokers" and name in (str(self._me), DEFAULT):
            self._said[name] = said
            self._topics.set_defaults(self._defaults())
            self._bound_doors()
            self._disk.cleans = bool(self._value("log.cleaner.enable"))
            pause_ms = self._value("log.cleaner.backoff.ms")
            if isinstance(pause_ms, int):
                self._disk.clean_pause_s = pause_ms / 1000
            self._say_idle(said)

    def _say_idle(self, said: Mapping[str, str]) -> None:
        """Log each key that is accepted and has no effect, once."""
        for name in said:
            key = BROKER.get(name)
            if key is not None and key.idle and name not in self._idle_said:
                self._idle_said.add(name)
                self._log.say("without_effect", logging.WARNING, broker_config=name, why=key.idle)

    # -- throttles ---------------------------------------------------------------------------------------------

    def _throttle(self) -> None:
        throttles = self._throttles
        following = tuple(where for where in self._followed if throttles.slows_follower(where))
        leading = tuple(where for where in self._led if throttles.slows_leader(where))
        rates = throttles.follower_rate(), throttles.leader_rate()
        wanted = following, leading, rates
        if wanted != self._throttled:
            self._throttled = wanted
            self._log.say(
                "throttled", follows=len(following), bytes_s=rates[0], leads=len(leading), leader_bytes_s=rates[1]
            )
            self._replication.throttle(following, rates[0])
            self._replication.throttle_followers(leading, rates[1])

    # -- what holds --------------------------------------------------------------------------------------------

    def _defaults(self) -> LogConfig:
        """One key at a time: what makes no sense is as if nobody had said it."""
        made = self._started_with
        for name in (DEFAULT, str(self._me)):
            for key, text in self._said.get(name, {}).items():
                if key not in TOPIC_KEY:
                    continue
                try:
                    made = LogConfig.of({TOPIC_KEY[key]: text.strip()}, made)
                except KafkaError as error:
                    self._log.warn_rate_limited("bad_config", (name, key), broker_config=key, why=error)
        return made

    def _value(self, key: str) -> Value | None:
        """None: nobody has said it."""
        for text in self._texts(key):
            try:
                return BROKER[key].value(text)
            except ConfigError as error:
                self._log.warn_rate_limited("bad_config", key, broker_config=key, why=error)
        return None

    def _texts(self, key: str) -> list[str]:
        texts = [self._said.get(name, {}).get(key) for name in (str(self._me), DEFAULT)]
        return [text for text in (*texts, self.file.get(key, (None, False))[0]) if text is not None]

    def _bound_doors(self) -> None:
        for door in self.doors:
            bounds = {
                "connections_max": self._value("max.connections"),
                "connections_per_host_max": self._value("max.connections.per.ip"),
            }
            said = {name: int(value) for name, value in bounds.items() if isinstance(value, int)}
            door.settings = evolve(door.settings, **said)
