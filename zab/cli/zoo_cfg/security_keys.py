"""The keys of authentication and of the audit log at the client port."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from zab.cli.zoo_cfg.zoo_source import ZooSource
from zab.config import values
from zab.config.jaas import QUORUM_LEARNER, QUORUM_SERVER, SERVER, digest_login, digest_users, parse_jaas
from zab.core.errors import ConfigError
from zab.runtime.store_server.audit import AuditSettings
from zab.runtime.store_server.security_settings import Provider, SecuritySettings
from zab.service.zookeeper_peers import QuorumSasl

LOGIN_FILE: Final = "java.security.auth.login.config"
_QUORUM_AUTH: Final = ("enableSasl", "learnerRequireSasl", "serverRequireSasl")
PROVIDERS: Final = "zab.providers"
"""The group of entry points in which `authProvider.N` is looked up."""

_KNOWN: Final = {
    "IPAuthenticationProvider": "ip",
    "DigestAuthenticationProvider": "digest",
    "SASLAuthenticationProvider": "sasl",
    "X509AuthenticationProvider": "x509",
    "EnsembleAuthenticationProvider": "ensemble",
}
_CLASS: Final = re.compile(r"(?:org\.apache\.zookeeper\.server\.auth\.)?(\w+)")


def audit_settings(source: ZooSource) -> AuditSettings | None:
    """Return the settings of the audit log; None if it is off, as by default."""
    return AuditSettings(source.value("audit.file") or None) if source.value("audit.enable", False) else None


def security_settings(source: ZooSource) -> SecuritySettings:
    extra, providers = _providers(source)
    required: frozenset[str] = frozenset()
    demands = "enforce.auth.schemes"
    if source.value("sessionRequireClientSASLAuth", False):
        required, demands = frozenset({"sasl"}), "sessionRequireClientSASLAuth"
    elif source.value("enforce.auth.enabled", False):
        required = values.names(source.text("enforce.auth.schemes"))
        if not required:
            raise ConfigError("enforce.auth.enabled=true: enforce.auth.schemes must name the schemes, as in `sasl`")
    users = _sasl_users(source)
    if "sasl" in required and not users and "sasl" not in extra and "sasl" not in providers:
        login = source.text(LOGIN_FILE)
        lack = f"{login} has no section {SERVER!r}" if login else f"{LOGIN_FILE} is missing, which names a JAAS file"
        raise ConfigError(
            f"{demands}={source.text(demands)}: no client can log in by SASL, because there are no users: {lack}"
        )
    settings = partial(
        SecuritySettings,
        digest=source.value("DigestAuthenticationProvider.enabled", True),
        sasl_users=users,
        sasl_super=frozenset(
            entry.value for key, entry in source.entries.items() if key == "superUser" or key.startswith("superUser.")
        ),
        sasl_any=source.value("letAnySaslUserDoX"),
        sasl_tolerant=source.value("allowSaslFailedClients", False),
        strip_host=source.value("kerberos.removeHostFromPrincipal", False),
        strip_realm=source.value("kerberos.removeRealmFromPrincipal", False),
        x509_super=source.value("X509AuthenticationProvider.superUser"),
        required=required,
        ensemble_names=values.names(source.text("ensembleAuthName")) if "ensemble" in extra else None,
        extra_schemes=frozenset(extra) - {"ensemble"},
        providers=providers,
    )
    try:
        return settings()
    except ConfigError as error:
        raise ConfigError(f"{demands}={source.text(demands)}: {error}") from error


def _sasl_users(source: ZooSource) -> Mapping[str, str]:
    path = source.text(LOGIN_FILE)
    if not path:
        return {}
    text, section = _read_text(path, LOGIN_FILE), source.value("sasl.serverconfig")
    if section is None and SERVER not in parse_jaas(text, path):
        return {}  # as in ZooKeeper: the file may be for clients, or for other programs
    users = digest_users(text, section or SERVER, path)
    password = source.value("SASLAuthenticationProvider.superPassword")
    if password is not None and "super" in users:
        users["super"] = password
    return users


def quorum_sasl(source: ZooSource) -> QuorumSasl | None:
    """Return the settings of SASL between servers; None if it is off. They depend on each other as in ZooKeeper.

    Raise `ConfigError` if keys contradict each other, or the JAAS file lacks a section or asks for Kerberos.
    """
    enabled, learner, server = (source.value(f"quorum.auth.{key}", False) for key in _QUORUM_AUTH)
    for needed, key, is_on in ((enabled, "learnerRequireSasl", learner), (learner, "serverRequireSasl", server)):
        if is_on and not needed:
            missing = "enableSasl" if needed is enabled and not enabled else "learnerRequireSasl"
            raise ConfigError(f"quorum.auth.{key}=true: it requires quorum.auth.{missing}=true")
    if not enabled:
        return None
    path = source.text(LOGIN_FILE)
    if not path:
        raise ConfigError(
            f"quorum.auth.enableSasl=true: {LOGIN_FILE} is missing, which names a JAAS file. For ZooKeeper it is a "
            "system property of Java; here it is a key of this file, or an option -D"
        )
    text = _read_text(path, LOGIN_FILE)
    learners = source.text("quorum.auth.learner.saslLoginContext", QUORUM_LEARNER)
    servers = source.text("quorum.auth.server.saslLoginContext", QUORUM_SERVER)
    login, users = digest_login(text, learners, path), digest_users(text, servers, path)
    return QuorumSasl(login if learner else None, users, server)


def _read_text(path: str, key: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ConfigError(f"{key}={path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key}={path}: not a text file: {error}") from error


def _providers(source: ZooSource) -> tuple[set[str], dict[str, Provider]]:
    """Return what the keys `authProvider.N` name: schemes of ZooKeeper's classes, and loaded providers by scheme.

    The schemes leave out `ip` and `digest`, which are known without these keys.
    """
    schemes: set[str] = set()
    providers: dict[str, Provider] = {}
    for key, entry in source.entries.items():
        if not key.startswith("authProvider."):
            continue
        known = _CLASS.fullmatch(entry.value.strip())
        if known is not None and known[1] in _KNOWN:
            schemes.add(_KNOWN[known[1]])
            continue
        provider = _load_provider(entry.value.strip(), key)
        providers[str(provider.scheme)] = provider
    return schemes - {"ip", "digest"}, providers


def _load_provider(name: str, key: str) -> Any:
    """Load a provider by its name. As in ZooKeeper, the provider itself names its `scheme`."""
    found = tuple(entry_points(group=PROVIDERS, name=name))
    if ":" not in name and len(found) != 1:
        known = ", ".join(sorted(_KNOWN))
        why = "several entry points have this name" if found else "no such provider"
        raise ConfigError(
            f"{key}={name}: {why}. It may be one of {known}, the name of an entry point "
            f"in the group {PROVIDERS!r}, or `module:name`; a Java class cannot be loaded here"
        )
    try:
        if ":" in name:
            module, _, attribute = name.partition(":")
            made = getattr(import_module(module), attribute)
        else:
            made = found[0].load()
        provider = made() if callable(made) else made
    except Exception as error:
        raise ConfigError(f"{key}={name}: the provider cannot be loaded: {error!r}") from error
    if not isinstance(getattr(provider, "scheme", None), str) or not callable(getattr(provider, "authenticate", None)):
        raise ConfigError(f"{key}={name}: not a provider: it needs a `scheme` and a method `authenticate`")
    return provider
