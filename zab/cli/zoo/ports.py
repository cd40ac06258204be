"""The ports beside the plain one for clients: with TLS, between servers, for operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zab.cli.zoo.source import Source
from zab.core.errors import ConfigError
from zab.runtime.admin.settings import PARTS, AdminSettings
from zab.runtime.tls.quorum import QuorumTls
from zab.runtime.tls.settings import TlsPortSettings

EVERYWHERE: Final = "0.0.0.0"


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
        source.missing("ssl.keyStore.location", "a port that speaks TLS needs a key and a certificate")
        return None
    tls.server_context()  # whatever cannot be read is told now, with the rest
    return tls


def quorum_tls(source: Source, properties: Mapping[str, str]) -> QuorumTls | None:
    if not source.value("sslQuorum", False):
        return None
    try:
        settings = TlsPortSettings.from_properties(properties, quorum=True)
        if settings is None:
            source.missing("ssl.quorum.keyStore.location", "with sslQuorum, servers need a key and a certificate")
            return None
        tls = QuorumTls(settings)
        _ = tls.server_context, tls.client_context
        return tls
    except ConfigError as error:
        source.blame(error)
        return None


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
