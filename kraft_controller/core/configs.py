"""What can be configured while brokers run: for a topic, for brokers, for clients and users. One row for each key.

Everything is text in the store. A row says what the text must look like, what it is when nothing is said, and which
key of the brokers' properties says it for topics that say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from attrs import frozen

from kraft_controller.core.names import decimal

Value: TypeAlias = bool | int | float | str | tuple[str, ...]

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
DEFAULT: Final = "<default>"


class ConfigError(ValueError):
    """A key that is none, or a value that is none of the key's. Says which."""


@frozen
class Key:
    name: str
    kind: str
    """boolean, int, long, double, string or list."""
    default: str | None
    about: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    broker: str | None = None
    """In the brokers' properties."""
    words: str = ""
    """What each word of a list looks like."""
    idle: str = ""
    """Why it has no effect at brokers of ours. It is kept, so that tools that set it go on."""

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
                        raise self._wrong(text, "*, or like 0:1,0:2 (partition 0 at brokers 1 and 2)")
                return words
            case _:
                self._choice(text, text)
                return text

    def _number(self, text: str) -> int | float:
        whole = self.kind != "double"
        bound = {"int": INT_MAX, "long": LONG_MAX}.get(self.kind)
        least = self.least if self.least is not None else None if bound is None else -bound - 1
        most = self.most if self.most is not None else bound
        wanted = f"a {'whole ' if whole else ''}number{_span(least, most)}"
        try:
            number = int(text) if whole else float(text)
        except ValueError:
            raise self._wrong(text, wanted) from None
        if not (least is None or number >= least) or not (most is None or number <= most):
            raise self._wrong(text, wanted)
        return number

    def _choice(self, word: str, text: str) -> None:
        if self.choices and word not in self.choices:
            raise self._wrong(text, f"one of {', '.join(self.choices)}")

    def _wrong(self, text: str, wanted: str) -> ConfigError:
        return ConfigError(f"{self.name}={text}: it is {wanted}")


def _span(least: float | None, most: float | None) -> str:
    if least is None and most is None:
        return ""
    if most in (None, INT_MAX, LONG_MAX):
        return f", {least} or more" if least is not None else ""
    return f" from {least} to {most}"


_DAY_MS: Final = 24 * 3_600_000
_REPLICAS: Final = r"\*|none|\d{1,10}:\d{1,10}"
_ONE_FORMAT: Final = "only the record batches of today are spoken"
_NO_CLEANER_BUFFERS: Final = "what a round of cleaning remembers is bounded by the number of keys"
_NO_THREADS: Final = "one event loop does it; there are no such threads"
_NO_KERBEROS: Final = "the mechanisms of SASL are PLAIN and SCRAM"

TOPIC: Final[Mapping[str, Key]] = {key.name: key for key in (
    Key("cleanup.policy", "list", "delete", "what becomes of old records", choices=("delete", "compact"),
        broker="log.cleanup.policy"),
    Key("compression.type", "string", "producer", "how records are stored",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"), broker="compression.type"),
    Key("delete.retention.ms", "long", str(_DAY_MS), "how long a compacted log keeps the marks of deletions", 0,
        broker="log.cleaner.delete.retention.ms"),
    Key("file.delete.delay.ms", "long", "60000", "until files that are not needed any more are erased", 0,
        broker="log.segment.delete.delay.ms"),
    Key("flush.messages", "long", str(LONG_MAX), "records after which the disk is waited for", 1,
        broker="log.flush.interval.messages"),
    Key("flush.ms", "long", str(LONG_MAX), "time after which the disk is waited for", 0,
        broker="log.flush.interval.ms"),
    Key("follower.replication.throttled.replicas", "list", "", "replicas that fetch no faster than the rate",
        words=_REPLICAS),
    Key("index.interval.bytes", "int", "4096", "of records between two entries of an index", 0,
        broker="log.index.interval.bytes"),
    Key("leader.replication.throttled.replicas", "list", "", "replicas that are fetched from no faster than the rate",
        words=_REPLICAS),
    Key("max.compaction.lag.ms", "long", str(LONG_MAX), "a record is compacted after at most so long", 1,
        broker="log.cleaner.max.compaction.lag.ms"),
    Key("max.message.bytes", "int", "1048588", "of a batch", 0, broker="message.max.bytes"),
    Key("message.downconversion.enable", "boolean", "true", "records are rewritten for clients of old",
        broker="log.message.downconversion.enable", idle=_ONE_FORMAT),
    Key("message.format.version", "string", "3.0-IV1", "how records are written",
        broker="log.message.format.version", idle=_ONE_FORMAT),
    Key("message.timestamp.after.max.ms", "long", "3600000", "how far in the future a record may say it is", 0,
        broker="log.message.timestamp.after.max.ms"),
    Key("message.timestamp.before.max.ms", "long", str(LONG_MAX), "how far in the past", 0,
        broker="log.message.timestamp.before.max.ms"),
    Key("message.timestamp.difference.max.ms", "long", str(LONG_MAX), "how far off a record's time may be", 0,
        broker="log.message.timestamp.difference.max.ms",
        idle="message.timestamp.before.max.ms and message.timestamp.after.max.ms have taken its place"),
    Key("message.timestamp.type", "string", "CreateTime", "whose clock stamps records",
        choices=("CreateTime", "LogAppendTime"), broker="log.message.timestamp.type"),
    Key("min.cleanable.dirty.ratio", "double", "0.5", "of a log before it is compacted", 0, 1,
        broker="log.cleaner.min.cleanable.ratio"),
    Key("min.compaction.lag.ms", "long", "0", "a record is not compacted for so long", 0,
        broker="log.cleaner.min.compaction.lag.ms"),
    Key("min.insync.replicas", "int", "1", "without so many in sync, acks=all is refused", 1,
        broker="min.insync.replicas"),
    Key("preallocate", "boolean", "false", "a segment's file has its size from the beginning",
        broker="log.preallocate"),
    Key("retention.bytes", "long", "-1", "of a partition; -1: any number", -1, broker="log.retention.bytes"),
    Key("retention.ms", "long", str(7 * _DAY_MS), "how long records are kept; -1: for ever", -1,
        broker="log.retention.ms"),
    Key("segment.bytes", "int", str(1 << 30), "of one file of a log", 14, broker="log.segment.bytes"),
    Key("segment.index.bytes", "int", str(10 << 20), "of the index of a segment", 24,
        broker="log.index.size.max.bytes"),
    Key("segment.jitter.ms", "long", "0", "so much is taken from segment.ms by lot", 0, broker="log.roll.jitter.ms"),
    Key("segment.ms", "long", str(7 * _DAY_MS), "after which a new file is begun", 1, broker="log.roll.ms"),
    Key("unclean.leader.election.enable", "boolean", "false", "who was not in sync may lead when nobody else is left",
        broker="unclean.leader.election.enable"),
)}  # fmt: skip

_OF_TOPICS: Final = {
    key.broker: Key(key.broker, key.kind, key.default, f"{key.name} of topics that do not say it",
                    key.least, key.most, key.choices, idle=key.idle)
    for key in TOPIC.values() if key.broker is not None
}  # fmt: skip

BROKER: Final[Mapping[str, Key]] = dict(sorted({**_OF_TOPICS, **{key.name: key for key in (
    Key("leader.replication.throttled.rate", "long", None, "bytes a second that throttled replicas are sent", 0),
    Key("follower.replication.throttled.rate", "long", None, "bytes a second that throttled replicas fetch", 0),
    Key("log.cleaner.enable", "boolean", "true", "logs that are to be compacted are"),
    Key("log.cleaner.backoff.ms", "long", "15000", "between two looks for logs that are to be compacted", 0),
    Key("log.cleaner.threads", "int", "1", "that compact", 1, idle="there is one"),
    Key("log.cleaner.dedupe.buffer.size", "long", "134217728", "memory of the cleaner", (1 << 20) + 1,
        idle=_NO_CLEANER_BUFFERS),
    Key("log.cleaner.io.buffer.size", "int", "524288", "memory of the cleaner", 0, idle=_NO_CLEANER_BUFFERS),
    Key("log.cleaner.io.buffer.load.factor", "double", "0.9", "how full the cleaner's memory may be",
        idle=_NO_CLEANER_BUFFERS),
    Key("log.cleaner.io.max.bytes.per.second", "double", "1.7976931348623157E308", "that the cleaner reads and writes",
        idle="cleaning goes as fast as the disk does"),
    Key("max.connection.creation.rate", "int", str(INT_MAX), "connections a second, of one listener", 0,
        idle="connections are counted, not their rate"),
    Key("max.connections.per.ip.overrides", "string", "", "other numbers for single addresses",
        idle="max.connections.per.ip counts for every address"),
    Key("background.threads", "int", "10", "threads", 1, idle=_NO_THREADS),
    Key("num.io.threads", "int", "8", "threads", 1, idle=_NO_THREADS),
    Key("num.network.threads", "int", "3", "threads", 1, idle=_NO_THREADS),
    Key("num.recovery.threads.per.data.dir", "int", "1", "threads", 1, idle=_NO_THREADS),
    Key("sasl.kerberos.kinit.cmd", "string", "/usr/bin/kinit", "a command of Kerberos", idle=_NO_KERBEROS),
    Key("sasl.kerberos.min.time.before.relogin", "long", "60000", "between two logins with Kerberos",
        idle=_NO_KERBEROS),
    Key("sasl.kerberos.principal.to.local.rules", "string", "DEFAULT", "who a Kerberos principal is",
        idle=_NO_KERBEROS),
    Key("sasl.kerberos.service.name", "string", None, "this broker's name in Kerberos", idle=_NO_KERBEROS),
    Key("sasl.kerberos.ticket.renew.jitter", "double", "0.05", "when tickets of Kerberos are renewed",
        idle=_NO_KERBEROS),
    Key("sasl.kerberos.ticket.renew.window.factor", "double", "0.8", "when tickets of Kerberos are renewed",
        idle=_NO_KERBEROS),
    Key("max.connections", "int", "10000", "of clients, at the same time, of one listener", 1),
    Key("max.connections.per.ip", "int", str(INT_MAX), "of clients at one address, of one listener", 1),
    Key("num.replica.fetchers", "int", "1", "connections to each broker that is followed", 1, idle="there is one"),
)}}.items()))  # fmt: skip

CLIENT: Final[Mapping[str, Key]] = {key.name: key for key in (
    Key("producer_byte_rate", "long", None, "bytes a second that may be produced", 1),
    Key("consumer_byte_rate", "long", None, "bytes a second that may be fetched", 1),
    Key("request_percentage", "double", None, "of a broker's time that requests may take", 0,
        idle="one loop serves all; what a request takes of it is not counted"),
    Key("controller_mutation_rate", "double", None, "partitions a second that may be made or deleted", 0,
        idle="making and deleting topics is not counted"),
)}  # fmt: skip

USER: Final[Mapping[str, Key]] = {**CLIENT, **{
    name: Key(name, "string", None, "what is kept of a password: [password=...], or [iterations=8192,password=...]")
    for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
}}  # fmt: skip

KEYS: Final[Mapping[str, Mapping[str, Key]]] = {
    "topics": TOPIC, "brokers": BROKER, "clients": CLIENT, "users": USER,
    "ips": {"connection_creation_rate": Key("connection_creation_rate", "int", None, "connections a second", 0,
                                            idle="connections are counted, not their rate: max.connections.per.ip")},
}  # fmt: skip
"""By the kind of entity, as the store calls it."""


def check(kind: str, values: Mapping[str, str]) -> None:
    """`ConfigError` for what cannot be configured so."""
    for name, text in values.items():
        key_of(kind, name).value(text)


def check_together(kind: str, values: Mapping[str, str]) -> None:
    """Of all that is configured: whether one key stands in the way of another."""
    keys = ("min.compaction.lag.ms", "max.compaction.lag.ms")
    if kind == "topics" and set(keys) <= set(values):
        least, most = (int(values[key]) for key in keys)
        if least > most:
            raise ConfigError(f"{keys[0]}={least} must not be above {keys[1]}={most}")


def key_of(kind: str, name: str) -> Key:
    keys = KEYS[kind]
    if name not in keys:
        close = [known for known in keys if known.replace(".", "").replace("_", "") == _bare(name)]
        if kind == "brokers" and name in TOPIC and TOPIC[name].broker in keys:
            close.append(str(TOPIC[name].broker))
        hint = f"; is it {close[0]}?" if close else ""
        raise ConfigError(f"{name}: {kind} have no such configuration{hint}")
    return keys[name]


def _bare(name: str) -> str:
    return name.replace(".", "").replace("_", "").replace("-", "").lower()


def values_of(
    kind: str, said: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Every key that has a value: as said, or as by default. And what is wrong with some of what was said.

    What is wrong counts as not said: a broker that stopped because somebody mistyped a number would help nobody.
    `defaults` go before those of the table.
    """
    found: dict[str, Value] = {}
    wrong = [f"{name}: {kind} have no such configuration" for name in said if name not in KEYS[kind]]
    for key in KEYS[kind].values():
        for text in (said.get(key.name), (defaults or {}).get(key.name), key.default):
            if text is None:
                continue
            try:
                found[key.name] = key.value(text)
                break
            except ConfigError as error:
                wrong.append(str(error))
    return found, tuple(wrong)


# -- replicas that are throttled ---------------------------------------------------------------------------


def throttled(replicas: Iterable[tuple[int, int]]) -> str:
    """`0:1,0:2`: partition and broker."""
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(replicas))


def read_throttled(text: str) -> frozenset[tuple[int, int]] | None:
    """None: all of them, written `*`. What is no such pair is passed over."""
    words = [word.strip() for word in text.split(",")]
    if "*" in words:
        return None
    pairs = (tuple(map(decimal, word.split(":"))) for word in words if word.count(":") == 1)
    return frozenset((pair[0], pair[1]) for pair in pairs if pair[0] is not None and pair[1] is not None)
