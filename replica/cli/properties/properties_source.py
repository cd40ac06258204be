"""server.properties and command-line overrides as a source of settings. A key for one listener overrides the key for
all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from attrs import frozen

from replica.cli.properties.keys import TABLE
from zab.config.config_source import BadConfig, ConfigSource

_LISTENER: Final = "listener.name."


class PropertiesSource(ConfigSource):
    @classmethod
    def of(cls, path: Path, text: str, overrides: Mapping[str, str]) -> Self:
        source = cls.of_text(path, TABLE, text)
        source.add_options("--override", overrides.items())
        return source

    def at(self, listener: str) -> Scope:
        return Scope(self, f"{_LISTENER}{listener.lower()}.")


@frozen
class Scope:
    """The keys of one listener. A key with the listener's name as a prefix overrides the key for all listeners."""

    source: ConfigSource
    prefix: str = ""

    def name(self, key: str) -> str:
        """Return the key that the file sets for this listener, with or without the prefix."""
        return self.prefix + key if self.prefix + key in self.source.entries else key

    def text(self, key: str, default: str = "") -> str:
        return self.source.text(self.name(key), default)

    def wrong(self, key: str, why: object) -> BadConfig:
        return self.source.wrong(self.name(key), why)
