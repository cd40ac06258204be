"""For commands that ask brokers: where to find one, and how an answer that is none ends the command."""

from __future__ import annotations

import argparse
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from kraft_controller.cli.common import Failed, Misuse, not_here, verbs_with
from replica.cli.command_config import CommandConfig, read_command_config
from replica.core.errors import KafkaError, WireError
from replica.runtime.client import (
    HUNG_UP,
    NO_CERTIFICATE,
    Address,
    Client,
    ClientSettings,
    Unreachable,
    connect,
    parse_bootstrap,
)
from replica.runtime.sasl import MECHANISMS, Identity

BOOTSTRAP: Final = "127.0.0.1:9092"

Work = Callable[[Client, argparse.Namespace], Awaitable[int]]


def bootstrap_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the brokers")
    group.add_argument(
        "--bootstrap",
        type=_bootstrap,
        metavar="HOST:PORT,...",
        help=f"brokers to begin with; one is enough, it knows the others (default {BOOTSTRAP})",
    )
    group.add_argument(
        "--within",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long to try again what may pass, an election say (default 30)",
    )
    group.add_argument(
        "--login",
        type=_login,
        metavar="MECHANISM:USER:PASSWORD",
        help=f"who this is, where brokers want to know it; a mechanism is {', '.join(MECHANISMS)}",
    )
    group.add_argument("--tls", action="store_true", help="speak TLS; each of the following three means it, too")
    group.add_argument("--ca", type=Path, metavar="FILE", help="who signs the brokers' certificates (PEM)")
    group.add_argument("--cert", type=Path, metavar="FILE", help="who this is, where brokers want a certificate (PEM)")
    group.add_argument("--key", type=Path, metavar="FILE", help="the key of --cert, where it is not in the same file")
    group.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="all of this as Kafka's tools take it: security.protocol, ssl.*, sasl.*; what stands above goes before",
    )
    not_here(parser, "this is asked of brokers: --bootstrap HOST:PORT names one of them", "--store", "--zookeeper")


def verbs(parser: argparse.ArgumentParser) -> Callable[[str, Work, str], argparse.ArgumentParser]:
    return verbs_with(bootstrap_arguments, parser)


def asked(arguments: argparse.Namespace) -> int:
    """The `work` of a verb, with a client. What brokers have against it ends the command with a line."""
    import trio

    file = CommandConfig() if arguments.command_config is None else read_command_config(arguments.command_config)
    bootstrap = arguments.bootstrap or file.bootstrap or _bootstrap(BOOTSTRAP)
    tls, identity = _tls(arguments) or file.tls, arguments.login or file.identity

    async def main() -> int:
        settings = ClientSettings(request_s=arguments.within, patience_s=arguments.within)
        async with connect(bootstrap, settings, tls, identity) as client:
            code: int = await arguments.work(client, arguments)
            return code

    try:
        return trio.run(main)
    except (KafkaError, WireError, Unreachable) as error:
        raise Failed(f"{error}{_hint(error, identity)}") from None


def _hint(error: Exception, identity: Identity | None) -> str:
    """Brokers do not say why they hang up on somebody whom they do not know."""
    if NO_CERTIFICATE in str(error):
        return ": --cert, or ssl.keystore.location in the file of --command-config, says who this is"
    if HUNG_UP in str(error) and identity is None:
        return "; if it speaks TLS, or wants to know who this is: --tls, --cert, --login, or --command-config"
    return ""


def _bootstrap(text: str) -> list[Address]:
    try:
        return parse_bootstrap(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise ValueError(text)
    return seconds


def _login(text: str) -> Identity:
    mechanism, _, rest = text.partition(":")
    user, colon, password = rest.partition(":")
    if mechanism not in MECHANISMS or not user or not colon:
        raise argparse.ArgumentTypeError(f"it looks like MECHANISM:USER:PASSWORD, of {', '.join(MECHANISMS)}")
    return Identity(mechanism, user, password)


def _tls(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    if not arguments.tls and arguments.ca is None and arguments.cert is None and arguments.key is None:
        return None
    try:
        context = ssl.create_default_context(cafile=arguments.ca)
    except OSError as error:
        raise Misuse(f"--ca {arguments.ca}: {error}") from None
    if arguments.cert is not None:
        try:
            context.load_cert_chain(arguments.cert, arguments.key, _no_password)
        except OSError as error:
            raise Misuse(f"--cert {arguments.cert}: {error}") from None
    elif arguments.key is not None:
        raise Misuse("--key: there is no --cert that it belongs to")
    return context


def _no_password() -> str:
    raise Misuse("--cert: its key has a password; --command-config has ssl.key.password for that")
