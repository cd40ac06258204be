"""Turn a configuration file into the settings of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from zab.admin.admin_settings import AdminSettings
from zab.cli.zoo_cfg.keys import MEMBERSHIP, TABLE
from zab.cli.zoo_cfg.members import check_peer_type, read_ensemble, read_id
from zab.cli.zoo_cfg.port_settings import (
    EVERYWHERE,
    ListenAddress,
    check_clashes,
    client_tls,
    http_ports,
    peer_warnings,
    quorum_tls,
)
from zab.cli.zoo_cfg.remembered_members import settle
from zab.cli.zoo_cfg.security_keys import LOGIN_FILE, audit_settings, quorum_sasl, security_settings
from zab.cli.zoo_cfg.zoo_source import ZooSource
from zab.config.config_source import BadConfig
from zab.config.jaas import SERVER
from zab.core.ensemble import NO_HOST, Ensemble
from zab.core.errors import ConfigError
from zab.core.failed_logins import FailedLoginSettings
from zab.core.ready import Settings
from zab.core.zxid import ServerId
from zab.host.process_tuning import PAUSE_US
from zab.net.tls.quorum_tls import QuorumTls
from zab.runtime.directory_owner import NAME as IDENTITY
from zab.runtime.store_server.client_port_settings import NO_THROTTLE, ClientPortSettings
from zab.runtime.store_server.security_settings import SecuritySettings
from zab.service.limits import Limits
from zab.service.zookeeper_peers import ZookeeperPeers
from zab.storage.offline import stored_membership
from zab.storage.storage import StorageSettings
from zab.store.acl import Access
from zab.store.store_settings import StoreSettings
from zab.wire.client.client_frames import FOUR_LETTER_WORDS
from zab.wire.disk_files import VERSION_DIRECTORY

TICK_MS: Final = 3_000
"""ZooKeeper's default for `tickTime`."""
OWN_PROTOCOL: Final = "zab"
PRE_ALLOC_KB: Final = 65_536
"""ZooKeeper's default for `preAllocSize`."""
_OF_AN_ENSEMBLE: Final = {
    "initLimit": ("ticks to connect to the elected leader", Settings().init_limit),
    "syncLimit": ("ticks after which a silent peer is disconnected", Settings().sync_limit),
}


@frozen
class ServerPlan:
    """A server to start. `client_host` is None for all interfaces; `log` is None if the log is in `data`."""

    path: Path
    server_id: int
    data: Path
    log: Path | None
    ensemble: Ensemble | None
    dynamic: Path | None
    client_host: str | None
    client_port: int | None
    secure_host: str | None
    secure_port: int | None
    listen_host: str | None
    settings: Settings
    limits: Limits
    storage: StorageSettings
    store: StoreSettings
    client_ports: ClientPortSettings
    admin: AdminSettings | None
    metrics: AdminSettings | None
    quorum_tls: QuorumTls | None
    admit_non_members: bool
    zookeeper: ZookeeperPeers | None
    warnings: tuple[str, ...]
    listens: tuple[ListenAddress, ...] = ()
    """The ports that this server listens on: for clients, for operators and for other servers."""
    replaces: bool = False
    """True if the membership of the file must replace the one in the data directory."""
    given: tuple[tuple[str, str], ...] = ()
    """(key, value) of each given key for which the table names no setting, for `--check`; secrets are masked.

    Directories, addresses and members are left out.
    """
    lacks: tuple[str, ...] = ()
    """Keys that an ensemble needs and the file lacks. A standalone server does not need them."""


def read_plan(path: Path, options: Iterable[tuple[str, str]] = (), *, from_file: bool = False) -> ServerPlan:
    """Return the plan of the server that the file describes. Raise `BadConfig` with all mistakes.

    `from_file`: the members in the file replace the stored ones.
    """
    source = ZooSource.read(path, options)
    if source.problems and not source.entries:
        raise BadConfig(source.problems, source.warnings)
    ensemble = read_ensemble(source)
    understood = ensemble is not None or not source.problems
    data = _directory(source, "dataDir")
    log = _directory(source, "dataLogDir")
    if data is None and "dataDir" not in source.entries:
        source.missing("dataDir", "a directory for this server's log and snapshots")
    if data is not None:
        _check_foreign(source, data)
    saved = None if data is None else stored_membership(data)
    sid = read_id(source, data, ensemble, saved)
    check_peer_type(source, ensemble, sid)
    lacks = _check_ensemble(source, ensemble, saved)
    _check_peer_protocol(source, ensemble, sid)
    host, port = _client_address(source, ensemble, sid)
    secure_port: int | None = source.value("secureClientPort", None)
    source.warn_of_keys_without_effect()
    groups = source.settings()
    made = _made(source, groups)
    everywhere = source.value("quorumListenOnAllIPs", False)
    secure_host = source.text("secureClientPortAddress") or host
    ports = [
        ListenAddress("clientPort", host, port or 0),
        ListenAddress("secureClientPort", secure_host, secure_port or 0),
        *_http_ports(made),
    ]
    ports = [each for each in ports if each.port]
    check_clashes(source, [*ports, *_server_ports(ensemble, sid, everywhere)])
    replaces = False
    if data is not None and understood and (ensemble is None or sid in ensemble.by_id):
        ensemble, replaces = settle(source, data, sid, ensemble, saved, from_file=from_file)
        ports += _server_ports(saved if saved is not None and not replaces else ensemble, sid, everywhere)
    if source.problems:
        raise BadConfig(source.problems, source.warnings)
    assert data is not None
    zookeeper: ZookeeperPeers | None = made["zookeeper"]
    log_in = zookeeper is not None and zookeeper.sasl is not None and zookeeper.sasl.required
    peers = peer_warnings(ensemble, everywhere, made["quorum_tls"], made["client_ports"].tls, log_in=log_in)
    source.warnings += [f"{source.path}: {each}" for each in peers]
    dynamic = source.text("dynamicConfigFile", None)
    return ServerPlan(
        path,
        sid,
        data,
        None if log is None or log.resolve() == data.resolve() else log,
        ensemble,
        None if dynamic is None else Path(dynamic),
        host,
        port,
        source.text("secureClientPortAddress", None),
        secure_port,
        EVERYWHERE if everywhere else None,
        admit_non_members=source.value("quorum.admitNonMembers", False),
        warnings=tuple(source.warnings),
        listens=tuple(ports),
        replaces=replaces,
        given=_given(source),
        lacks=lacks,
        **made,
    )


def _http_ports(made: dict[str, Any]) -> list[ListenAddress]:
    keys = {"admin": "admin.serverPort", "metrics": "metricsProvider.httpPort"}
    found = {key: made.get(name) for name, key in keys.items()}
    return [ListenAddress(key, each.host, each.port) for key, each in found.items() if each is not None]


def _server_ports(ensemble: Ensemble | None, sid: int, everywhere: bool) -> list[ListenAddress]:
    mine = None if ensemble is None else ensemble.by_id.get(ServerId(sid))
    if mine is None or mine.host == NO_HOST:
        return []
    host = EVERYWHERE if everywhere else mine.host
    line = f"server.{sid}"
    return [
        ListenAddress(f"the first port of {line}", host, mine.quorum_port),
        ListenAddress(f"the second port of {line}", host, mine.election_port),
    ]


def _directory(source: ZooSource, name: str) -> Path | None:
    entry = source.entries.get(name)
    if entry is None:
        return None
    if not entry.value:
        source.problem(entry.key, "is empty: name a directory")
        return None
    path = Path(entry.value)
    if path.exists() and not path.is_dir():
        source.problem(entry.key, "is not a directory")
        return None
    if not path.exists() and source.value("datadir.autocreate", True) is False:
        source.problem(entry.key, "does not exist, and datadir.autocreate=false forbids creating it")
    return path


def _check_foreign(source: ZooSource, data: Path) -> None:
    """Refuse a directory of ZooKeeper's: an empty store next to its data would look like a loss of the data."""
    foreign = data / VERSION_DIRECTORY
    if foreign.is_dir() and any(foreign.iterdir()) and not (data / IDENTITY).exists():
        source.problem(
            "dataDir",
            f"holds data of Apache ZooKeeper ({foreign}), which has another format: stop the ZooKeeper "
            f"server, run `zab import {data} NEW_DIRECTORY`, and let dataDir name the new directory",
        )


def _check_ensemble(source: ZooSource, ensemble: Ensemble | None, saved: Ensemble | None) -> tuple[str, ...]:
    """Return the keys that an ensemble needs and the file lacks.

    If the file has several servers, record each missing key as a problem, or as a warning if the data directory stores
    a membership. Also record a problem if standaloneEnabled is false and the file has no servers.
    """
    if ensemble is None and source.value("standaloneEnabled", True) is False and not source.problems:
        source.problem("standaloneEnabled", "requires server.N lines, and there are none")
    lacks = tuple(name for name in _OF_AN_ENSEMBLE if name not in source.entries)
    if ensemble is not None and len(ensemble.servers) > 1:
        for name in lacks:
            what, default = _OF_AN_ENSEMBLE[name]
            if saved is None:
                source.missing(name, f"an ensemble needs it ({what}); {default} is customary")
            else:  # the server may have been standalone until a reconfiguration made it a member
                source.warnings.append(
                    f"{source.path}: {name} is missing, and an ensemble needs it ({what}): {default} is used; set it "
                    "to the value of the other servers"
                )
    return lacks


def _zookeeper_peers(source: ZooSource) -> ZookeeperPeers | None:
    """Return the settings of the protocol of ZooKeeper; None if it is not used, or after recording a problem."""
    try:
        sasl = quorum_sasl(source)
    except ConfigError as error:
        source.blame(error)
        return None
    if source.value("peerProtocol", OWN_PROTOCOL) != OWN_PROTOCOL:
        return ZookeeperPeers(reconfig_enabled=source.value("reconfigEnabled", False), sasl=sasl)
    if sasl is not None:
        source.problem(
            "quorum.auth.enableSasl",
            "only with peerProtocol=zookeeper servers log in by SASL: use TLS instead (sslQuorum=true and the keys "
            "ssl.quorum.*), and remove the keys quorum.auth.*",
        )
    return None


def _check_peer_protocol(source: ZooSource, ensemble: Ensemble | None, sid: int) -> None:
    """Record a problem if there is no ensemble that could speak the protocol of ZooKeeper."""
    entry = source.entries.get("peerProtocol")
    if entry is None or source.value("peerProtocol", OWN_PROTOCOL) == OWN_PROTOCOL:
        return
    if ensemble is None or ServerId(sid) not in ensemble.by_id:
        source.problem(entry.key, "requires server.N lines, with one of this server")
    for member in source.members():
        if "|" in member.value:
            source.problem(
                member.key,
                "with peerProtocol=zookeeper, a server has one address: servers of ZooKeeper may dial the other one",
            )


def _client_address(source: ZooSource, ensemble: Ensemble | None, sid: int) -> tuple[str | None, int | None]:
    """Return the client address from the file's keys or from this server's line; if both set it, they must agree.

    ZooKeeper has the same rule: the part of `server.N` after the semicolon sets the client port, and a different
    `clientPort` or `clientPortAddress` is an error. An address without a port is an error; no port at all is a warning.
    """
    host = source.text("clientPortAddress") or None
    port: int | None = source.value("clientPort", None)
    server = None if ensemble is None else ensemble.by_id.get(ServerId(sid))
    if server is not None and server.client_port is not None:
        line = source.entries[f"server.{sid}"]
        entry = source.entries.get("clientPort")
        if entry is not None and port not in (None, server.client_port):
            source.problem(entry.key, f"{line.place} says {server.client_port} for the same port")
        own = None if server.client_host in (None, EVERYWHERE) else server.client_host
        if host is not None and own is not None and host != own:
            source.problem("clientPortAddress", f"{line.place} says {own} for the same address")
        return host or own, server.client_port
    if host is not None and "clientPort" not in source.entries:
        source.problem("clientPortAddress", "no port to listen on: set clientPort as well")
    if port is None and "clientPort" not in source.entries and "secureClientPort" not in source.entries:
        source.warnings.append(f"{source.path}: no clientPort: this server serves no clients")
    return host, port


def _made(source: ZooSource, groups: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Make the settings objects. Their own checks find values that contradict each other."""
    client_ports = groups.setdefault("client_ports", {})
    for name, key in (("session_ms_min", "minSessionTimeout"), ("session_ms_max", "maxSessionTimeout")):
        if client_ports.get(name) == -1:
            del client_ports[name]
        elif client_ports.get(name) == 0:
            source.problem(key, "expected a whole number, 1 or more, or -1 for the default")
    client_ports["tick_ms"] = groups.setdefault("settings", {}).setdefault("tick_ms", TICK_MS)
    client_ports["words"] = _words(source, client_ports)
    client_ports["read_only_after_ms"] = max(ClientPortSettings().read_only_after_ms, client_ports["tick_ms"])
    properties = {entry.key: entry.value for entry in source.entries.values()}
    made_of_several: dict[str, Callable[[], object]] = {
        "security": lambda: security_settings(source),
        "throttle": lambda: evolve(NO_THROTTLE, **groups.get("throttle", {})),
        "failed_logins": lambda: FailedLoginSettings(**groups.get("logins", {})),
        "tls": lambda: client_tls(source, properties),
        "audit": lambda: audit_settings(source),
    }
    for name, make in made_of_several.items():
        try:
            client_ports[name] = make()
        except ConfigError as error:
            source.blame(error)
    security = client_ports.get("security")
    for_servers = source.value("quorum.auth.enableSasl", False)
    without_users = isinstance(security, SecuritySettings) and not security.sasl_users
    if LOGIN_FILE in source.entries and without_users and not for_servers:
        source.warn(LOGIN_FILE, f"has no section '{SERVER}': this server starts without SASL")
    if client_ports.get("audit") is None and "audit.file" in source.entries:
        source.warn("audit.file", "without effect: audit.enable is not on")
    if source.value("preAllocSize", 1) == 0:
        groups.setdefault("storage", {})["preallocate"] = False
    elif source.value("preAllocSize", PRE_ALLOC_KB) != PRE_ALLOC_KB:
        source.warn(
            "preAllocSize",
            "without effect: the whole of each log file is reserved (txnLogSizeLimitInKb); 0 reserves nothing",
        )
    if source.value("autopurge.purgeInterval", 1) == 0:
        source.warn("autopurge.purgeInterval", "without effect: superfluous snapshots and logs are always purged")
    limits = groups.setdefault("limits", {})
    if "snapshots_kept" in limits:
        groups.setdefault("storage", {})["snapshots_kept"] = limits["snapshots_kept"]
    made: dict[str, Any] = {
        **http_ports(source, groups),
        "quorum_tls": quorum_tls(source, properties),
        "zookeeper": _zookeeper_peers(source),
    }
    access = evolve(Access(), **groups.get("access", {}))
    for name, default in (
        ("settings", Settings(tick_ms=TICK_MS)),
        ("limits", Limits(pause_us_max=PAUSE_US)),
        ("storage", StorageSettings()),
        ("store", StoreSettings(access=access)),
        ("client_ports", ClientPortSettings()),
    ):
        try:
            made[name] = evolve(default, **groups.get(name, {}))
        except ConfigError as error:
            source.blame(error)
    if "client_ports" in made:
        made_client_ports: ClientPortSettings = made["client_ports"]
        least, most = (
            made_client_ports.timeout_ms(0),
            client_ports.get("session_ms_max", made_client_ports.timeout_ticks_max * client_ports["tick_ms"]),
        )
        if least > most:
            source.problems.append(f"{source.path}: minSessionTimeout={least} is more than maxSessionTimeout={most}")
    return made


_SHOWN_OTHERWISE: Final = frozenset({
    "dataDir", "dataLogDir", "clientPort", "clientPortAddress", "dynamicConfigFile", "quorumListenOnAllIPs",
    "admin.enableServer",
})  # fmt: skip


def _given(source: ZooSource) -> tuple[tuple[str, str], ...]:
    found = []
    for entry in source.entries.values():
        key, family = TABLE.keys.get(entry.key), TABLE.family_of(entry.key)
        by_hand = (key is not None and not key.ignored and not key.sets) or (family is not None and not family.ignored)
        if by_hand and entry.key not in _SHOWN_OTHERWISE and not entry.key.startswith(MEMBERSHIP):
            found.append((entry.key, entry.shown))
    return tuple(found)


def _words(source: ZooSource, client_ports: dict[str, Any]) -> frozenset[str]:
    asked: frozenset[str] | None = client_ports.get("words")
    if asked is None:
        return ClientPortSettings().words
    if "*" in asked:
        return frozenset(FOUR_LETTER_WORDS.values())
    unknown = asked - frozenset(FOUR_LETTER_WORDS.values())
    if unknown:
        source.warn(
            "4lw.commands.whitelist", f"these words are unknown, and not answered: {', '.join(sorted(unknown))}"
        )
    return asked & frozenset(FOUR_LETTER_WORDS.values())
