"""The configuration of each topic: the topic's own settings over the broker's.

Opening a replica requests the topic's settings without waiting for them. The broker's defaults apply until the settings
have been read from the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Protocol

import trio

from kraft_controller.core.configuration.config_keys import TOPIC
from replica.core.errors import KafkaError
from replica.core.partitions.log_config import LogConfig
from replica.runtime.logs import Log


class TopicConfigListener(Protocol):
    """The component that reads the settings of topics and applies changes to open logs."""

    def topic_wanted(self, topic: str) -> None:
        """Read the settings of a topic soon, and pass them to `TopicConfigs.set`."""

    def topic_configured(self, topic: str, config: LogConfig) -> None:
        """Apply a topic's new configuration to its open logs."""


class TopicConfigs:
    """Maps each topic to its configuration."""

    def __init__(self, defaults: LogConfig, log: Log) -> None:
        self.defaults = defaults
        """The broker's configuration, which applies to keys that a topic does not set."""
        self._log = log
        self._listeners: list[TopicConfigListener] = []
        self._known: dict[str, Mapping[str, str]] = {}
        """The settings of each topic that have been read; empty for a topic without settings."""
        self._read = trio.Event()
        """Set, and replaced, each time settings are read."""

    def add_listener(self, listener: TopicConfigListener) -> None:
        self._listeners.append(listener)

    def __getitem__(self, topic: str) -> LogConfig:
        """Return the configuration as far as it is known. If the topic's settings have not been read, request them."""
        values = self._known.get(topic)
        if values is None:
            for listener in self._listeners:
                listener.topic_wanted(topic)
            return self.defaults
        return self._config(topic, values)

    def __contains__(self, topic: object) -> bool:
        """Return whether the topic's settings have been read."""
        return topic in self._known

    def set(self, topic: str, values: Mapping[str, str]) -> None:
        self._known[topic] = values
        self._apply(topic, values)
        read, self._read = self._read, trio.Event()
        read.set()

    async def until_known(self, topics: Collection[str]) -> None:
        """Wait until the settings of all these topics have been read."""
        while not self._known.keys() >= {*topics}:
            await self._read.wait()

    def set_defaults(self, defaults: LogConfig) -> None:
        """Replace the broker's configuration, and apply it to the topics whose settings have been read."""
        if defaults == self.defaults:
            return
        self.defaults = defaults
        for topic, values in self._known.items():
            self._apply(topic, values)

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)

    def _apply(self, topic: str, values: Mapping[str, str]) -> None:
        for listener in self._listeners:
            listener.topic_configured(topic, self._config(topic, values))

    def _config(self, topic: str, values: Mapping[str, str]) -> LogConfig:
        """Return the defaults, overridden by each valid setting. An invalid setting is logged and ignored."""
        made = self.defaults
        known = {key: text for key, text in values.items() if key in TOPIC}  # others may be of a newer broker version
        with suppress(KafkaError):
            return LogConfig.of(known, made)
        for key, text in known.items():
            try:
                made = LogConfig.of({key: text}, made)
            except KafkaError as error:
                self._log.warn_rate_limited("bad_config", (topic, key), topic=topic, why=error.text)
        return made
