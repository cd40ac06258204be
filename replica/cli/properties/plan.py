"""From the lines of a file to what a broker is told, with a word about everything that counts for nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from kraft_controller.core.desk import Settings as ControllerSettings
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.controller import Pace
from kraft_controller.runtime.identity import known_id
from kraft_controller.runtime.leaving import LeaveSettings
from replica.cli.properties import checks, openness, security
from replica.cli.properties.keys import KEYS, SECTIONS
from replica.cli.properties.listeners import between_of, inter_broker_of, listeners_of
from replica.cli.properties.source import Misconfigured, Source, nearest
from replica.cli.properties.store import store_login_of
from replica.core.errors import KafkaError
from replica.core.groups.desk import Settings as GroupSettings
from replica.core.settings import Settings as ReplicationSettings
from replica.core.transactions.desk import Settings as TransactionSettings
from replica.runtime.config import BrokerConfig, OffsetsTopicSettings, Setting, TransactionsTopicSettings
from replica.runtime.disk import DiskPace
from replica.runtime.examining import ExaminingSettings
from replica.runtime.settings import PortSettings
from replica.runtime.store import StoreLogin
from replica.storage.config import LogConfig
from replica.storage.manager import ManagerSettings
from zab.cli.zoo.properties import decode
from zab.core.failed_logins import FailedLoginSettings
from zab.core.secrets import HIDDEN, shown

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
"""Of settings, as the table names them."""
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
"""Of several keys that say one thing the first counts: it has the finest unit, or is of today."""


@frozen
class Plan:
    """config     without its number where the file says none: see `reserved_max`
    warnings   keys that have no effect, and why; and what is asked for, and not wise
    effective  what was said and counts, by key; secrets are not repeated
    operators_hosts   names that a request to the port of `--operators` may be for
    """

    config: BrokerConfig
    warnings: tuple[str, ...] = ()
    reserved_max: int = 1_000
    effective: Mapping[str, str] = {}
    operators_hosts: frozenset[str] = frozenset()


def read_plan(path: Path, overrides: Mapping[str, str]) -> Plan:
    """Raises `Misconfigured` with everything that is wrong."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Misconfigured([f"{path}: it cannot be read: {error.strerror}"]) from None
    return plan_of(str(path), decode(raw), overrides, checks.of_letters(path, raw))


def plan_of(
    path: str,
    text: str,
    overrides: Mapping[str, str] | None = None,
    warnings: tuple[str, ...] = (),
    now: datetime | None = None,
) -> Plan:
    """`overrides` are said beside the file, and stand before it. `now`: for certificates; None: by the clock."""
    source = Source.of(path, text, overrides or {})
    source.warnings = [*warnings, *source.warnings]
    listeners, controller = listeners_of(source)
    understood = security.check_sensitive(source, KEYS, [each.name for each in (*listeners, controller)])
    _warn_of_strangers(source, understood)
    for key in source.entries:
        if key in KEYS:
            source.value(key)  # also where nobody needs it: with some values the original would not start
    security.warn_without_authorizer(source)
    settings = _settings(source)
    log, said = _log(source)
    inter_broker = inter_broker_of(source, listeners)
    peers, controller, controllers = between_of(source, listeners, inter_broker, controller)
    made: dict[str, Any] = {
        "id": BrokerId(source.value("broker.id", -1)),
        "log_dirs": checks.log_dirs(source),
        "store": checks.store(source),
        "store_login": source.tried(store_login_of, default=None) or StoreLogin(),
        "listeners": listeners,
        "controller": controller,
        "inter_broker": inter_broker,
        "peers": peers,
        "controllers": controllers,
        "acls": source.tried(security.acls_of, default=None),
        "log": log,
        "log_said": said,
        "leaving": _leaving(source, settings["leaving"]),
        "pace": _pace(source, settings["pace"]),
        "said": _said(source),
        **settings["config"],
    }
    checks.together(source, log)
    if not source.problems:
        openness.advise(source, listeners, inter_broker, controller, peers, made["acls"], now or datetime.now(UTC))
    if source.problems:
        raise Misconfigured(source.problems, source.warnings)
    config = BrokerConfig(
        port=_port(settings["port"]),
        examining=ExaminingSettings(**settings["examining"]),
        failed_logins=FailedLoginSettings(**settings["logins"]),
        offsets=OffsetsTopicSettings(**settings["offsets"]),
        replication=ReplicationSettings(min_insync=log.min_insync_replicas, **settings["replication"]),
        disk=DiskPace(**settings["disk"]),
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


def _warn_of_strangers(source: Source, understood: Collection[str]) -> None:
    for key, entry in source.entries.items():
        known = KEYS.get(key)
        if known is None and key not in understood and not source.is_wrong(key):
            near = nearest(key)
            if entry.value.strip("=") or near:
                source.warn(key, f"this key is not known here and has no effect{near}")
            else:  # it may be the rest of a password that stands on two lines
                source.warnings.append(f"{source.place(entry)}: this line is no key=value, and without effect")
        elif known is not None and known.ignored and entry.value not in known.agreed:
            source.warn(key, f"without effect: {known.does}")


def _settings(source: Source) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for key in source.entries:
        known = KEYS.get(key)
        if known is not None and known.sets and not known.sets.startswith("log."):
            group, _, name = known.sets.partition(".")
            value = source.value(key)
            if value is not None:
                made[group][name] = value
    return made


# -- what is made of several keys ------------------------------------------------------------------------


def _port(settings: dict[str, Any]) -> PortSettings:
    """A request that may be sent has to fit among those that wait."""
    made = PortSettings(**settings)
    return evolve(made, waiting_bytes_total_max=max(made.waiting_bytes_total_max, made.request_bytes_max))


def _leaving(source: Source, settings: dict[str, Any]) -> LeaveSettings | None:
    return LeaveSettings(**settings) if source.value("controlled.shutdown.enable", True) else None


def _pace(source: Source, settings: dict[str, Any]) -> Pace:
    if not source.value("auto.leader.rebalance.enable", True):
        settings = {**settings, "balance_s": None}
    return Pace(**settings)


def _log(source: Source) -> tuple[LogConfig, frozenset[str]]:
    """What holds for topics that say nothing, and which of their keys were said."""
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
        try:  # the logs may ask for more than whoever configures topics does
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


def _said(source: Source) -> dict[str, Setting]:
    """Every key with its value, as tools are told it; None: a secret, an unknown key, or one that nobody has set."""
    made = {key.name: Setting(key.usual, usual=key.usual) for _, keys in SECTIONS for key in keys if not key.ignored}
    for key, entry in source.entries.items():
        usual = KEYS[key].usual if key in KEYS else None
        made[key] = Setting(None if source.shown(entry) == HIDDEN else entry.value, True, usual)
    return made


def _effective(source: Source, understood: Collection[str]) -> dict[str, str]:
    return {
        key: shown(key, entry.value)
        for key, entry in source.entries.items()
        if key in understood or (key in KEYS and not KEYS[key].ignored)
    }


def numbered(plan: Plan) -> BrokerId | None:
    """The broker's number: as it says, or as its log directory does; None: it has to be given one."""
    return plan.config.id if plan.config.id >= 0 else known_id(plan.config.log_dirs)
