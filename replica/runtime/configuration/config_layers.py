"""What is configured, and who said it: for a client that asks, key by key, the first that counts before the others.

topic > this broker > all brokers > the file that this broker was started with > what is usual
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import Final

from attrs import evolve, frozen

from kraft_controller.core.config_keys import BROKER, LONG_MAX, TOPIC, ConfigError, Key
from replica.core.log_config import LogConfig
from replica.runtime.configuration.broker_config import Setting
from replica.wire.schemas.topic_schemas import DescribeConfigsResourceResult, DescribeConfigsSynonym
from zab.core.secrets import is_secret


class Source(IntEnum):
    """As Kafka's clients number them."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    USUAL = 5


KINDS: Final = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}
Said = Mapping[str, Setting]
"""The values with which a broker was started, by key."""
_COARSER: Final[Mapping[str, tuple[tuple[str, str | None], ...]]] = {
    "log.retention.ms": (("log.retention.minutes", None), ("log.retention.hours", "168")),
    "log.roll.ms": (("log.roll.hours", "168"),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", "0"),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", str(LONG_MAX)),),
}
"""Keys that have no default, and the keys that count where nobody says them, with theirs."""


@frozen
class Layers:
    """mine   what is configured for this broker while it runs
    all    for all brokers
    file   what it was started with
    """

    mine: Mapping[str, str]
    all: Mapping[str, str]
    file: Said

    def value(self, key: Key) -> str | None:
        """Return what holds for a broker's key."""
        for values in (self.mine, self.all):
            if key.name in values and _makes_sense(key, values[key.name]):
                return values[key.name]
        setting = self.file.get(key.name, Setting())
        return setting.text if setting.said or setting.text is not None else key.default

    def says(self, name: str) -> bool:
        """Return whether the broker's key itself has a value, and not only a coarser one that stands in for it."""
        setting = self.file.get(name, Setting())
        return name in self.mine or name in self.all or setting.said

    def synonyms(self, key: Key) -> list[DescribeConfigsSynonym]:
        """List where a broker's key gets its value from, the first that counts first, as Kafka does.

        A coarser key is listed only behind the key itself: the list is empty while only the coarser one is said.
        """
        found = []
        for source, values in ((Source.BROKER, self.mine), (Source.ALL_BROKERS, self.all)):
            if key.name in values and _makes_sense(key, values[key.name]):
                found.append(_said(key.name, values[key.name], source))
        coarser = _COARSER.get(key.name, ())
        for name in (key.name, *(name for name, _ in coarser)):
            setting = self.file.get(name, Setting())
            if setting.said:
                found.append(_said(name, setting.text, Source.FILE))
        setting = self.file.get(key.name, Setting())
        usual = key.default if setting.said or setting.text is None else setting.text
        for name, text in coarser or ((key.name, usual),):
            if text is not None:
                found.append(_said(name, text, Source.USUAL))
        return list(dropwhile(lambda one: one.name != key.name, found))


def started_with(log: LogConfig, log_said: Iterable[str], more: Mapping[str, object], said: Said) -> Said:
    """`more`: what holds of other keys that can be changed; `said`: all keys of the file, as a person reads them."""
    texts, in_file = log.as_text(), set(log_said)
    made = dict(said)
    for name, key in TOPIC.items():
        if key.broker is not None and name in texts:
            itself = made.get(key.broker, Setting()).said
            made[key.broker] = Setting(texts[name], itself if key.broker in _COARSER else name in in_file)
    for broker_key, value in more.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        made[broker_key] = Setting(text, made.get(broker_key, Setting()).said)
    return made


def of_topic(
    values: Mapping[str, str], layers: Layers, wanted: Iterable[str] | None = None
) -> list[DescribeConfigsResourceResult]:
    """Entries with all their synonyms; `wanted` None: all keys. A key that is not known here is shown as it stands."""
    made = []
    for name in sorted({*TOPIC, *values}):
        if wanted is not None and name not in wanted:
            continue
        key = TOPIC.get(name) or Key(name, "string", None, "")
        own = values.get(name)
        said = own is not None and _makes_sense(key, own)
        value = own if said else key.default if key.broker is None else layers.value(BROKER[key.broker])
        found = [] if key.broker is None else layers.synonyms(BROKER[key.broker])
        if said:
            found.insert(0, _said(name, own, Source.TOPIC))
        if value is not None:
            made.append(_entry(name, key, value, found))
    return made


def of_broker(layers: Layers, wanted: Iterable[str] | None = None) -> list[DescribeConfigsResourceResult]:
    """What can be changed while it runs, and what is said in its file and cannot."""
    made = []
    for name in sorted({*BROKER, *layers.file}):
        if wanted is not None and name not in wanted:
            continue
        if name in BROKER:
            value = layers.value(BROKER[name])
            if name in _COARSER and not layers.says(name):
                made.append(_entry(name, BROKER[name], None, []))
            elif value is not None:
                made.append(_entry(name, BROKER[name], value, layers.synonyms(BROKER[name])))
        else:
            setting = layers.file[name]
            found = [_said(name, setting.text, Source.FILE)] if setting.said else []
            if setting.usual is not None:
                found.append(_said(name, setting.usual, Source.USUAL))
            hidden = is_secret(name) or (setting.said and setting.text is None)
            entry = _entry(name, Key(name, "string", None, ""), setting.text, found)
            made.append(evolve(entry, read_only=True, is_sensitive=hidden))
    return made


def of_all_brokers(
    values: Mapping[str, str], wanted: Iterable[str] | None = None
) -> list[DescribeConfigsResourceResult]:
    """Only what is configured: what else holds is each broker's own."""
    return [
        _entry(name, BROKER.get(name) or Key(name, "string", None, ""), text, [_said(name, text, Source.ALL_BROKERS)])
        for name, text in sorted(values.items())
        if wanted is None or name in wanted
    ]


def _entry(
    name: str, key: Key, value: str | None, synonyms: list[DescribeConfigsSynonym]
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=None if is_secret(name) else value,
        is_sensitive=is_secret(name),
        config_source=synonyms[0].source if synonyms else int(Source.USUAL),
        synonyms=synonyms,
        config_type=KINDS[key.kind],
        documentation=key.about or None,
    )


def _said(name: str, text: str | None, source: Source) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=None if is_secret(name) else text, source=int(source))


def _makes_sense(key: Key, text: str) -> bool:
    """Where it does not, brokers go by what comes next."""
    try:
        key.value(text)
    except ConfigError:
        return False
    return True
