"""One file's lines, and how a mistake in one of them is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from replica.cli.properties.syntax import Entry

_LISTENER: Final = "listener.name."
SECRET: Final = ("password", "secret", "jaas.config", "keystore.key")
"""Keys with such a word in them have values that nobody is told."""


class Misconfigured(Exception):
    """The file makes no sense. The text says which key of which line, and what would do."""


@frozen
class Source:
    path: str
    entries: Mapping[str, Entry] = field(factory=dict)

    def text(self, key: str, default: str = "") -> str:
        entry = self.entries.get(key)
        return default if entry is None else entry.value

    def wrong(self, key: str, why: object) -> Misconfigured:
        entry = self.entries.get(key)
        if entry is None:
            return Misconfigured(f"{self.path}: {key}: {why}")
        shown = "..." if is_secret(key) else entry.value
        return Misconfigured(f"{self.path}, line {entry.line}: {key}={shown}: {why}")

    def at(self, listener: str) -> Scope:
        return Scope(self, f"{_LISTENER}{listener.lower()}.")


def is_secret(key: str) -> bool:
    return any(word in key for word in SECRET)


@frozen
class Scope:
    """Keys as they are for one listener: what is said of it by name stands before what is said of all."""

    source: Source
    prefix: str

    def name(self, key: str) -> str:
        """As it stands in the file."""
        return self.prefix + key if self.prefix + key in self.source.entries else key

    def text(self, key: str, default: str = "") -> str:
        return self.source.text(self.name(key), default)

    def wrong(self, key: str, why: object) -> Misconfigured:
        return self.source.wrong(self.name(key), why)
