"""The keys of dynamic configurations of topics, brokers, clients, users and IP addresses.

Values are text in the store. Each row defines a key's type, its limits, its default, and the broker key that sets the
default of a topic key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, TypeAlias

from attrs import frozen

from kraft_controller.core.configuration.start_keys import is_start_key
from kraft_controller.core.names import decimal

Value: TypeAlias = bool | int | float | str | tuple[str, ...]

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
DEFAULT: Final = "<default>"
CUSTOM: Final = "custom"
"""The type of an unknown broker key. Its value may be any text."""
_LIKENESS_MIN: Final = 0.8
"""The minimum similarity at which a known key is suggested for an unknown one."""
_NAME_CHARS_MAX: Final = 100
"""The maximum number of characters of an unknown name that are compared with known names."""


class ConfigError(ValueError):
    """An invalid configuration, for example with an unknown key. The message names the key and the problem."""

    def __init__(self, message: str, wanted: str = "") -> None:
        super().__init__(message)
        self.wanted = wanted
        """A description of the values that the key accepts, or an empty text."""


@frozen
class Key:
    name: str
    kind: str
    """boolean, int, long, double, string, list, or `CUSTOM`."""
    default: str | None
    about: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    broker: str | None = None
    """The broker key that sets the default of this topic key; None if there is none."""
    words: str = ""
    """A pattern for each item of a list."""
    idle: str = ""
    """The reason why the key has no effect in this broker; empty for a key with an effect. A key without effect is
    accepted, so that tools that set it keep working."""

    def value(self, text: str) -> Value:
        text = text.strip()
        match self.kind:
            case "boolean":
                if text.lower() not in ("true", "false"):
                    raise self._wrong(text, "true or false")
                return text.lower() == "true"
            case "int" | "long" | "double":
                return self._number(text)
            case "list":
                words = tuple(word.strip() for word in text.split(",") if word.strip() or self.choices) if text else ()
                for word in words:
                    self._choice(word, text)
                    if self.words and not re.fullmatch(self.words, word):
                        raise self._wrong(text, "* or pairs such as 0:1,0:2 (partition 0 at brokers 1 and 2)")
                return words
            case _:
                self._choice(text, text)
                return text

    def _number(self, text: str) -> int | float:
        whole = self.kind != "double"
        bound = {"int": INT_MAX, "long": LONG_MAX}.get(self.kind)
        least = self.least if self.least is not None else None if bound is None else -bound - 1
        most = self.most if self.most is not None else bound
        wanted = f"a {'whole ' if whole else ''}number"
        try:
            number = int(text) if whole else float(text)
        except ValueError:  # also raised if the text has more digits than `int` converts
            too_large = most is not None and whole and text.lstrip("+").isdecimal()
            raise self._wrong(text, wanted + _span(least, most, too_large=too_large)) from None
        too_large = most is not None and number > most
        if too_large or not (least is None or number >= least):
            raise self._wrong(text, wanted + _span(least, most, too_large=too_large))
        return number

    def _choice(self, word: str, text: str) -> None:
        if self.choices and word not in self.choices:
            raise self._wrong(text, f"one of {', '.join(self.choices)}")

    def _wrong(self, text: str, wanted: str) -> ConfigError:
        return ConfigError(f"{self.name}={text}: expected {wanted}", wanted)


def _span(least: float | None, most: float | None, *, too_large: bool) -> str:
    """Describe the limits. An upper limit that is only the maximum of the type is left out, unless the given number
    exceeds it."""
    if least is None and most is None:
        return ""
    if most is None or (most in (INT_MAX, LONG_MAX) and not too_large):
        return f", {least} or more" if least is not None else ""
    return f" from {least} to {most}"


_DAY_MS: Final = 24 * 3_600_000
_REPLICAS: Final = r"\*|none|\d{1,10}:\d{1,10}"
ONE_FORMAT: Final = "only the current record format is supported"
NO_CLEANER_BUFFERS: Final = "the cleaner limits the number of keys of one round, not the bytes of its buffers"
NO_THREADS: Final = "this broker has no such thread pool"
NO_KERBEROS: Final = "PLAIN and SCRAM are the only supported mechanisms of SASL"

TOPIC: Final[Mapping[str, Key]] = {key.name: key for key in (
    Key("cleanup.policy", "list", "delete",
        "delete: old records are deleted; compact: the last record of each key is kept",
        choices=("delete", "compact"), broker="log.cleanup.policy"),
    Key("compression.type", "string", "producer", "how stored records are compressed",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"), broker="compression.type"),
    Key("delete.retention.ms", "long", str(_DAY_MS), "how long a compacted log keeps tombstones", 0,
        broker="log.cleaner.delete.retention.ms"),
    Key("file.delete.delay.ms", "long", "60000", "delay before the files of deleted segments are removed", 0,
        broker="log.segment.delete.delay.ms"),
    Key("flush.messages", "long", str(LONG_MAX), "number of unsynced records at which a log is synced to disk", 1,
        broker="log.flush.interval.messages"),
    Key("flush.ms", "long", str(LONG_MAX), "time after which unsynced records are synced to disk", 0,
        broker="log.flush.interval.ms"),
    Key("follower.replication.throttled.replicas", "list", "",
        "replicas throttled while they follow: partition:broker pairs; *: all", words=_REPLICAS),
    Key("index.interval.bytes", "int", "4096", "bytes of records between two index entries", 0,
        broker="log.index.interval.bytes"),
    Key("leader.replication.throttled.replicas", "list", "",
        "replicas throttled while they lead: partition:broker pairs; *: all", words=_REPLICAS),
    Key("max.compaction.lag.ms", "long", str(LONG_MAX),
        "age at which records are compacted whatever the dirty ratio", 1,
        broker="log.cleaner.max.compaction.lag.ms"),
    Key("max.message.bytes", "int", "1048588", "largest batch", 0, broker="message.max.bytes"),
    Key("message.downconversion.enable", "boolean", "true", "convert records for old clients",
        broker="log.message.downconversion.enable", idle=ONE_FORMAT),
    Key("message.format.version", "string", "3.0-IV1", "format of stored records",
        broker="log.message.format.version", idle=ONE_FORMAT),
    Key("message.timestamp.after.max.ms", "long", "3600000", "how far in the future a timestamp may be", 0,
        broker="log.message.timestamp.after.max.ms"),
    Key("message.timestamp.before.max.ms", "long", str(LONG_MAX), "how far in the past a timestamp may be", 0,
        broker="log.message.timestamp.before.max.ms"),
    Key("message.timestamp.difference.max.ms", "long", str(LONG_MAX), "how far a timestamp may be from now", 0,
        broker="log.message.timestamp.difference.max.ms",
        idle="message.timestamp.before.max.ms and message.timestamp.after.max.ms replace it"),
    Key("message.timestamp.type", "string", "CreateTime",
        "the clock of timestamps: the client's (CreateTime) or the broker's (LogAppendTime)",
        choices=("CreateTime", "LogAppendTime"), broker="log.message.timestamp.type"),
    Key("min.cleanable.dirty.ratio", "double", "0.5", "fraction of uncompacted bytes that triggers compaction", 0, 1,
        broker="log.cleaner.min.cleanable.ratio"),
    Key("min.compaction.lag.ms", "long", "0", "age below which a record is not compacted", 0,
        broker="log.cleaner.min.compaction.lag.ms"),
    Key("min.insync.replicas", "int", "1", "in-sync replicas that acks=all requires", 1,
        broker="min.insync.replicas"),
    Key("preallocate", "boolean", "false", "allocate segment files in advance",
        broker="log.preallocate", idle="segment files grow as records are appended"),
    Key("retention.bytes", "long", "-1", "bytes kept for each partition; -1: unlimited", -1,
        broker="log.retention.bytes"),
    Key("retention.ms", "long", str(7 * _DAY_MS), "how long records are kept; -1: without a time limit", -1,
        broker="log.retention.ms"),
    Key("segment.bytes", "int", str(1 << 30), "maximum size of a segment file", 14, broker="log.segment.bytes"),
    Key("segment.index.bytes", "int", str(10 << 20), "maximum size of an index file", 24,
        broker="log.index.size.max.bytes"),
    Key("segment.jitter.ms", "long", "0", "limit of the random time subtracted from segment.ms", 0,
        broker="log.roll.jitter.ms"),
    Key("segment.ms", "long", str(7 * _DAY_MS), "age of a segment at which a new one is started", 1,
        broker="log.roll.ms"),
    Key("unclean.leader.election.enable", "boolean", "false", "elect from outside the ISR if no ISR member is live",
        broker="unclean.leader.election.enable"),
)}  # fmt: skip

_OF_TOPICS: Final = {
    key.broker: Key(key.broker, key.kind, key.default, f"{key.name} for topics that do not set it",
                    key.least, key.most, key.choices, idle=key.idle)
    for key in TOPIC.values() if key.broker is not None
}  # fmt: skip

BROKER: Final[Mapping[str, Key]] = dict(sorted({**_OF_TOPICS, **{key.name: key for key in (
    Key("leader.replication.throttled.rate", "long", None,
        "bytes a second that followers outside the ISR may fetch from throttled leaders", 0),
    Key("follower.replication.throttled.rate", "long", None, "bytes a second that throttled followers may fetch", 0),
    Key("log.cleaner.enable", "boolean", "true", "compact logs"),
    Key("log.cleaner.backoff.ms", "long", "15000", "pause after a search that finds no log to compact", 0),
    Key("log.cleaner.threads", "int", "1", "cleaner threads", 1, idle="there is one cleaner thread"),
    Key("log.cleaner.dedupe.buffer.size", "long", "134217728", "memory of the cleaner's dedupe buffer", (1 << 20) + 1,
        idle=NO_CLEANER_BUFFERS),
    Key("log.cleaner.io.buffer.size", "int", "524288", "memory of the cleaner's I/O buffers", 0,
        idle=NO_CLEANER_BUFFERS),
    Key("log.cleaner.io.buffer.load.factor", "double", "0.9", "load factor of the cleaner's dedupe buffer",
        idle=NO_CLEANER_BUFFERS),
    Key("log.cleaner.io.max.bytes.per.second", "double", "1.7976931348623157E308",
        "bytes a second that the cleaner may read and write",
        idle="cleaning is not throttled"),
    Key("max.connection.creation.rate", "int", str(INT_MAX), "new connections a second", 0,
        idle="only the number of connections is limited, not their rate"),
    Key("max.connections.per.ip.overrides", "string", "", "limits for single addresses",
        idle="max.connections.per.ip applies to every address"),
    Key("background.threads", "int", "10", "threads", 1, idle=NO_THREADS),
    Key("num.io.threads", "int", "8", "threads", 1, idle=NO_THREADS),
    Key("num.network.threads", "int", "3", "threads", 1, idle=NO_THREADS),
    Key("num.recovery.threads.per.data.dir", "int", "1", "threads", 1, idle="logs are loaded one after the other"),
    Key("sasl.kerberos.kinit.cmd", "string", "/usr/bin/kinit", "a command of Kerberos", idle=NO_KERBEROS),
    Key("sasl.kerberos.min.time.before.relogin", "long", "60000", "minimum ms between two logins with Kerberos",
        idle=NO_KERBEROS),
    Key("sasl.kerberos.principal.to.local.rules", "string", "DEFAULT", "rules for Kerberos principals",
        idle=NO_KERBEROS),
    Key("sasl.kerberos.service.name", "string", None, "the Kerberos principal name of the broker", idle=NO_KERBEROS),
    Key("sasl.kerberos.ticket.renew.jitter", "double", "0.05", "random part of the renewal time of Kerberos tickets",
        idle=NO_KERBEROS),
    Key("sasl.kerberos.ticket.renew.window.factor", "double", "0.8",
        "fraction of a Kerberos ticket's lifetime after which it is renewed",
        idle=NO_KERBEROS),
    Key("max.connections", "int", "10000", "concurrent connections of one listener", 1),
    Key("max.connections.per.ip", "int", str(INT_MAX), "connections from one address to one listener", 1),
    Key("num.replica.fetchers", "int", "1", "connections to each leader", 1,
        idle="there is one connection to each leader"),
)}}.items()))  # fmt: skip

CLIENT: Final[Mapping[str, Key]] = {key.name: key for key in (
    Key("producer_byte_rate", "long", None, "bytes a second a client may produce", 1),
    Key("consumer_byte_rate", "long", None, "bytes a second a client may fetch", 1),
    Key("request_percentage", "double", None, "percentage of a broker's time that a client's requests may take", 0,
        idle="request time is not measured"),
    Key("controller_mutation_rate", "double", None, "partitions a second that a client may create or delete", 0,
        idle="topic creation and deletion are not throttled"),
)}  # fmt: skip

USER: Final[Mapping[str, Key]] = {**CLIENT, **{
    name: Key(name, "string", None, "SCRAM credential: [password=...] or [iterations=8192,password=...]")
    for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
}}  # fmt: skip

IPS: Final[Mapping[str, Key]] = {
    "connection_creation_rate": Key("connection_creation_rate", "int", None, "connections a second", 0,
                                    idle="only the number of connections is limited: max.connections.per.ip"),
}  # fmt: skip

KEYS: Final[Mapping[str, Mapping[str, Key]]] = {
    "topics": TOPIC, "brokers": BROKER, "clients": CLIENT, "users": USER, "ips": IPS,
}  # fmt: skip
"""The keys of each type of entity. The types are named as in the store."""


def check(kind: str, values: Mapping[str, str]) -> None:
    """Check each value. Raise `ConfigError` for an invalid value, and for a key that `key_of` does not accept."""
    for name, text in values.items():
        key_of(kind, name).value(text)


def check_together(kind: str, values: Mapping[str, str]) -> None:
    """Check constraints between keys of one configuration. Raise `ConfigError` if they are violated."""
    keys = ("min.compaction.lag.ms", "max.compaction.lag.ms")
    if kind == "topics" and set(keys) <= set(values):
        least, most = (int(values[key]) for key in keys)
        if least > most:
            raise ConfigError(f"{keys[0]}={least} must not be above {keys[1]}={most}")


def key_of(kind: str, name: str) -> Key:
    """Return the definition of a key. Raise `ConfigError` if the key is unknown, or is a static key of brokers.

    An unknown key of brokers has a definition without effect instead, because Kafka's brokers accept such keys for
    plugins.
    """
    keys = KEYS[kind]
    if name in keys:
        return keys[name]
    if kind == "brokers" and is_start_key(name):
        todo = "Set them in the broker's file, and restart the broker"
        raise ConfigError(f"Cannot update these configs dynamically: {name}. {todo}")
    unknown = f"{kind} have no such key{_near(kind, name)}"
    if kind == "brokers":
        return Key(name, CUSTOM, None, "", idle=unknown)
    raise ConfigError(f"{name}: {unknown}")


def _near(kind: str, name: str) -> str:
    if kind == "brokers" and name in TOPIC and TOPIC[name].broker is not None:
        return f"; did you mean {TOPIC[name].broker}?"
    close = get_close_matches(name[:_NAME_CHARS_MAX].lower(), KEYS[kind], n=1, cutoff=_LIKENESS_MIN)
    return f"; did you mean {close[0]}?" if close else ""


def values_of(
    kind: str, configs: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Return the effective value of every key that has one, and the errors.

    An invalid value is replaced by the default, because a broker must not stop for a mistyped number. `defaults`
    override those of the table.
    """
    found: dict[str, Value] = {}
    wrong = [f"{name}: {kind} have no such key" for name in configs if name not in KEYS[kind]]
    for key in KEYS[kind].values():
        for text in (configs.get(key.name), (defaults or {}).get(key.name), key.default):
            if text is None:
                continue
            try:
                found[key.name] = key.value(text)
                break
            except ConfigError as error:
                wrong.append(str(error))
    return found, tuple(wrong)


# -- throttled replicas --------------------------------------------------------------------------------------


def throttled(replicas: Iterable[tuple[int, int]]) -> str:
    """Format throttled replicas as `0:1,0:2`, pairs of partition and broker."""
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(replicas))


def read_throttled(text: str) -> frozenset[tuple[int, int]] | None:
    """Parse throttled replicas. `*` means all and is returned as None. Malformed items are ignored."""
    words = [word.strip() for word in text.split(",")]
    if "*" in words:
        return None
    pairs = (tuple(map(decimal, word.split(":"))) for word in words if word.count(":") == 1)
    return frozenset((pair[0], pair[1]) for pair in pairs if pair[0] is not None and pair[1] is not None)
