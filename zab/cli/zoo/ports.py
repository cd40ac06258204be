"""The ports beside the plain one for clients: with TLS, between servers, for operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, Final

from attrs import frozen

from zab.cli.zoo.source import Source
from zab.core.errors import ConfigError
from zab.runtime.admin.settings import PARTS, AdminSettings
from zab.runtime.tls.quorum import QuorumTls
from zab.runtime.tls.settings import TlsPortSettings

EVERYWHERE: Final = "0.0.0.0"
_ALL: Final = frozenset({None, EVERYWHERE, "::"})
_SASL_QUORUM: Final = ("quorum.auth.enableSasl", "quorum.auth.learnerRequireSasl", "quorum.auth.serverRequireSasl")


def client_tls(source: Source, properties: Mapping[str, str]) -> TlsPortSettings | None:
    """For the secure port, for the plain one that takes both, or for none."""
    wanted = "secureClientPort" in source.told or source.value("client.portUnification", False)
    tls = TlsPortSettings.from_properties(properties)
    if not wanted:
        if tls is not None:
            source.warn(
                source.told["ssl.keyStore.location"],
                "without effect: neither secureClientPort nor client.portUnification",
            )
        return None
    if tls is None:
        _missing(source, "ssl.", "a port that speaks TLS needs a key and a certificate")
        return None
    if not _readable(source, tls):
        return None
    tls.server_context()  # whatever cannot be read is told now, with the rest
    return tls


def quorum_tls(source: Source, properties: Mapping[str, str]) -> QuorumTls | None:
    wanted = source.value("sslQuorum", False)
    for name in _SASL_QUORUM:
        if source.value(name, False):
            source.problem(
                source.told[name],
                "servers do not ask each other for SASL here, and would not be protected at all: let sslQuorum=true "
                "and the keys ssl.quorum.* do it, and take this line out",
            )
    try:
        settings = TlsPortSettings.from_properties(properties, quorum=True)
        if not wanted:
            return None
        if settings is None:
            _missing(source, "ssl.quorum.", "with sslQuorum, servers need a key and a certificate")
            return None
        if not _readable(source, settings):
            return None
        tls = QuorumTls(settings)
        _ = tls.server_context, tls.client_context
        return tls
    except ConfigError as error:
        source.blame(error)
        return None


def _missing(source: Source, prefix: str, why: str) -> None:
    source.missing(f"{prefix}keyStore.location", why)
    if f"{prefix}trustStore.location" not in source.told and source.text(f"{prefix}clientAuth") != "none":
        source.missing(f"{prefix}trustStore.location", "those who come need somebody to have signed their certificates")


def _readable(source: Source, tls: TlsPortSettings) -> bool:
    """Both, before either is understood: else the second is told only when the first is mended."""
    before = len(source.problems)
    for store in (tls.key_store, tls.trust_store):
        try:
            if store is not None:
                store.read()
        except ConfigError as error:
            source.blame(error)
    return len(source.problems) == before


@frozen
class Listens:
    """A port of this server, and the key that says so."""

    key: str
    host: str | None
    port: int

    def clashes(self, other: Listens) -> bool:
        if self.port != other.port:
            return False
        hosts = {"127.0.0.1" if host == "localhost" else host for host in (self.host, other.host)}
        return len(hosts) == 1 or bool(hosts & _ALL)


def check_clashes(source: Source, ports: Iterable[Listens]) -> None:
    for one, other in combinations(ports, 2):
        if one.clashes(other):
            source.problems.append(
                f"{source.path}: {one.key} and {other.key} are both {one.port}: give each a port of its own"
            )


def http_ports(source: Source, groups: dict[str, dict[str, Any]]) -> dict[str, AdminSettings | None]:
    """The admin port where it is asked for, and the metrics' own where Prometheus is."""
    provider = source.text("metricsProvider.className")
    prometheus = provider is not None and provider.endswith("PrometheusMetricsProvider")
    if provider is not None and not prometheus and not provider.endswith("DefaultMetricsProvider"):
        source.warn(
            source.told["metricsProvider.className"], "without effect: only Prometheus's provider is known here"
        )
    wanted = {
        "admin": source.value("admin.enableServer", "admin.serverPort" in source.told),
        "metrics": prometheus,
    }
    made: dict[str, AdminSettings | None] = {}
    for name, parts in (("admin", PARTS), ("metrics", frozenset({"metrics"}))):
        fields = {
            "host": EVERYWHERE,
            "port": {"admin": 8080, "metrics": 7000}[name],
            "parts": parts,
            **groups.get(name, {}),
        }
        try:
            settings = AdminSettings(**fields)
        except ConfigError as error:
            source.problems.append(f"{source.path}: {error}")
            continue
        made[name] = settings if wanted[name] else None
    return made
