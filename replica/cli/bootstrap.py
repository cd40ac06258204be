"""The connection of a command to brokers: its options, and how errors of brokers end the command."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import trio

from kraft_controller.cli.store_connection import json_option
from replica.cli.command_config import CommandConfig, read_command_config
from replica.core.errors import KafkaError, WireError
from replica.runtime.authentication.sasl_authenticator import MECHANISMS
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.network.broker_client import Address, connect, parse_bootstrap
from replica.runtime.network.broker_connection import (
    CERTIFICATE_REQUIRED,
    CLOSED_BY_BROKER,
    ClientSettings,
    Unreachable,
)
from zab.cli.kit.failures import Misused, run_in_trio
from zab.cli.kit.options import SECONDS, not_here
from zab.cli.kit.output import progress
from zab.cli.kit.verb_group import Arguments, Handler, Verbs, params_of
from zab.host.logs import RateLimit

BOOTSTRAP: Final = "127.0.0.1:9092"
FILE: Final = click.Path(path_type=Path)
ELECTION_S: Final = 2.0
"""The time for which retries because of an error code are not reported."""
_AT_BROKERS: Final = "this command needs a broker: --bootstrap HOST:PORT"


def _addresses(text: str) -> list[Address]:
    try:
        return parse_bootstrap(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _identity(text: str) -> Identity:
    mechanism, _, rest = text.partition(":")
    user, colon, password = rest.partition(":")
    if mechanism not in MECHANISMS or not user or not colon:
        raise click.BadParameter(f"expected MECHANISM:USER:PASSWORD; MECHANISM is one of {', '.join(MECHANISMS)}")
    return Identity(mechanism, user, password)


_BOOTSTRAP: Final = click.option(
    "--bootstrap",
    type=_addresses,
    metavar="HOST:PORT,...",
    help=f"Brokers to connect to first; one is enough.  [default: {BOOTSTRAP}]",
)
_WITHIN: Final = click.option(
    "--within",
    type=SECONDS,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long temporary errors, such as a missing leader, are retried, and how long one reply may take.",
)
_SECURITY: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--login",
        type=_identity,
        metavar="MECHANISM:USER:PASSWORD",
        help=f"Authenticate with SASL. MECHANISM is one of {', '.join(MECHANISMS)}.",
    ),
    click.option("--tls", is_flag=True, help="Use TLS. Implied by --ca, --cert and --key."),
    click.option("--ca", type=FILE, metavar="FILE", help="The authority that signs the brokers' certificates (PEM)."),
    click.option("--cert", type=FILE, metavar="FILE", help="The certificate of this client (PEM)."),
    click.option("--key", type=FILE, metavar="FILE", help="The key of --cert, if it is not in the same file (PEM)."),
    click.option(
        "--command-config",
        type=FILE,
        metavar="FILE",
        help="A properties file as for Kafka's tools: security.protocol, ssl.*, sasl.*. The options above override "
        "its keys.",
    ),
)


def broker_options() -> list[click.Parameter]:
    return [*params_of(_BOOTSTRAP, _WITHIN, *_SECURITY), *not_here(_AT_BROKERS, "--store", "--zookeeper")]


def console_broker_options() -> list[click.Parameter]:
    """Return the options about brokers without the time limit: the pages of a console have their own."""
    return params_of(_BOOTSTRAP, *_SECURITY)


def verb_options() -> list[click.Parameter]:
    return [*params_of(json_option), *broker_options()]


class BrokerVerbs(Verbs):
    """A command whose verbs send requests to brokers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, connect=with_client, common=verb_options, **options)


class RetryReport:
    """Reports retries of temporary errors on stderr, with at most one line in ten seconds.

    A broker that cannot be reached is reported at once. Other errors are reported only after `ELECTION_S`, since
    elections and the creation of topics on demand usually take less.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._limit = RateLimit()

    def on_retry(self, error: Exception, waited_s: float) -> None:
        if not isinstance(error, Unreachable) and waited_s < ELECTION_S:
            return
        if self._limit.suppressed("retry", trio.current_time()) is None:
            return
        progress(f"{error}; retrying for up to {self._patience_s - waited_s:.0f} s")


def connection_of(arguments: Arguments) -> tuple[list[Address], ssl.SSLContext | None, Identity | None]:
    """Return the addresses, the TLS settings and the identity from the options and the file of --command-config."""
    file = CommandConfig() if arguments.command_config is None else read_command_config(arguments.command_config)
    bootstrap = arguments.bootstrap or file.bootstrap or _addresses(BOOTSTRAP)
    return bootstrap, _tls(arguments) or file.tls, arguments.login or file.identity


def with_client(handler: Handler, arguments: Arguments) -> int:
    """Run the handler with a client. A broker error ends the command with one line on stderr."""
    bootstrap, tls, identity = connection_of(arguments)

    async def main() -> int:
        report = RetryReport(arguments.within)
        settings = ClientSettings(request_s=arguments.within, patience_s=arguments.within, on_retry=report.on_retry)
        async with connect(bootstrap, settings, tls, identity) as client:
            return await handler(client, arguments)

    return run_in_trio(
        main,
        expected=(KafkaError, WireError, Unreachable),
        describe=lambda error: f"{error}{_hint(error, arguments, tls=tls is not None, login=identity is not None)}",
    )


def _hint(error: BaseException, arguments: Arguments, *, tls: bool, login: bool) -> str:
    """Return a hint if the options for TLS or authentication may be incomplete, or not supported by the listener; else
    an empty text. In both cases a broker may close the connection without a reason."""
    if CERTIFICATE_REQUIRED in str(error):
        return ": use --cert, or ssl.keystore.location in the file of --command-config"
    if CLOSED_BY_BROKER not in str(error):
        return ""
    file = arguments.command_config is not None
    given = {"--tls": tls, "--cert": arguments.cert is not None or (file and tls), "--login": login}
    missing = [option for option, is_given in given.items() if not is_given]
    hint = f"; if it requires TLS or authentication, use {', '.join(missing)}" if missing else ""
    if missing and not file:
        hint += ", or --command-config"
    used = [name for name, is_used in (("TLS", tls), ("SASL", login)) if is_used]
    return f"{hint}; {'or' if hint else 'perhaps'} the listener does not use {' or '.join(used)}" if used else hint


def _tls(arguments: Arguments) -> ssl.SSLContext | None:
    if not arguments.tls and arguments.ca is None and arguments.cert is None and arguments.key is None:
        return None
    try:
        context = ssl.create_default_context(cafile=arguments.ca)
    except OSError as error:
        raise Misused(f"--ca {arguments.ca}: {error}") from None
    if arguments.cert is not None:
        try:
            context.load_cert_chain(arguments.cert, arguments.key, _no_password)
        except OSError as error:
            raise Misused(f"--cert {arguments.cert}: {error}") from None
    elif arguments.key is not None:
        raise Misused("--key requires --cert")
    return context


def _no_password() -> str:
    raise Misused("--cert: its key has a password; set ssl.key.password in the file of --command-config")
