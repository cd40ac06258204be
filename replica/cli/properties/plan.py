"""Translation of server.properties to a broker's configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from kraft_controller.core.controller_context import ControllerSettings
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.controller import Pace
from kraft_controller.runtime.meta_properties import known_id
from kraft_controller.runtime.shutdown_request import ShutdownSettings
from replica.cli.properties import checks, security_check, security_properties
from replica.cli.properties.keys import KEYS
from replica.cli.properties.listeners import (
    PROTOCOL_MAP,
    PROTOCOL_MAP_DEFAULT,
    between_of,
    inter_broker_of,
    listeners_of,
)
from replica.cli.properties.properties_source import PropertiesSource
from replica.cli.properties.store_properties import store_login_of
from replica.core.errors import KafkaError
from replica.core.groups.group_settings import GroupSettings
from replica.core.network.connection_limits import ConnectionLimits
from replica.core.partitions.log_config import LogConfig
from replica.core.replica_settings import ReplicaSettings as ReplicationSettings
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.runtime.configuration.broker_config import (
    BrokerConfig,
    OffsetsTopicSettings,
    Setting,
    TransactionsTopicSettings,
)
from replica.runtime.replication.batch_examiner import BatchExaminerSettings
from replica.runtime.replication.log_manager_runtime import LogManagerPace
from replica.runtime.store.store_login import StoreLogin
from replica.storage.log_manager import ManagerSettings
from zab.config.config_source import BadConfig
from zab.config.key_table import ConfigKey
from zab.config.properties_file import decode
from zab.core.failed_logins import FailedLoginSettings
from zab.core.secrets import HIDDEN

GROUPS: Final = (
    "config",
    "port",
    "logins",
    "examining",
    "offsets",
    "groups",
    "transactions_topic",
    "transactions",
    "control",
    "pace",
    "leaving",
    "replication",
    "disk",
    "logs",
    "plan",
)
"""The groups of broker settings. `sets` in the table of keys begins with one of them, or with `log`."""
_IN_UNITS: Final = (
    ("retention.ms", ("log.retention.ms", "log.retention.minutes", "log.retention.hours")),
    ("segment.ms", ("log.roll.ms", "log.roll.hours")),
    ("segment.jitter.ms", ("log.roll.jitter.ms", "log.roll.jitter.hours")),
    (
        "message.timestamp.before.max.ms",
        ("log.message.timestamp.before.max.ms", "log.message.timestamp.difference.max.ms"),
    ),
    (
        "message.timestamp.after.max.ms",
        ("log.message.timestamp.after.max.ms", "log.message.timestamp.difference.max.ms"),
    ),
)
"""Keys for the same setting. The first of them that the file sets wins: it has the finest unit, or is the newest."""


@frozen
class Plan:
    """A checked configuration file, with which `zab-broker serve` starts a broker."""

    config: BrokerConfig
    """The configuration. Its id is -1 if the file sets none: see `numbered`."""
    warnings: tuple[str, ...] = ()
    reserved_max: int = 1_000
    effective: Mapping[str, str] = {}
    """The settings of the file and the overrides that have an effect, by key; secrets are masked."""
    operators_hosts: frozenset[str] = frozenset()
    """Host names that the header `Host` of a request to the port of `--operators` may have."""


def read_plan(path: Path, overrides: Mapping[str, str]) -> Plan:
    """Read the file. Raise `BadConfig` with all mistakes."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadConfig([f"{path}: cannot be read: {error.strerror}"]) from None
    return plan_of(path, decode(raw), overrides, checks.of_letters(path, raw))


def plan_of(
    path: Path | str,
    text: str,
    overrides: Mapping[str, str] | None = None,
    warnings: tuple[str, ...] = (),
    now: datetime | None = None,
) -> Plan:
    """Make a plan from the text of a file. `overrides` replace its keys. A certificate that is not valid at `now`
    causes a warning. Raise `BadConfig` with all mistakes."""
    source = PropertiesSource.of(Path(path), text, overrides or {})
    if source.problems and not source.entries:
        raise BadConfig(source.problems, source.warnings)
    source.warnings = [*warnings, *source.warnings]
    listeners, controller = listeners_of(source)
    understood = security_properties.check_sensitive(source, KEYS, [each.name for each in (*listeners, controller)])
    source.warn_of_keys_without_effect(understood)
    security_properties.warn_without_authorizer(source)
    settings = {**{group: {} for group in GROUPS}, **source.settings()}
    log, log_keys_in_file = _log(source)
    inter_broker = inter_broker_of(source, listeners)
    peers, controller, controllers = between_of(source, listeners, inter_broker, controller)
    made: dict[str, Any] = {
        "id": BrokerId(source.value("broker.id", -1)),
        "log_dirs": checks.log_dirs(source),
        "store": checks.store(source),
        "store_login": source.attempt(store_login_of) or StoreLogin(),
        "listeners": listeners,
        "controller": controller,
        "inter_broker": inter_broker,
        "peers": peers,
        "controllers": controllers,
        "acls": source.attempt(security_properties.acls_of),
        "log": log,
        "log_keys_in_file": log_keys_in_file,
        "leaving": _leaving(source, settings["leaving"]),
        "pace": _pace(source, settings["pace"]),
        "settings": _start_settings(source),
        **settings["config"],
    }
    checks.together(source, log)
    if not source.problems:
        security_check.advise(
            source, listeners, inter_broker, controller, peers, made["acls"], now or datetime.now(UTC)
        )
    if source.problems:
        raise BadConfig(source.problems, source.warnings)
    config = BrokerConfig(
        port=_port(settings["port"]),
        examining=BatchExaminerSettings(**settings["examining"]),
        failed_logins=FailedLoginSettings(**settings["logins"]),
        offsets=OffsetsTopicSettings(**settings["offsets"]),
        replication=ReplicationSettings(min_insync=log.min_insync_replicas, **settings["replication"]),
        disk=LogManagerPace(**settings["disk"]),
        logs=ManagerSettings(**settings["logs"]),
        groups=GroupSettings(**settings["groups"]),
        transactions_topic=TransactionsTopicSettings(**settings["transactions_topic"]),
        transactions=TransactionSettings(**settings["transactions"]),
        control=ControllerSettings(
            unclean_election=log.unclean_leader_election_enable,
            min_isr=log.min_insync_replicas,
            deletion=settings["config"].get("deletion", True),
            **settings["control"],
        ),
        **made,
    )
    return Plan(config, tuple(source.warnings), effective=_effective(source, understood), **settings["plan"])


# -- settings that need several keys ---------------------------------------------------------------------


def _port(settings: dict[str, Any]) -> ConnectionLimits:
    """Return the limits. The limit of queued bytes is at least the size of the largest request."""
    made = ConnectionLimits(**settings)
    return evolve(made, waiting_bytes_total_max=max(made.waiting_bytes_total_max, made.request_bytes_max))


def _leaving(source: PropertiesSource, settings: dict[str, Any]) -> ShutdownSettings | None:
    return ShutdownSettings(**settings) if source.value("controlled.shutdown.enable", True) else None


def _pace(source: PropertiesSource, settings: dict[str, Any]) -> Pace:
    if not source.value("auto.leader.rebalance.enable", True):
        settings = {**settings, "balance_s": None}
    return Pace(**settings)


def _log(source: PropertiesSource) -> tuple[LogConfig, frozenset[str]]:
    """Return the default settings of topics, and the topic keys of those that the file sets."""
    values: dict[str, str] = {}
    for topic_key, keys in _IN_UNITS:
        found = {key: source.value(key) for key in keys if key in source}
        good = [str(value) for value in found.values() if value is not None]
        if good:
            values[topic_key] = good[0]
    for key in source.entries:
        known = KEYS.get(key)
        if known is None or not known.sets.startswith("log."):
            continue
        topic_key, value = known.sets.removeprefix("log."), source.value(key)
        if value is None:
            continue
        try:  # the broker's key may allow more values than the topic's
            LogConfig.of({topic_key: value})
        except KafkaError as error:
            source.problem(key, (error.text or "").removeprefix(f"{topic_key}={value}: "))
        else:
            values[topic_key] = value
    try:
        return LogConfig.of(values), frozenset(values)
    except KafkaError as error:
        shorter, longer = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
        source.problem(shorter if shorter in source else longer, error.text)
        return LogConfig(), frozenset()


def _start_settings(source: PropertiesSource) -> dict[str, Setting]:
    """Return the keys with an effect, and all keys of the file, with their values as tools display them; None for
    secrets and for keys without a value."""
    usual = {name: _usual(key) for name, key in KEYS.items()}
    made = {name: Setting(usual[name], usual=usual[name]) for name, key in KEYS.items() if not key.ignored}
    for name, entry in source.entries.items():
        made[name] = Setting(None if entry.shown == HIDDEN else entry.value, True, usual.get(name))
    return made


def _usual(key: ConfigKey) -> str | None:
    if key.name == PROTOCOL_MAP:
        return PROTOCOL_MAP_DEFAULT
    return key.default if key.name == "ssl.client.auth" else key.default_value  # "none" is a value of this key


def _effective(source: PropertiesSource, understood: Collection[str]) -> dict[str, str]:
    return {
        key: entry.shown
        for key, entry in source.entries.items()
        if key in understood or (key in KEYS and not KEYS[key].ignored)
    }


def numbered(plan: Plan) -> BrokerId | None:
    """Return the broker id from the file or from the log directories; None if the store must assign one."""
    return plan.config.id if plan.config.id >= 0 else known_id(plan.config.log_dirs)
