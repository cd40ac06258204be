"""A table of configuration keys, as data.

The reader of a file, the warnings about the file and the generated reference page use one table, so they agree on the
keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Final

from attrs import define, field, frozen

from zab.config.values import Convert, text
from zab.core import secrets

LIKENESS_MIN: Final = 0.7
"""The minimum similarity at which a known key is suggested for an unknown one."""
_NO_VALUE: Final = ("none", "required")


@frozen
class ConfigKey:
    name: str
    default: str
    """The default as the reference page shows it, perhaps in words. `default_value` is for programs."""
    does: str
    """The effect of the key, or the reason why it has none."""
    convert: Convert = text
    """Converts and checks the value, even of a key without effect, because ZooKeeper and Kafka check it, too."""
    sets: str = ""
    """The setting that the key sets, as `group.field`; empty if code reads the key by its name, or it has no effect."""
    ignored: bool = False
    """True if the key has no effect here."""
    agreed: tuple[str, ...] = ()
    """Values of a key without effect that need no warning, because they select the behaviour that this server has.

    Without any, the default needs no warning.
    """

    @property
    def default_value(self) -> str | None:
        """The default as a value of the key; None if there is none, or if it is described in words."""
        return None if " " in self.default or self.default in _NO_VALUE else self.default

    def agrees(self, value: str) -> bool:
        agreed = self.agreed or (self.default_value,)
        return value in agreed or value.lower() in agreed


@frozen
class KeyFamily:
    """Keys with a number or a name in them, like `server.1`."""

    pattern: re.Pattern[str]
    """Matches the keys of the family."""
    shown: str
    """The name of the family on the reference page, like `server.N`."""
    does: str
    ignored: bool = False


Section = tuple[str, tuple[ConfigKey, ...]]


def sets(name: str, default: str, setting: str, convert: Convert, does: str) -> ConfigKey:
    """Make a key whose converted value becomes the setting `group.field`."""
    return ConfigKey(name, default, does, convert, setting)


def read(name: str, default: str, convert: Convert, does: str) -> ConfigKey:
    """Make a key that code reads by its name."""
    return ConfigKey(name, default, does, convert)


def ignored(name: str, default: str, why: str, *agreed: str, convert: Convert = text) -> ConfigKey:
    """Make a key that has no effect here."""
    return ConfigKey(name, default, why, convert, ignored=True, agreed=agreed)


def _unchanged(name: str) -> str:
    return name


@define(slots=False)
class KeyTable:
    """All keys of one configuration file, by the sections of its reference page."""

    sections: tuple[Section, ...]
    families: tuple[KeyFamily, ...] = ()
    members: Iterable[str] = ()
    """Keys of families that may be suggested for an unknown key."""
    canonical: Callable[[str], str] = _unchanged
    """Maps the name that a file uses to the name that a `ConfigSource` stores."""
    base: Callable[[str], str] = _unchanged
    """Maps a stored name to its name in the table, for example for keys that are set per listener."""
    keys: Mapping[str, ConfigKey] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.keys = {key.name: key for _, keys in self.sections for key in keys}

    def family_of(self, name: str) -> KeyFamily | None:
        return next((family for family in self.families if family.pattern.fullmatch(name)), None)

    def knows(self, name: str) -> bool:
        """Return whether the table has this key, by its base name or in a family of keys with an effect.

        Messages hide the value of an unknown key, because it may be a misspelt password key.
        """
        if self.base(name) in self.keys:
            return True
        family = self.family_of(name)
        return family is not None and not family.ignored

    def shown(self, name: str, value: str) -> str:
        return secrets.shown(name, value, known=self.knows(name))

    def suggestion(self, name: str) -> str:
        """Return "; did you mean ...?" with the known key most like this name, or "" if none is similar enough."""
        found = get_close_matches(name.lower(), self._by_lower, n=1, cutoff=LIKENESS_MIN)
        return f"; did you mean {self._by_lower[found[0]]}?" if found else ""

    @cached_property
    def _by_lower(self) -> dict[str, str]:
        names = (*self.keys, *self.members, *(family.shown for family in self.families))
        return {name.lower(): name for name in names}
