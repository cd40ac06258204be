"""The configuration file and the options of the command line, as one source of settings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from zab.cli.zoo_cfg.keys import MEMBERSHIP, TABLE
from zab.config.config_source import ConfigEntry, ConfigSource


class ZooSource(ConfigSource):
    """A source that drops the prefix `zookeeper.` of keys, and allows each line of the membership only once."""

    @classmethod
    def read(cls, path: Path, options: Iterable[tuple[str, str]] = ()) -> Self:
        source = cls(path, TABLE)
        source.add_file(path)
        source.add_options("-D", ((key.strip(), value.strip()) for key, value in options))
        return source

    def on_duplicate(self, entry: ConfigEntry, before: ConfigEntry) -> None:
        if entry.key.startswith(MEMBERSHIP):  # the file does not show which of the two lines is meant
            self.problem(entry.key, f"also at {before.place}, as {before.shown!r}: remove one of the two lines")
        else:
            super().on_duplicate(entry, before)

    def members(self) -> list[ConfigEntry]:
        """Return the entries of the membership, in the order in which they were read."""
        return [entry for key, entry in self.entries.items() if key.startswith(MEMBERSHIP)]
