"""`--command-config FILE`: how a command comes in at brokers, in the file that Kafka's own tools take.

Of a client's keys those are read that say how one comes in; whatever else stands there is for other programs. A key
about security that is not understood is a mistake: to pass over it would not be safe.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from attrs import frozen

from kraft_controller.cli.common import Misuse
from replica.cli.properties.keys import PROTOCOLS
from replica.cli.properties.security import HARMLESS, JAAS, TLS, identified, load, login_options
from replica.cli.properties.source import Misconfigured, Scope, Source
from replica.runtime.client import Address, parse_bootstrap
from replica.runtime.sasl import MECHANISMS, Identity
from zab.cli.zoo.properties import decode

_SERVERS: Final = "bootstrap.servers"
_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_OF_BROKERS: Final = frozenset({"ssl.client.auth", "ssl.principal.mapping.rules"})
_KNOWN: Final = (TLS - _OF_BROKERS) | HARMLESS | {_PROTOCOL, _MECHANISM, JAAS}


@frozen
class CommandConfig:
    """bootstrap   None: the file does not say it
    tls         None: in plain text
    """

    bootstrap: list[Address] | None = None
    tls: ssl.SSLContext | None = None
    identity: Identity | None = None


def read_command_config(path: Path) -> CommandConfig:
    """`Misuse` with everything that is wrong."""
    try:
        text = decode(path.read_bytes())
    except OSError as error:
        raise Misuse(f"--command-config {path}: it cannot be read: {error.strerror}") from None
    try:
        source = Source.of(str(path), text, {}, _KNOWN | {_SERVERS})
        made = _read(source)
        if source.problems:
            raise Misconfigured(source.problems)
    except Misconfigured as error:
        raise Misuse("\n  ".join(["this says not how to come in:", *error.problems])) from None
    return made


def _read(source: Source) -> CommandConfig:
    for key in source.entries:
        if key.startswith(("ssl.", "sasl.", "security.")) and key not in _KNOWN:
            source.problem(key, "it is not understood here, and to pass over it would not be safe")
    protocol = source.text(_PROTOCOL, PROTOCOLS[0]).upper()
    if protocol not in PROTOCOLS:
        source.problem(_PROTOCOL, f"expected one of {', '.join(PROTOCOLS)}")
    return CommandConfig(
        source.tried(_servers, default=None),
        source.tried(_tls, default=None) if protocol.endswith("SSL") else None,
        source.tried(_identity, default=None) if protocol.startswith("SASL") else None,
    )


def _servers(source: Source) -> list[Address] | None:
    if _SERVERS not in source:
        return None
    try:
        return parse_bootstrap(source.text(_SERVERS))
    except ValueError as error:
        raise source.wrong(_SERVERS, error) from None


def _tls(source: Source) -> ssl.SSLContext:
    scope = Scope(source, "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load(scope, context, "ssl.")
    if not source.text("ssl.truststore.location"):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    context.check_hostname = identified(scope, "ssl.endpoint.identification.algorithm")
    return context


def _identity(source: Source) -> Identity:
    mechanism = source.text(_MECHANISM)
    if mechanism not in MECHANISMS:
        raise source.wrong(_MECHANISM, f"expected one of {', '.join(MECHANISMS)}")
    options = login_options(source, JAAS)
    missing = [option for option in ("username", "password") if not options.get(option)]
    if missing:
        raise source.wrong(
            JAAS, f'it is like `... required username="ann" password="hers";`: no {" and no ".join(missing)}'
        )
    return Identity(mechanism, options["username"], options["password"])
