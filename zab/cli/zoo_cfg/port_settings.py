"""TLS for clients and between servers, the two HTTP ports, and the check that no port is used twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from attrs import frozen

from zab.admin.admin_settings import PARTS, AdminSettings
from zab.cli.zoo_cfg.zoo_source import ZooSource
from zab.core.addresses import bracketed, is_loopback
from zab.core.ensemble import Ensemble, Server
from zab.core.errors import ConfigError
from zab.net.tls.quorum_tls import QuorumTls
from zab.net.tls.tls_settings import TlsPortSettings

EVERYWHERE: Final = "0.0.0.0"
LOOPBACK: Final = "127.0.0.1"
_ALL: Final = frozenset({None, EVERYWHERE, "::"})


def client_tls(source: ZooSource, properties: Mapping[str, str]) -> TlsPortSettings | None:
    """Return the TLS settings of the secure port, or of the plain port if it accepts both kinds of clients.

    Return None if neither port speaks TLS, or after recording a problem. Raise `ConfigError` if the settings or the
    files contradict each other or cannot be used.
    """
    wanted = "secureClientPort" in source.entries or source.value("client.portUnification", False)
    tls = TlsPortSettings.from_properties(properties)
    if not wanted:
        if tls is not None:
            source.warn(
                "ssl.keyStore.location",
                "without effect: secureClientPort is not set, and client.portUnification is not on",
            )
        return None
    if tls is None:
        _missing(source, "ssl.", "a port that speaks TLS needs a key and a certificate")
        return None
    if not _readable(source, tls):
        return None
    tls.server_context()  # unreadable files are reported now, with all other mistakes
    return tls


def quorum_tls(source: ZooSource, properties: Mapping[str, str]) -> QuorumTls | None:
    dials = source.value("sslQuorum", False)
    wanted = dials or source.value("portUnification", False)
    try:
        settings = TlsPortSettings.from_properties(properties, quorum=True)
        if not wanted:
            return None
        if settings is None:
            _missing(source, "ssl.quorum.", "with sslQuorum or portUnification, servers need a key and a certificate")
            return None
        if not _readable(source, settings):
            return None
        tls = QuorumTls(settings, dials)
        _ = tls.server_context, tls.client_context
        return tls
    except ConfigError as error:
        source.blame(error)
        return None


def peer_warnings(
    ensemble: Ensemble | None,
    everywhere: bool,
    peers: QuorumTls | None,
    clients: TlsPortSettings | None,
    *,
    log_in: bool,
) -> Iterator[str]:
    """Yield warnings about settings that let other hosts pose as a server. `log_in`: a server must log in by SASL."""
    if ensemble is not None and not log_in and (peers is None or peers.plain_too):
        far = [server for server in ensemble.servers if everywhere or not is_loopback(server.host)]
        if far:
            how = "servers speak without TLS" if peers is None else "portUnification=true admits servers without TLS"
            remedy = "set sslQuorum=true" if peers is None else "remove that line once all servers have sslQuorum=true"
            yield (
                f"{_first_words(far)} can be reached from other hosts, and {how}. A host that "
                "reaches these ports can pose as a member, read everything and change everything: let a firewall "
                f"admit only the servers' addresses, or {remedy} (docs/howto/use-tls.md)"
            )
    if peers is None or clients is None:
        return
    if clients.key_store.certificate() == peers.settings.key_store.certificate():
        yield (
            "ssl.keyStore and ssl.quorum.keyStore hold the same certificate: give servers a certificate of their own, "
            "of an authority that signs nothing else (docs/howto/use-tls.md)"
        )
    if set(clients.server_context().get_ca_certs(True)) & set(peers.server_context.get_ca_certs(True)):
        yield (
            "ssl.trustStore and ssl.quorum.trustStore trust the same authority: a client whose certificate names the "
            "host of a server can pose as that server. Let ssl.quorum.trustStore trust an authority that signs "
            "certificates of servers only (docs/howto/use-tls.md)"
        )


def _first_words(servers: Sequence[Server]) -> str:
    first = servers[0]
    more = f" and {len(servers) - 1} more" if len(servers) > 1 else ""
    return f"server.{first.id}={bracketed(first.host)}:{first.quorum_port}:{first.election_port}{more}"


def _missing(source: ZooSource, prefix: str, why: str) -> None:
    source.missing(f"{prefix}keyStore.location", why)
    if f"{prefix}trustStore.location" not in source.entries and source.text(f"{prefix}clientAuth") != "none":
        source.missing(
            f"{prefix}trustStore.location", "it names the authorities that sign the other side's certificates"
        )


def _readable(source: ZooSource, tls: TlsPortSettings) -> bool:
    """Return whether key store and trust store can be read. Both are read, so that mistakes are reported together."""
    before = len(source.problems)
    for store in (tls.key_store, tls.trust_store):
        try:
            if store is not None:
                store.read()
        except ConfigError as error:
            source.blame(error)
    return len(source.problems) == before


@frozen
class ListenAddress:
    """A port of this server, and the key that sets it."""

    key: str
    host: str | None
    port: int

    @property
    def purpose(self) -> str:
        """The purpose of the port, as error messages name it."""
        if "port of server" in self.key:
            return "the learner port" if self.key.startswith("the first") else "the election port"
        return "clients" if "client" in self.key.lower() else "HTTP"

    def clashes(self, other: ListenAddress) -> bool:
        if self.port != other.port:
            return False
        hosts = {"127.0.0.1" if host == "localhost" else host for host in (self.host, other.host)}
        return len(hosts) == 1 or bool(hosts & _ALL)


def check_clashes(source: ZooSource, ports: Iterable[ListenAddress]) -> None:
    for one, other in combinations(ports, 2):
        if one.clashes(other):
            source.problems.append(
                f"{source.path}: {one.key} and {other.key} are both {one.port}: give each a port of its own"
            )


def http_ports(source: ZooSource, groups: dict[str, dict[str, Any]]) -> dict[str, AdminSettings | None]:
    """Return the settings of the two HTTP ports by their names, `admin` and `metrics`. None: the port is off.

    The admin port is on if `admin.enableServer` is true or, without this key, if `admin.serverPort` is set. The
    metrics' port is on if Prometheus's provider is set. A port with invalid settings is left out, after a problem is
    recorded.
    """
    provider = source.text("metricsProvider.className", None)
    prometheus = provider is not None and provider.endswith("PrometheusMetricsProvider")
    if provider is not None and not prometheus and not provider.endswith("DefaultMetricsProvider"):
        source.warn("metricsProvider.className", "without effect: only Prometheus's provider is known here")
    wanted = {
        "admin": source.value("admin.enableServer", "admin.serverPort" in source.entries),
        "metrics": prometheus,
    }
    made: dict[str, AdminSettings | None] = {}
    hosts = groups.get("admin", {}).get("hosts", frozenset())
    defaults: dict[str, dict[str, Any]] = {
        "admin": {"host": LOOPBACK, "port": 8080, "parts": PARTS},
        "metrics": {"host": EVERYWHERE, "port": 7000, "parts": frozenset({"metrics"}), "hosts": hosts},
    }
    for name, default in defaults.items():
        fields = {**default, **groups.get(name, {})}
        try:
            settings = AdminSettings(**fields)
        except ConfigError as error:
            source.problems.append(f"{source.path}: {error}")
            continue
        made[name] = settings if wanted[name] else None
    _warn_of_admin_address(source, made.get("admin"))
    return made


def _warn_of_admin_address(source: ZooSource, admin: AdminSettings | None) -> None:
    if admin is None:
        return
    entry = source.entries.get("admin.serverAddress")
    if entry is None:
        source.warnings.append(
            f"{source.path}: admin.serverAddress is missing: the admin port listens on {admin.host} alone, "
            "unlike ZooKeeper's, which listens on all interfaces. 0.0.0.0 opens it to other hosts; "
            "metricsProvider.className opens a port for Prometheus that shows metrics alone"
        )
    elif not is_loopback(admin.host):
        source.warn(
            entry.key,
            "the admin port has no TLS, and few commands require a login: a client that reaches it can read addresses, "
            "session ids and paths, whatever the ACLs, and reset statistics. Restrict access to it, or listen on "
            "127.0.0.1",
        )
