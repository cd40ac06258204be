"""`--command-config FILE`: TLS and SASL settings of a command, in the file format of Kafka's tools.

Only keys about the connection are read. A warning reports the other keys, for example of producers. An unknown key
about security is an error, because ignoring it would not be safe.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final

from attrs import frozen

from replica.cli.properties.keys import PROTOCOLS
from replica.cli.properties.properties_source import Scope
from replica.cli.properties.security_properties import HARMLESS, JAAS, TLS, client_tls, login_options
from replica.runtime.authentication.sasl_authenticator import MECHANISMS
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.network.broker_client import Address, parse_bootstrap
from zab.cli.kit.failures import Misused
from zab.cli.kit.output import progress
from zab.config.config_source import BadConfig, ConfigSource
from zab.config.key_table import KeyTable, read
from zab.config.properties_file import decode
from zab.config.values import text as any_text

_SERVERS: Final = "bootstrap.servers"
_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_OF_BROKERS: Final = frozenset({"ssl.client.auth", "ssl.principal.mapping.rules"})
_KNOWN: Final = (TLS - _OF_BROKERS) | HARMLESS | {_PROTOCOL, _MECHANISM, JAAS}
_TABLE: Final = KeyTable((("", tuple(read(key, "", any_text, "") for key in sorted({*_KNOWN, _SERVERS}))),))

NAMED_MAX: Final = 5
"""The maximum number of ignored keys that the warning names."""


@frozen
class CommandConfig:
    """TLS, SASL and bootstrap addresses of a command. None for those that the file does not set."""

    bootstrap: list[Address] | None = None
    tls: ssl.SSLContext | None = None
    """The TLS context; None for plaintext."""
    identity: Identity | None = None


def read_command_config(path: Path) -> CommandConfig:
    """Read the file. Raise `Misused` with all mistakes."""
    try:
        text = decode(path.read_bytes())
    except OSError as error:
        raise Misused(f"--command-config {path}: cannot read the file: {error.strerror}") from None
    try:
        source = ConfigSource.of_text(path, _TABLE, text)
        made = _read(source)
        if source.problems:
            raise BadConfig(source.problems)
        unknown = [key for key in source.entries if key not in _KNOWN and key != _SERVERS]
        if unknown:
            # Print only what looks like the name of a key: if FILE is the wrong file, its lines may be secrets.
            named = [key for key in unknown if re.fullmatch(r"[a-z]+(\.[a-z]+)*", key)][:NAMED_MAX]
            shown = f": {', '.join(named)}" if named else ""
            progress(f"warning: --command-config {path}: ignored keys ({len(unknown)}){shown}")
    except BadConfig as error:
        raise Misused("\n  ".join(["invalid configuration:", *error.problems])) from None
    return made


def _read(source: ConfigSource) -> CommandConfig:
    for key in source.entries:
        if key.startswith(("ssl.", "sasl.", "security.")) and key not in _KNOWN:
            source.problem(key, "unknown key about security: ignoring it would not be safe")
    protocol = source.text(_PROTOCOL, PROTOCOLS[0]).upper()
    if protocol not in PROTOCOLS:
        source.problem(_PROTOCOL, f"expected one of {', '.join(PROTOCOLS)}")
    return CommandConfig(
        source.attempt(_servers),
        source.attempt(lambda source: client_tls(Scope(source))) if protocol.endswith("SSL") else None,
        source.attempt(_identity) if protocol.startswith("SASL") else None,
    )


def _servers(source: ConfigSource) -> list[Address] | None:
    if _SERVERS not in source:
        return None
    try:
        return parse_bootstrap(source.text(_SERVERS))
    except ValueError as error:
        raise source.wrong(_SERVERS, error) from None


def _identity(source: ConfigSource) -> Identity:
    mechanism = source.text(_MECHANISM)
    if mechanism not in MECHANISMS:
        raise source.wrong(_MECHANISM, f"expected one of {', '.join(MECHANISMS)}")
    options = login_options(source, JAAS)
    missing = [option for option in ("username", "password") if not options.get(option)]
    if missing:
        raise source.wrong(
            JAAS, f'expected `... required username="ann" password="hers";`: {" and ".join(missing)} missing'
        )
    return Identity(mechanism, options["username"], options["password"])
