"""The broker's connection to its store: TLS, authentication, and the ACLs of its nodes."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from replica.cli.properties.properties_source import PropertiesSource, Scope
from replica.cli.properties.security_properties import client_tls
from replica.runtime.store.store_login import StoreLogin
from zab.config.jaas import parse_jaas
from zab.core.errors import ConfigError

PREFIX: Final = "zookeeper.ssl."
LOGIN: Final = "java.security.auth.login.config"
SECTION: Final = "zookeeper.sasl.clientconfig"
CLOSED: Final = "zookeeper.set.acl"


def store_login_of(source: PropertiesSource) -> StoreLogin:
    tls = _tls(source)
    sasl = _sasl(source)
    closed: bool = source.value(CLOSED, False)
    if closed and sasl is None and (tls is None or not source.text(f"{PREFIX}keystore.location")):
        why = f"this requires credentials for the store: set {LOGIN} or {PREFIX}keystore.location"
        raise source.wrong(CLOSED, why)
    return StoreLogin(tls, sasl, closed)


def _tls(source: PropertiesSource) -> ssl.SSLContext | None:
    if not source.value(f"{PREFIX}client.enable", False):
        return None
    for key in (f"{PREFIX}crl.enable", f"{PREFIX}ocsp.enable"):
        if source.value(key, False):
            raise source.wrong(key, "revocation of certificates is not checked")
    return client_tls(Scope(source), PREFIX)


def _sasl(source: PropertiesSource) -> tuple[str, str] | None:
    """Read user name and password from a section of a JAAS file. Return None if no file is set."""
    path = source.text(LOGIN)
    if not path:
        return None
    section = source.text(SECTION, "Client")
    try:
        sections = parse_jaas(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise source.wrong(LOGIN, error) from None
    for module, options in sections.get(section, ()):
        if not module.endswith("DigestLoginModule"):
            raise source.wrong(LOGIN, f"section {section}: {module}: only DigestLoginModule is supported")
        if options.get("username") and options.get("password"):
            return options["username"], options["password"]
    raise source.wrong(
        LOGIN, f"section {section} has no username and password; the file has the sections {', '.join(sections)}"
    )
