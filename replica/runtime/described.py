"""What is configured, and who said it: for a client that asks, key by key, the first that counts before the others.

topic > this broker > all brokers > the file that this broker was started with > what is usual
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from attrs import frozen

from kraft_controller.core.configs import BROKER, TOPIC, ConfigError, Key
from replica.runtime.requests import Body
from replica.storage.config import LogConfig
from zab.core.secrets import is_secret


class Source(IntEnum):
    """As Kafka's clients number them."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    USUAL = 5


KINDS: Final = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}
Said = Mapping[str, tuple[str | None, bool]]
"""By key of a broker: what holds since its start, and whether its file says so. None: a secret if so, else nothing."""


@frozen
class Layers:
    """mine   what is configured for this broker while it runs
    all    for all brokers
    file   what it was started with
    """

    mine: Mapping[str, str]
    all: Mapping[str, str]
    file: Said

    def of(self, key: Key) -> list[Body]:
        """What is said under a broker's key, the first that counts first."""
        found = []
        for source, values in ((Source.BROKER, self.mine), (Source.ALL_BROKERS, self.all)):
            if key.name in values and _makes_sense(key, values[key.name]):
                found.append(_said(key.name, values[key.name], source))
        text, said = self.file.get(key.name, (None, False))
        if said:
            found.append(_said(key.name, text, Source.FILE))
        usual = key.default if said or text is None else text
        if usual is not None:
            found.append(_said(key.name, usual, Source.USUAL))
        return found


def started_with(log: LogConfig, log_said: Iterable[str], more: Mapping[str, object], said: Said) -> Said:
    """`more`: what holds of other keys that can be changed; `said`: all keys of the file, as a person reads them."""
    texts, in_file = log.as_text(), set(log_said)
    made = dict(said)
    for name, key in TOPIC.items():
        if key.broker is not None:
            made[key.broker] = texts[name], name in in_file
    for broker_key, value in more.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        made[broker_key] = text, made.get(broker_key, ("", False))[1]
    return made


def of_topic(values: Mapping[str, str], layers: Layers, wanted: Iterable[str] | None = None) -> list[Body]:
    """Entries with all their synonyms; `wanted` None: all keys. A key that is not known here is shown as it stands."""
    keys = {name: TOPIC.get(name) or Key(name, "string", None, "") for name in (*TOPIC, *values)}
    made = []
    for name, key in sorted(keys.items()):
        if wanted is not None and name not in wanted:
            continue
        found = [_said(name, values[name], Source.TOPIC)] if name in values and _makes_sense(key, values[name]) else []
        if key.broker is not None:
            found += layers.of(BROKER[key.broker])
        elif key.default is not None:
            found.append(_said(name, key.default, Source.USUAL))
        if found:
            made.append(_entry(name, key, found))
    return made


def of_broker(layers: Layers, wanted: Iterable[str] | None = None) -> list[Body]:
    """What can be changed while it runs, and what is said in its file and cannot."""
    made = []
    for name in sorted({*BROKER, *layers.file}):
        if wanted is not None and name not in wanted:
            continue
        if name in BROKER:
            if found := layers.of(BROKER[name]):
                made.append(_entry(name, BROKER[name], found))
        else:
            text, said = layers.file[name]
            entry = _entry(
                name, Key(name, "string", None, ""), [_said(name, text, Source.FILE if said else Source.USUAL)]
            )
            made.append({**entry, "read_only": True, "is_sensitive": said and text is None})
    return made


def of_all_brokers(values: Mapping[str, str], wanted: Iterable[str] | None = None) -> list[Body]:
    """Only what is configured: what else holds is each broker's own."""
    return [
        _entry(name, BROKER.get(name) or Key(name, "string", None, ""), [_said(name, text, Source.ALL_BROKERS)])
        for name, text in sorted(values.items())
        if wanted is None or name in wanted
    ]


def _entry(name: str, key: Key, found: list[Body]) -> Body:
    first = found[0]
    return {
        "name": name,
        "value": first["value"],
        "is_sensitive": is_secret(name),
        "config_source": first["source"],
        "synonyms": found,
        "config_type": KINDS[key.kind],
        "documentation": key.about or None,
    }


def _said(name: str, text: str | None, source: Source) -> Body:
    return {"name": name, "value": None if is_secret(name) else text, "source": int(source)}


def _makes_sense(key: Key, text: str) -> bool:
    """Where it does not, brokers go by what comes next."""
    try:
        key.value(text)
    except ConfigError:
        return False
    return True
