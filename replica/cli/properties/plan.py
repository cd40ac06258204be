"""From the lines of a file to what a broker is told, with a word about everything that counts for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from kraft_controller.core.desk import Settings as ControllerSettings
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.controller import Pace
from kraft_controller.runtime.identity import known_id
from kraft_controller.runtime.leaving import LeaveSettings
from replica.cli.properties import security
from replica.cli.properties.keys import KEYS, SECTIONS
from replica.cli.properties.source import Misconfigured as Misconfigured
from replica.cli.properties.source import Source, is_secret
from replica.cli.properties.syntax import Entry, parse
from replica.core.errors import KafkaError
from replica.core.groups.desk import Settings as GroupSettings
from replica.core.settings import Settings as ReplicationSettings
from replica.runtime.config import CONTROLLER, EVERYWHERE, BrokerConfig, Listener, OffsetsTopicSettings
from replica.runtime.disk import DiskPace
from replica.runtime.settings import PortSettings
from replica.storage.config import LogConfig

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HOUR_MS: Final = 3_600_000
_IN_UNITS: Final = (
    ("retention.ms", (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", _HOUR_MS))),
    ("segment.ms", (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))),
)


@frozen
class Plan:
    """config     without its number where the file says none: see `reserved_max`
    warnings   keys that have no effect, and why
    """

    config: BrokerConfig
    warnings: tuple[str, ...] = ()
    reserved_max: int = 1_000


def plan_of(path: str, text: str, overrides: Mapping[str, str] | None = None) -> Plan:
    """`overrides` are said beside the file, and stand before it."""
    found: dict[str, Entry] = {}
    warnings = []
    for entry in parse(text):
        if entry.key in found:
            warnings.append(f"line {entry.line}: {entry.key} is said twice; this one counts")
        found[entry.key] = entry
    for key, value in (overrides or {}).items():
        found[key] = Entry(key, value, 0)
    source = Source(path, found)
    warnings += _without_effect(source)
    _authorizer(source)
    settings = _settings(source)
    log, said = _log(source)
    listeners, controller = _listeners(source)
    config = BrokerConfig(
        id=_id(source),
        log_dirs=_log_dirs(source),
        store=_store(source),
        listeners=listeners,
        controller=controller,
        inter_broker=_inter_broker(source, listeners),
        log=log,
        log_said=said,
        port=PortSettings(**settings["port"]),
        offsets=OffsetsTopicSettings(**settings["offsets"]),
        replication=ReplicationSettings(min_insync=log.min_insync_replicas, **settings["replication"]),
        disk=DiskPace(**settings["disk"]),
        groups=GroupSettings(**settings["groups"]),
        control=ControllerSettings(
            unclean_election=log.unclean_leader_election_enable,
            min_isr=log.min_insync_replicas,
            deletion=settings["config"].get("deletion", True),
            **settings["control"],
        ),
        pace=_pace(source, settings["pace"]),
        leaving=_leaving(source, settings["leaving"]),
        said=_said(source),
        **settings["config"],
    )
    if "default.replication.factor" not in found:
        warnings.append("default.replication.factor is 1: what is written to a topic is lost with its broker")
    return Plan(config, tuple(warnings), settings["plan"].get("reserved_max", 1_000))


def _without_effect(source: Source) -> list[str]:
    told = []
    names = _addresses(source, "listeners", source.text("listeners", "PLAINTEXT://:9092"))
    understood = security.check_sensitive(source, KEYS, names)
    for key, entry in source.entries.items():
        known = KEYS.get(key)
        if known is None and key not in understood:
            told.append(f"line {entry.line}: {key} is not known here and has no effect")
        elif known is not None and known.ignored and entry.value not in known.agreed:
            told.append(f"line {entry.line}: {key} has no effect: {known.does}")
    return told


def _settings(source: Source) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {
        group: {}
        for group in (
            "config",
            "port",
            "offsets",
            "groups",
            "control",
            "pace",
            "leaving",
            "replication",
            "disk",
            "plan",
        )
    }
    for key in source.entries:
        known = KEYS.get(key)
        if known is not None and known.sets and not known.sets.startswith("log."):
            group, _, name = known.sets.partition(".")
            try:
                made[group][name] = known.convert(source.text(key))
            except ValueError as error:
                raise source.wrong(key, error) from None
    return made


# -- what is read by hand --------------------------------------------------------------------------------


def _id(source: Source) -> BrokerId:
    try:
        return BrokerId(int(source.text("broker.id", "-1")))
    except ValueError:
        raise source.wrong("broker.id", "it is a whole number, another one for each broker") from None


def _log_dirs(source: Source) -> tuple[Path, ...]:
    key = "log.dirs" if "log.dirs" in source.entries else "log.dir"
    named = [one.strip() for one in source.text(key, "/tmp/kafka-logs").split(",") if one.strip()]
    if not named:
        raise source.wrong(key, "it names no directory")
    return tuple(map(Path, named))


def _store(source: Source) -> str:
    store = source.text("zookeeper.connect")
    if not store:
        raise source.wrong("zookeeper.connect", "it is missing: the servers of the store, as host:2181,host:2181")
    return store


def _leaving(source: Source, settings: dict[str, Any]) -> LeaveSettings | None:
    if source.text("controlled.shutdown.enable", "true").lower() == "false":
        return None
    return LeaveSettings(**settings)


def _pace(source: Source, settings: dict[str, Any]) -> Pace:
    if source.text("auto.leader.rebalance.enable", "true").lower() == "false":
        settings = {**settings, "balance_s": None}
    return Pace(**settings)


def _log(source: Source) -> tuple[LogConfig, frozenset[str]]:
    values: dict[str, str] = {}
    where: dict[str, str] = {}
    for key, entry in source.entries.items():
        known = KEYS.get(key)
        if known is not None and known.sets.startswith("log."):
            topic_key = known.sets.removeprefix("log.")
            values[topic_key], where[topic_key] = entry.value, key
    for topic_key, keys in (
        (
            "retention.ms",
            (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", _HOUR_MS)),
        ),
        ("segment.ms", (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))),
    ):
        for key, unit in keys:  # the finest counts
            if key in source.entries:
                try:
                    number = int(source.text(key))
                except ValueError:
                    raise source.wrong(key, "it is a whole number") from None
                values[topic_key], where[topic_key] = str(number * unit if number >= 0 else -1), key
                break
    try:
        return LogConfig.of(values), frozenset(values)
    except KafkaError as error:
        named = next((key for topic_key, key in where.items() if error.text.startswith(topic_key)), "log")
        raise source.wrong(named, error.text) from None


def _listeners(source: Source) -> tuple[tuple[Listener, ...], Listener]:
    protocols = _protocols(source)
    bound = _addresses(source, "listeners", source.text("listeners", "PLAINTEXT://:9092"))
    told = _addresses(source, "advertised.listeners", source.text("advertised.listeners"))
    made = []
    for name, (host, port) in bound.items():
        protocol = protocols.get(name, name)
        if name != CONTROLLER and protocol not in PROTOCOLS:
            raise source.wrong("listeners", f"listener {name} is to speak {protocol}: it has no such protocol")
        tls = security.tls_of(source, name) if protocol.endswith("SSL") else None
        sasl = security.sasl_of(source, name) if protocol.startswith("SASL") else None
        principals = security.principals_of(source, name)
        told_host, told_port = told.get(name, (None, None))
        if told_host in EVERYWHERE and name in told:
            raise source.wrong("advertised.listeners", f"nobody can dial {name}://{told_host or ''}: name an address")
        made.append(Listener(name, host or None, port, protocol, told_host, told_port, tls, sasl, principals))
    stray = sorted(set(told) - set(bound))
    if stray:
        raise source.wrong("advertised.listeners", f"{', '.join(stray)} is none of the listeners {', '.join(bound)}")
    clients = tuple(each for each in made if each.name != CONTROLLER)
    if not clients:
        raise source.wrong("listeners", "there is none for clients")
    for each in made:
        if each.name == CONTROLLER:
            return clients, evolve(each, protocol="PLAINTEXT")
    first = clients[0]
    return clients, Listener(CONTROLLER, first.host, 0, "PLAINTEXT", first.told_host)


def _authorizer(source: Source) -> None:
    key = "authorizer.class.name"
    if source.text(key):
        raise source.wrong(key, "there are no ACLs here: without them everybody would be allowed everything")


def _protocols(source: Source) -> dict[str, str]:
    made = {}
    for pair in source.text("listener.security.protocol.map").split(","):
        if pair.strip():
            name, colon, protocol = pair.strip().partition(":")
            if not colon or protocol not in PROTOCOLS:
                raise source.wrong("listener.security.protocol.map", f"{pair.strip()!r}: it is NAME:{PROTOCOLS[0]},...")
            made[name] = protocol
    return made


def _addresses(source: Source, key: str, text: str) -> dict[str, tuple[str, int]]:
    """`NAME://host:port,...`"""
    made: dict[str, tuple[str, int]] = {}
    for one in text.split(","):
        one = one.strip()
        if not one:
            continue
        name, separator, address = one.partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not port.isdecimal() or int(port) > 65_535:
            raise source.wrong(key, f"{one!r}: it is NAME://host:port")
        if name in made:
            raise source.wrong(key, f"listener {name} stands there twice")
        made[name] = host.strip("[]"), int(port)
    return made


def _inter_broker(source: Source, listeners: tuple[Listener, ...]) -> str | None:
    name, protocol = source.text("inter.broker.listener.name"), source.text("security.inter.broker.protocol")
    key = "inter.broker.listener.name" if name or not protocol else "security.inter.broker.protocol"
    if name:
        found = next((each for each in listeners if each.name == name), None)
        if found is None:
            raise source.wrong(key, f"there are {', '.join(each.name for each in listeners)}")
    elif protocol:
        found = next((each for each in listeners if each.protocol == protocol), None)
        if found is None:
            raise source.wrong(key, "no listener speaks it")
    else:
        found = listeners[0]
    if found.protocol != "PLAINTEXT":
        raise source.wrong(
            key, f"brokers fetch from each other in plain text, and {found.name} speaks {found.protocol}"
        )
    return found.name


def _said(source: Source) -> dict[str, tuple[str | None, bool]]:
    """Every key with its value, as tools are told it; None: a secret."""
    made: dict[str, tuple[str | None, bool]] = {
        key.name: (key.default, False) for _, keys in SECTIONS for key in keys if not key.ignored
    }
    for key, entry in source.entries.items():
        made[key] = (None if is_secret(key) else entry.value, True)
    return made


def numbered(plan: Plan) -> BrokerId | None:
    """The broker's number: as it says, or as its log directory does; None: it has to be given one."""
    return plan.config.id if plan.config.id >= 0 else known_id(plan.config.log_dirs)
