"""What is configured for brokers while they run, and which replicas are slowed down: heard of, and done.

What is said of one broker stands before what is said of all, and both before the file that it was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft_controller.core.configs import DEFAULT, TOPIC, ConfigError
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.throttles import Throttles
from kraft_controller.runtime.admin.configs import Entity
from kraft_controller.runtime.feed import ConfigFeed
from replica.core.errors import KafkaError
from replica.runtime.configs import TopicConfigs
from replica.runtime.logs import Log
from replica.runtime.replicas import Replication
from replica.storage.config import TYPES, LogConfig

TOPIC_KEY: Final[Mapping[str, str]] = {
    key.broker: name for name, key in TOPIC.items() if key.broker is not None and name in TYPES
}
"""Of a broker's key, which of a topic's it is the default of."""


class DynamicConfigs:
    """feed   runs while a session lasts; what it said stays in force without one"""

    def __init__(self, me: BrokerId, topics: TopicConfigs, replication: Replication, log: Log) -> None:
        self._me = me
        self._topics = topics
        self._static = topics.defaults
        self._replication = replication
        self._log = log
        self._said: dict[str, Mapping[str, str]] = {}
        self._followed: dict[TopicPartition, None] = {}
        self._throttled: tuple[tuple[TopicPartition, ...], int | None] = ((), None)
        self._throttles = Throttles(me)
        self.feed = ConfigFeed(self._heard, kinds=("brokers", "topics"))

    def role_taken(self, where: TopicPartition, leads: bool | None, epoch: int) -> None:
        if leads is False:
            self._followed[where] = None
        else:
            self._followed.pop(where, None)
        self._throttle()

    def _heard(self, entity: Entity, said: Mapping[str, str]) -> None:
        if not self._throttles.heard(entity.path, said):
            return
        self._throttle()
        kind, _, name = entity.path.partition("/")
        if kind == "brokers":
            self._said[name] = said
            self._topics.set_defaults(self._defaults())

    def _throttle(self) -> None:
        slowed = tuple(where for where in self._followed if self._throttles.slows_follower(where))
        wanted = (slowed, self._throttles.follower_rate())
        if wanted != self._throttled:
            self._throttled = wanted
            self._log.say("throttled", partitions=len(slowed), bytes_s=wanted[1])
            self._replication.throttle(*wanted)

    def _defaults(self) -> LogConfig:
        """One key at a time: what makes no sense is as if nobody had said it."""
        made = self._static
        for name in (DEFAULT, str(self._me)):
            for key, text in self._said.get(name, {}).items():
                if key not in TOPIC_KEY:
                    continue
                try:
                    TOPIC[TOPIC_KEY[key]].value(text)
                    made = LogConfig.of({TOPIC_KEY[key]: text.strip()}, made)
                except (KafkaError, ConfigError) as error:
                    self._log.grumble("bad_config", (name, key), broker_config=key, why=error)
        return made
