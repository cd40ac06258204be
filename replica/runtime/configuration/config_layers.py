"""The layers of the configuration: the value of each key, with all its sources, as DescribeConfigs returns them.

The order of precedence is: topic, this broker, all brokers, the broker's file, the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import Final, TypeAlias

from attrs import evolve, frozen

from kraft_controller.core.configuration.config_keys import BROKER, CUSTOM, LONG_MAX, TOPIC, ConfigError, Key
from kraft_controller.core.configuration.start_keys import is_start_key
from replica.core.partitions.log_config import LogConfig
from replica.runtime.configuration.broker_config import Setting
from zab.core.secrets import is_secret


class Source(IntEnum):
    """The sources of a value, with the numbers of Kafka's protocol."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    USUAL = 5


StartSettings: TypeAlias = Mapping[str, Setting]
"""The static settings of a broker, by key."""
_COARSER: Final[Mapping[str, tuple[tuple[str, str | None], ...]]] = {
    "log.retention.ms": (("log.retention.minutes", None), ("log.retention.hours", "168")),
    "log.roll.ms": (("log.roll.hours", "168"),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", "0"),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", str(LONG_MAX)),),
}
"""Keys without a default of their own. If one is not set, the listed keys apply instead, in the order of precedence and
with their defaults. Most of these use a larger unit."""


@frozen
class Synonym:
    """One source of a value, with the key that is set there. A secret has no value."""

    name: str
    value: str | None
    source: Source


@frozen
class ConfigEntry:
    """A key with its effective value.

    value      None for a secret, or if there is no value
    kind       the type, as in `Key.kind`
    about      the documentation
    synonyms   all sources in the order of precedence, the effective one first; may be empty if no layer sets the key
    """

    name: str
    value: str | None
    is_sensitive: bool
    kind: str
    about: str
    synonyms: tuple[Synonym, ...]
    read_only: bool = False

    @property
    def source(self) -> Source:
        return self.synonyms[0].source if self.synonyms else Source.USUAL


@frozen
class Layers:
    """The layers of a broker's configuration.

    mine   the dynamic settings of this broker
    all    the dynamic settings of all brokers
    file   the static settings
    """

    mine: Mapping[str, str]
    all: Mapping[str, str]
    file: StartSettings

    def value(self, key: Key) -> str | None:
        """Return the effective value of a broker's key; None if it has none."""
        for values in (self.mine, self.all):
            if key.name in values and _makes_sense(key, values[key.name]):
                return values[key.name]
        setting = self.file.get(key.name, Setting())
        return setting.text if setting.in_file or setting.text is not None else key.default

    def says(self, name: str) -> bool:
        """Return whether a layer sets the key itself, and not only a key that `_COARSER` names for it."""
        setting = self.file.get(name, Setting())
        return name in self.mine or name in self.all or setting.in_file

    def synonyms(self, key: Key) -> list[Synonym]:
        """Return the sources of a broker's key in the order of precedence, as Kafka does.

        The keys that `_COARSER` names for it follow the key itself. The list is empty if no layer sets the key itself
        and it has no default, even if one of those keys is set.
        """
        found = []
        for source, values in ((Source.BROKER, self.mine), (Source.ALL_BROKERS, self.all)):
            if key.name in values and _makes_sense(key, values[key.name]):
                found.append(_synonym(key.name, values[key.name], source))
        coarser = _COARSER.get(key.name, ())
        for name in (key.name, *(name for name, _ in coarser)):
            setting = self.file.get(name, Setting())
            if setting.in_file:
                found.append(_synonym(name, setting.text, Source.FILE))
        setting = self.file.get(key.name, Setting())
        usual = key.default if setting.in_file or setting.text is None else setting.text
        for name, text in coarser or ((key.name, usual),):
            if text is not None:
                found.append(_synonym(name, text, Source.USUAL))
        return list(dropwhile(lambda one: one.name != key.name, found))


def started_with(
    log: LogConfig, log_keys_in_file: Iterable[str], more: Mapping[str, object], settings: StartSettings
) -> StartSettings:
    """Return the static settings of a broker.

    more       the values of other keys that can be changed dynamically
    settings   all keys of the file, as written, and the defaults of other keys
    """
    texts, in_file = log.as_text(), set(log_keys_in_file)
    made = dict(settings)
    for name, key in TOPIC.items():
        if key.broker is not None and name in texts:
            itself = made.get(key.broker, Setting()).in_file
            made[key.broker] = Setting(texts[name], itself if key.broker in _COARSER else name in in_file)
    for broker_key, value in more.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        made[broker_key] = Setting(text, made.get(broker_key, Setting()).in_file)
    return made


def of_topic(values: Mapping[str, str], layers: Layers, wanted: Iterable[str] | None = None) -> list[ConfigEntry]:
    """Return the entries of a topic, with their synonyms. `wanted`: None for all keys. An unknown key is returned as
    set."""
    made = []
    for name in sorted({*TOPIC, *values}):
        if wanted is not None and name not in wanted:
            continue
        key = TOPIC.get(name) or Key(name, "string", None, "")
        own = values.get(name)
        overrides = own is not None and _makes_sense(key, own)
        value = own if overrides else key.default if key.broker is None else layers.value(BROKER[key.broker])
        found = [] if key.broker is None else layers.synonyms(BROKER[key.broker])
        if overrides:
            found.insert(0, _synonym(name, own, Source.TOPIC))
        if value is not None:
            made.append(_entry(name, key, value, found))
    return made


def of_broker(layers: Layers, wanted: Iterable[str] | None = None) -> list[ConfigEntry]:
    """Return the entries of a broker: dynamic keys, static keys, and unknown keys that are set dynamically."""
    made = []
    for name in sorted({*BROKER, *layers.file, *layers.mine, *layers.all}):
        if wanted is not None and name not in wanted:
            continue
        if name in BROKER:
            value = layers.value(BROKER[name])
            if name in _COARSER and not layers.says(name):
                made.append(_entry(name, BROKER[name], None, []))
            elif value is not None:
                made.append(_entry(name, BROKER[name], value, layers.synonyms(BROKER[name])))
        elif not is_start_key(name) and (name in layers.mine or name in layers.all):
            made.append(_custom(name, layers.synonyms(Key(name, CUSTOM, None, ""))))
        elif name in layers.file:
            setting = layers.file[name]
            found = [_synonym(name, setting.text, Source.FILE)] if setting.in_file else []
            if setting.usual is not None:
                found.append(_synonym(name, setting.usual, Source.USUAL))
            secret = is_secret(name)
            hidden = secret or (setting.in_file and setting.text is None)
            value = None if secret else setting.text
            made.append(ConfigEntry(name, value, hidden, "string", "", tuple(found), read_only=True))
    return made


def of_all_brokers(values: Mapping[str, str], wanted: Iterable[str] | None = None) -> list[ConfigEntry]:
    """Return the entries of the dynamic default for all brokers, without other layers, which differ between brokers."""
    made = []
    for name, text in sorted(values.items()):
        if wanted is not None and name not in wanted:
            continue
        found = [_synonym(name, text, Source.ALL_BROKERS)]
        if name in BROKER or is_start_key(name):
            made.append(_entry(name, BROKER.get(name) or Key(name, "string", None, ""), text, found))
        else:
            made.append(_custom(name, found))
    return made


def _custom(name: str, synonyms: list[Synonym]) -> ConfigEntry:
    """Return the entry of an unknown key. It may be a secret, so its value is hidden, as in Kafka."""
    hidden = tuple(evolve(each, value=None) for each in synonyms)
    return ConfigEntry(name, None, True, CUSTOM, "", hidden, read_only=True)


def _entry(name: str, key: Key, value: str | None, synonyms: list[Synonym]) -> ConfigEntry:
    secret = is_secret(name)
    return ConfigEntry(name, None if secret else value, secret, key.kind, key.about, tuple(synonyms))


def _synonym(name: str, text: str | None, source: Source) -> Synonym:
    return Synonym(name, None if is_secret(name) else text, source)


def _makes_sense(key: Key, text: str) -> bool:
    """Return whether a value is valid. An invalid value is skipped in favor of the next layer."""
    try:
        key.value(text)
    except ConfigError:
        return False
    return True
