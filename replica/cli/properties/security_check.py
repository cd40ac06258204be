"""Warnings about valid settings that are insecure, keep brokers or clients from connecting, or have no effect."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from replica.cli.properties.listeners import PROTOCOL_MAP
from replica.cli.properties.properties_source import PropertiesSource
from replica.cli.properties.security_properties import JAAS, SASL, TLS, key_store_of
from replica.core.security.acl_authorization import AclSettings
from replica.core.security.sasl_plain import PLAIN
from replica.runtime.configuration.broker_config import PLAINTEXT, Listener, Peers
from zab.core.errors import ConfigError, WireError
from zab.wire.certificates import validity_of

ANONYMOUS: Final = "User:ANONYMOUS"
_CLIENT_AUTH: Final = "ssl.client.auth"
_SUPERS: Final = "super.users"


def advise(
    source: PropertiesSource,
    listeners: Sequence[Listener],
    inter_broker: str | None,
    controller: Listener,
    peers: Peers,
    acls: AclSettings | None,
    now: datetime,
) -> None:
    every = (*listeners, controller)
    brokers = next((each for each in listeners if each.name == inter_broker), None)
    _commands(source, brokers, controller, acls)
    _nameless_brokers(source, brokers, controller, acls)
    _nameless_supers(source, every, acls)
    _unknown_peers(source, brokers, peers)
    _jaas_of_no_mechanism(source, {each.name for each in every})
    _unused(source, every)
    for each in every:
        if each.tls is not None and not (each is controller and _is_as(brokers, controller)):
            _anybodys_certificate(source, each)
            _out_of_date(source, each, now)


def _is_as(brokers: Listener | None, controller: Listener) -> bool:
    """Return whether the controller listener has the TLS context of the inter-broker listener, because it has no
    settings of its own."""
    return brokers is not None and controller.tls is brokers.tls


def _authenticates(listener: Listener) -> bool:
    """Return whether clients of this listener must authenticate with SASL or a certificate."""
    return listener.sasl is not None or (listener.tls is not None and listener.tls.verify_mode is ssl.CERT_REQUIRED)


def _commands(
    source: PropertiesSource, brokers: Listener | None, controller: Listener, acls: AclSettings | None
) -> None:
    """Warn if the listener for controllers does not authenticate them although the inter-broker listener is protected.

    There is no warning if the inter-broker listener is PLAINTEXT, or if an authorizer refuses everyone without an ACL:
    it then refuses the commands of such clients.
    """
    refuses = acls is not None and not acls.open_by_default
    if refuses or brokers is None or brokers.protocol == PLAINTEXT or _authenticates(controller):
        return
    risk = "any client that reaches listener CONTROLLER can send commands to this broker, for example delete its logs"
    if controller.protocol == PLAINTEXT:
        source.warn(
            PROTOCOL_MAP,
            f"{risk}: set the protocol of {controller.name} to that of the inter-broker listener, {brokers.protocol}",
        )
    else:
        key = _key(source, brokers if _is_as(brokers, controller) else controller, _CLIENT_AUTH)
        source.warn(key, f"{risk}: set {_CLIENT_AUTH}=required")


def _nameless_brokers(
    source: PropertiesSource, brokers: Listener | None, controller: Listener, acls: AclSettings | None
) -> None:
    if acls is None or ANONYMOUS in acls.super_users or acls.open_by_default:
        return
    for each in (brokers, controller):
        if each is not None and each.sasl is None and (each.tls is None or each.tls.verify_mode is ssl.CERT_NONE):
            source.warn(
                _SUPERS,
                f"brokers connect to listener {each.name} as {ANONYMOUS}, which is not a super user: without an "
                "ACL for it they receive no commands and cannot replicate. Use SASL or client certificates",
            )
            return


def _nameless_supers(source: PropertiesSource, every: Sequence[Listener], acls: AclSettings | None) -> None:
    if acls is None or ANONYMOUS not in acls.super_users:
        return
    unguarded = [each.name for each in every if not _authenticates(each)]
    if unguarded:
        risk = f"unauthenticated clients may do everything at {', '.join(unguarded)}"
        source.warn(_SUPERS, f"{risk}: remove {ANONYMOUS}, or require authentication there")


def _unknown_peers(source: PropertiesSource, brokers: Listener | None, peers: Peers) -> None:
    """Warn if this broker could not log in to its own listener with its inter-broker user: brokers usually have the
    same users."""
    identity = peers.identity
    if identity is None or identity.mechanism != PLAIN or brokers is None or brokers.sasl is None:
        return
    users = brokers.sasl.users or {}
    if users.get(identity.name) != identity.password:
        key = f"listener.name.{brokers.name.lower()}.{PLAIN.lower()}.{JAAS}"
        why = "has a different password there" if identity.name in users else "is not one of the users there"
        source.warn(
            key, f"brokers authenticate to each other as {identity.name}, which {why}: set user_{identity.name}=..."
        )


def _jaas_of_no_mechanism(source: PropertiesSource, names: Collection[str]) -> None:
    for name in sorted(names):
        key = f"listener.name.{name.lower()}.{JAAS}"
        if key in source:
            source.warn(
                key, f"without effect: set it for a mechanism, for example listener.name.{name.lower()}.plain.{JAAS}"
            )


def _unused(source: PropertiesSource, listeners: Sequence[Listener]) -> None:
    """Warn about keys of TLS and SASL that no listener uses. Their values are not checked: a file that a key names may
    be missing."""
    groups = (
        ("TLS", "SSL or SASL_SSL", TLS, {each.name for each in listeners if each.tls is not None}),
        ("SASL", "SASL_PLAINTEXT or SASL_SSL", SASL, {each.name for each in listeners if each.sasl is not None}),
    )
    for what, protocols, keys, users in groups:
        for key in sorted(keys):
            if key in source and source.text(key) and not users:
                source.warn(key, f"without effect: no listener uses {what} (protocol {protocols})")
            for each in listeners:
                own = f"listener.name.{each.name.lower()}.{key}"
                if own in source and each.name not in users:
                    source.warn(own, f"without effect: this listener does not use {what} (protocol {protocols})")


def _anybodys_certificate(source: PropertiesSource, listener: Listener) -> None:
    assert listener.tls is not None
    if listener.tls.verify_mode is ssl.CERT_REQUIRED and not source.at(listener.name).text("ssl.truststore.location"):
        key = _key(source, listener, _CLIENT_AUTH)
        source.warn(
            key,
            f"ssl.truststore.location is not set, so listener {listener.name} accepts every certificate that an "
            "authority trusted by the operating system has signed: set the accepted authorities",
        )


def _out_of_date(source: PropertiesSource, listener: Listener, now: datetime) -> None:
    key = _key(source, listener, "ssl.keystore.location")
    try:
        begins, ends = validity_of(key_store_of(source, listener.name).certificate())
    except (ConfigError, WireError):
        return  # not expected: the certificate was loaded before, and has both dates
    if now.timestamp() > ends:
        source.warn(key, f"its certificate expired at {_said(ends)}: clients reject it")
    elif now.timestamp() < begins:
        source.warn(key, f"its certificate is not valid before {_said(begins)}: clients reject it")


def _said(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _key(source: PropertiesSource, listener: Listener, key: str) -> str:
    """Return the key that the file sets for this listener, with or without the prefix."""
    return source.at(listener.name).name(key)
