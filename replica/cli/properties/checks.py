"""Checks of directories, of the store's address, and of keys that must be consistent with each other."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from replica.cli.properties.properties_source import PropertiesSource
from replica.core.partitions.log_config import LogConfig
from zab.client.hosts import parse_hosts
from zab.core.errors import ConfigError

LOG_DIRS: Final = "/tmp/kafka-logs"
_STORE: Final = "zookeeper.connect"


def of_letters(path: Path, raw: bytes) -> tuple[str, ...]:
    r"""Return a warning about non-ASCII letters, if any.

    Kafka reads Latin-1 and \uXXXX, but most editors write UTF-8. A file that is valid UTF-8 is read as UTF-8, because
    as Latin-1 each of its non-ASCII letters would be several wrong ones.
    """
    if raw.isascii():
        return ()
    first = next(number for number, line in enumerate(raw.splitlines(), start=1) if not line.isascii())
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return (
            f"{path}, line {first}: non-ASCII letters: the file is not UTF-8, so it is read as Latin-1, as Kafka does",
        )
    why = "non-ASCII letters: read as UTF-8, but Kafka reads Latin-1; \\uXXXX is unambiguous"
    return (f"{path}, line {first}: {why}",)


def log_dirs(source: PropertiesSource) -> tuple[Path, ...]:
    key = "log.dirs" if "log.dirs" in source or "log.dir" not in source else "log.dir"
    named = [one.strip() for one in source.text(key, LOG_DIRS).split(",") if one.strip()]
    if not named:
        source.problem(key, "expected a directory, or several, separated by commas")
    seen: dict[Path, str] = {}
    for one in named:
        place = Path(one).resolve()
        if place in seen:
            subject = one if seen[place] == one else f"{one}, which is {seen[place]},"
            source.problem(key, f"{subject} is listed twice: remove one")
        elif place.exists() and not place.is_dir():
            source.problem(key, f"{one} is not a directory")
        seen.setdefault(place, one)
    return tuple(map(Path, named))


def store(source: PropertiesSource) -> str:
    """Return the connection string of the store, and record a problem if it is missing or malformed."""
    value = source.text(_STORE)
    if not value:
        source.problem(_STORE, "required: the servers of the store, such as host1:2181,host2:2181/path")
        return value
    try:
        parse_hosts(value)
    except ConfigError as error:
        why = str(error).removeprefix(f"{value!r}: ")
        source.problem(_STORE, f"{why}; expected host1:2181,host2:2181, optionally with a /path at the end")
    return value


def together(source: PropertiesSource, log: LogConfig) -> None:
    """Record a problem for keys that are valid alone but inconsistent together, and a warning for questionable ones."""
    _number(source)
    _at_most(source, "group.min.session.timeout.ms", 6_000, "group.max.session.timeout.ms", 1_800_000)
    _at_most(source, "replica.fetch.wait.max.ms", 500, "replica.lag.time.max.ms", 30_000)
    _at_most(source, "replica.fetch.wait.max.ms", 500, "replica.socket.timeout.ms", 30_000)
    if "queued.max.request.bytes" in source:
        _at_most(source, "socket.request.max.bytes", 104_857_600, "queued.max.request.bytes", 536_870_912)
    _advise(source, log)


def _number(source: PropertiesSource) -> None:
    number, most = source.value("broker.id", -1), source.value("reserved.broker.max.id", 1_000)
    generated = source.value("broker.id.generation.enable", True)
    if source.is_wrong("broker.id"):
        return
    if not generated and number < 0:
        source.problem(
            "broker.id",
            "required, since broker.id.generation.enable=false: set a different number for each broker",
        )
    elif generated and number > most:
        source.problem(
            "broker.id",
            f"the store assigns numbers above {most}: use one from 0 to {most}, increase "
            "reserved.broker.max.id, or set broker.id.generation.enable=false",
        )


def _at_most(source: PropertiesSource, least: str, least_by_default: int, most: str, most_by_default: int) -> None:
    low, high = source.value(least, least_by_default), source.value(most, most_by_default)
    if source.is_wrong(least) or source.is_wrong(most) or high is None or low <= high:
        return
    key, other = (least, f"{most}={high}") if least in source else (most, f"{least}={low}")
    by_default = "" if most in source and least in source else ", which is the default"
    relation = "more" if key == least else "less"
    source.problem(key, f"{relation} than {other}{by_default}; {least} must be at most {most}")


def _advise(source: PropertiesSource, log: LogConfig) -> None:
    copies, insync = source.value("default.replication.factor", 1), log.min_insync_replicas
    if "default.replication.factor" not in source:
        source.warnings.append(
            "default.replication.factor is 1: by default a partition is on one broker, and its records are lost with it"
        )
    if insync > copies:
        source.warn(
            "min.insync.replicas",
            f"more than default.replication.factor, which is {copies}: a topic with fewer replicas requires all of "
            "them for acks=all",
        )
    elif insync == copies > 1:
        source.warn(
            "min.insync.replicas",
            "equal to default.replication.factor, so acks=all is rejected while any replica is out of sync",
        )
    for key, most, why in (
        ("log.segment.bytes", log.segment_bytes, "a batch larger than a segment is rejected"),
        (
            "socket.request.max.bytes",
            source.value("socket.request.max.bytes", 104_857_600),
            "a request with a batch of that size is rejected",
        ),
    ):
        if key in source and not source.is_wrong(key) and most < log.max_message_bytes:
            source.warn(key, f"less than message.max.bytes, which is {log.max_message_bytes}: {why}")
