"""The part of a zoo.cfg that a migration needs, and the settings in it with which no migration is possible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from zab.cli.migration.server_answers import SETTING
from zab.cli.zoo_cfg.members import read_ensemble
from zab.cli.zoo_cfg.zoo_source import ZooSource
from zab.config.config_source import BadConfig
from zab.core.ensemble import Ensemble, Server

ADMIN_PORT: Final = 8080
"""ZooKeeper's default for `admin.serverPort`. ZooKeeper opens this port unless `admin.enableServer=false`."""
WORDS: Final = ("conf", "mntr", "ruok", "srvr")
_EVERYWHERE: Final = frozenset({None, "0.0.0.0", "::", "0:0:0:0:0:0:0:0"})
_LOGIN_FILE: Final = "java.security.auth.login.config"
_PROVIDERS: Final = re.compile(
    r"(org\.apache\.zookeeper\.server\.auth\.)?(IP|Digest|SASL|X509|Ensemble)AuthenticationProvider"
)


@frozen
class Obstacle:
    """A setting with which a server of zab cannot join the ensemble, and the remedy."""

    text: str
    remedy: str


@frozen
class EnsembleConfig:
    """The ensemble that a zoo.cfg describes.

    path         the file
    ensemble     the members; None for a standalone server
    data, log    dataDir and dataLogDir of each server of ZooKeeper
    client_port  the client port of members without one in their server.N line
    admin_port   the admin port of each server of ZooKeeper; None if it is switched off
    admin_path   the path in front of the names of the admin commands
    words        the four-letter words in 4lw.commands.whitelist
    obstacles    the reasons why no step may be taken
    warnings     what differs at a server of zab
    """

    path: Path
    ensemble: Ensemble | None
    data: Path
    log: Path | None
    client_port: int | None
    admin_port: int | None
    admin_path: str
    words: tuple[str, ...]
    obstacles: tuple[Obstacle, ...] = ()
    warnings: tuple[str, ...] = ()

    def client_address(self, member: Server) -> tuple[str, int] | None:
        """Return the address at which a member answers four-letter words; None if the file names no port for it."""
        port = member.client_port or self.client_port
        host = member.host if member.client_host in _EVERYWHERE else member.client_host
        return None if port is None or host is None else (host, port)


def read_config(path: Path) -> EnsembleConfig:
    """Read the zoo.cfg of a server of ZooKeeper. Raise `BadConfig` if the file cannot be read or has mistakes."""
    source = ZooSource.read(path)
    if source.problems and not source.entries:
        raise BadConfig(source.problems)
    ensemble = read_ensemble(source)
    if not source.text("dataDir"):
        source.missing("dataDir", "the directory that each server of ZooKeeper uses")
    if source.value("peerProtocol") is not None:
        source.problem("peerProtocol", "this is a file for `zab serve`: give the zoo.cfg of a server of ZooKeeper")
    client_port = source.value("clientPort")
    admin_port = source.value("admin.serverPort", ADMIN_PORT)
    has_admin = source.value("admin.enableServer", True)
    words = tuple(sorted(each.strip() for each in source.text("4lw.commands.whitelist").split(",") if each.strip()))
    source.warn_of_keys_without_effect()
    if source.problems:
        raise BadConfig(source.problems, source.warnings)
    log = source.text("dataLogDir")
    data = Path(source.text("dataDir"))
    return EnsembleConfig(
        path.absolute(),
        ensemble,
        data,
        None if not log or Path(log) == data else Path(log),
        client_port,
        admin_port if has_admin else None,
        source.text("admin.commandURL", "/commands"),
        words,
        tuple(_obstacles(source, ensemble)),
        (*_warnings(source), *source.warnings),
    )


def _obstacles(source: ZooSource, ensemble: Ensemble | None) -> Iterator[Obstacle]:
    if ensemble is None:
        yield Obstacle(
            f"{source.path} has no server.N lines: a standalone server cannot be replaced while it runs",
            "stop it and import its directory: docs/howto/move-from-zookeeper.md, section 'With a stop'",
        )
        return
    if ensemble.groups or ensemble.weights:
        yield Obstacle(
            f"{source.path} has group.N or weight.N lines: servers of zab do not support them in an ensemble with "
            "servers of ZooKeeper yet",
            "remove the groups on all servers, if a plain majority is acceptable, or move with a stop",
        )
    if source.value("quorum.auth.enableSasl", False) and not source.text(_LOGIN_FILE):
        yield Obstacle(
            f"{source.where('quorum.auth.enableSasl')}: the passwords of servers are in a JAAS file, and this file "
            "does not name it",
            f"add the line {_LOGIN_FILE}=FILE, with the value of that system property of Java. ZooKeeper ignores the "
            "line",
        )
    for entry in source.members():
        if "|" in entry.value:
            yield Obstacle(
                f"{source.where(entry.key)}: several addresses of a server are not supported: servers of ZooKeeper may "
                "dial the one at which a server of zab does not listen",
                "give each server one address first, with a rolling restart",
            )
    if source.value("requireKerberosConfig", "false") == "true" or _uses_kerberos(source):
        yield Obstacle(
            f"{source.path}: clients or servers log in with Kerberos, which servers of zab do not support",
            "move them to SASL DIGEST-MD5 first, or clients to digest or certificates",
        )
    for key, entry in source.entries.items():
        if key.startswith("authProvider.") and not _PROVIDERS.fullmatch(entry.value.strip()):
            yield Obstacle(
                f"{source.where(key)}: a Java class cannot be loaded",
                "remove it, if no ACL needs it, or write a provider for zab: docs/howto/secure-the-client-port.md",
            )


def _uses_kerberos(source: ZooSource) -> bool:
    """Return whether the JAAS file, if it can be read here, has Java's login module for Kerberos."""
    name = source.text(_LOGIN_FILE)
    try:
        return bool(name) and "Krb5LoginModule" in Path(name).read_text(errors="replace")
    except OSError:
        return False


def _warnings(source: ZooSource) -> Iterator[str]:
    if source.value("reconfigEnabled", False):
        yield (
            f"{source.where('reconfigEnabled')}: keep the value on all servers, and reconfigure nothing during a step "
            "of the move"
        )
    if source.text(_LOGIN_FILE) and not Path(source.text(_LOGIN_FILE)).is_file():
        yield (
            f"{source.where(_LOGIN_FILE)}: not on this machine, so it was not checked for "
            "Kerberos, which is not supported"
        )
    if "clientPort" not in source.entries and "secureClientPort" in source.entries:
        yield (
            f"{source.path}: only secureClientPort is set: the state is read at the admin ports, because four-letter "
            f"words need a plain port ({SETTING})"
        )
