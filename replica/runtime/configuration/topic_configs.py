"""What holds for topics, as far as it has been heard: a topic's own settings, and else the broker's.

A topic's settings are wanted the moment a replica is opened, and that moment waits for nobody: until they are read,
which takes one round trip, the broker's own hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import trio

from kraft_controller.core.config_keys import KEYS
from replica.core.errors import KafkaError
from replica.core.log_config import LogConfig
from replica.runtime.logs import Log

Apply = Callable[[str, LogConfig], None]
"""Of a topic."""


class TopicConfigs:
    """defaults   what holds for a topic that says nothing: the broker's own"""

    def __init__(self, defaults: LogConfig, log: Log) -> None:
        self.defaults = defaults
        self.apply: Apply = lambda topic, config: None
        """Called whenever a topic's settings are heard."""
        self.want: Callable[[str], None] = lambda topic: None
        """Called for a topic of which nothing is known: it is to be `heard` soon."""
        self._log = log
        self._known: dict[str, Mapping[str, str]] = {}
        self._bell = trio.Event()

    def __getitem__(self, topic: str) -> LogConfig:
        """As far as it is known. The first who asks has it read."""
        values = self._known.get(topic)
        if values is None:
            self.want(topic)
            return self.defaults
        return self._config(topic, values)

    def __contains__(self, topic: object) -> bool:
        """What is set for it has been heard, and be it nothing."""
        return topic in self._known

    def heard(self, topic: str, values: Mapping[str, str]) -> None:
        self._known[topic] = values
        self.apply(topic, self._config(topic, values))
        bell, self._bell = self._bell, trio.Event()
        bell.set()

    async def until_heard(self, topics: Collection[str]) -> None:
        """Of each of them what is set for it."""
        while not self._known.keys() >= set(topics):
            await self._bell.wait()

    def set_defaults(self, defaults: LogConfig) -> None:
        """Other ones, while topics are open: what they did not say themselves has changed."""
        if defaults == self.defaults:
            return
        self.defaults = defaults
        for topic, values in self._known.items():
            self.apply(topic, self._config(topic, values))

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)

    def _config(self, topic: str, values: Mapping[str, str]) -> LogConfig:
        """One key at a time: what makes no sense is as if nobody had said it."""
        made = self.defaults
        for key, text in values.items():
            if key not in KEYS["topics"]:
                continue  # another broker's, which knows more
            try:
                made = LogConfig.of({key: text}, made)
            except KafkaError as error:
                self._log.warn_rate_limited("bad_config", (topic, key), topic=topic, why=error.text)
        return made
