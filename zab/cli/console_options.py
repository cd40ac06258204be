"""The options of a console, which `zab console` and `zab-broker console` share, and how a console runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click
import trio

from zab.admin.admin_settings import AdminSettings
from zab.cli.kit.failures import Misused, run_in_trio
from zab.cli.kit.options import identity, user_and_password
from zab.cli.kit.signals import stop_on_signal
from zab.cli.kit.standard_streams import announce
from zab.cli.kit.verb_group import Arguments
from zab.client.client_settings import ClientSettings
from zab.client.dialing import ClientTls
from zab.client.hosts import parse_hosts
from zab.client.remote_session import connect
from zab.console.admin_reports import AdminUrl, admin_url
from zab.console.console_gate import ConsoleGate
from zab.console.console_site import FORM_BYTES_MAX, run_console
from zab.console.page import ConsolePart
from zab.console.store_part import StorePart
from zab.core.addresses import is_loopback, with_port
from zab.core.errors import ConfigError

PORT: Final = 8090
CONNECTIONS_MAX: Final = 100
SESSION_MS: Final = 10_000
REPLY_BYTES_MAX: Final = 8 << 20
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def _admin(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[AdminUrl, ...]:
    try:
        return tuple(admin_url(value) for value in values)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


def _address(text: str) -> tuple[str, int]:
    try:
        [address] = parse_hosts(text if ":" in text else f"{text}:{PORT}").hosts
    except (ConfigError, ValueError):
        raise click.BadParameter("expected HOST:PORT, like 127.0.0.1:8090") from None
    return address


CONSOLE_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--connect",
        default="127.0.0.1:2181",
        show_default=True,
        metavar="HOST:PORT[,...][/ROOT]",
        help="Servers of the store. With /ROOT, all paths are relative to that node.",
    ),
    click.option(
        "--admin",
        multiple=True,
        callback=_admin,
        metavar="URL",
        help="The admin port of a server of the store, like http://db1:8080, for states, elections and latencies. May "
        "be repeated.",
    ),
    click.option(
        "--auth",
        type=identity,
        multiple=True,
        envvar="ZAB_AUTH",
        metavar="SCHEME:CREDENTIALS",
        help="An identity of the console at the store, like digest:user:password; or set ZAB_AUTH in the environment. "
        "May be repeated.",
    ),
    click.option(
        "--sasl",
        type=user_and_password,
        envvar="ZAB_SASL",
        metavar="USER:PASSWORD",
        help="Log in to the store with SASL DIGEST-MD5; or set ZAB_SASL in the environment.",
    ),
    click.option(
        "--listen",
        type=_address,
        default=f"127.0.0.1:{PORT}",
        show_default=True,
        metavar="HOST:PORT",
        help="The address of the console. Any but a loopback address needs --password-file.",
    ),
    click.option(
        "--allowed-host",
        multiple=True,
        metavar="NAME",
        help="A host name, beside localhost and this machine's own, that visitors may use for the console, for example "
        "the name of a proxy. May be repeated.",
    ),
    click.option(
        "--password-file",
        type=FILE,
        metavar="FILE",
        help="A file with one line, the password that visitors must enter.  [default: no password]",
    ),
    click.option(
        "--writable",
        is_flag=True,
        help="Visitors may create, set and delete nodes, as the ACLs permit the console. Needs --password-file.",
    ),
)


def gate_of(arguments: Arguments) -> ConsoleGate:
    """Return the gate that the options describe. Raise `Misused` if they would let strangers in."""
    password = None
    if arguments.password_file is not None:
        text = arguments.password_file.read_text("utf-8")
        password = text.removesuffix("\n").removesuffix("\r")
        if not password or "\n" in password:
            raise Misused(f"--password-file {arguments.password_file}: expected one line with the password")
    host, _ = arguments.listen
    if password is None and arguments.writable:
        raise Misused("--writable needs --password-file: any visitor could change the store otherwise")
    if password is None and not is_loopback(host):
        raise Misused(
            f"--listen {host} needs --password-file: without a password the console serves this machine only, at "
            f"--listen 127.0.0.1:{PORT}"
        )
    return ConsoleGate(password, writable=arguments.writable)


def store_part(arguments: Arguments, tls: ClientTls | None, related: Sequence[Any] = ()) -> StorePart:
    """Return the pages of the store that `--connect` names."""
    parse_hosts(arguments.connect)
    if tls is not None:
        _ = tls.context  # a file that cannot be used ends the command now
    # The console tries again, so a name that does not exist may as well be reported at once.
    settings = ClientSettings(reply_bytes_max=REPLY_BYTES_MAX, hopeless_ends=True)

    def opens() -> Any:
        return connect(
            arguments.connect,
            timeout_ms=SESSION_MS,
            auth=list(arguments.auth),
            tls=tls,
            sasl=arguments.sasl,
            read_only=True,
            settings=settings,
        )

    return StorePart(arguments.connect, opens, arguments.admin, related)


def serve_console(arguments: Arguments, parts: Sequence[ConsolePart], where: str) -> None:
    """Serve the console until a signal."""
    gate = gate_of(arguments)
    host, port = arguments.listen
    settings = console_settings(host, port, arguments.allowed_host)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(stop_on_signal, nursery.cancel_scope)
            opened = await nursery.start(run_console, parts, settings, gate, where)
            announce(f"The console is at http://{with_port(host, opened)}/. Ctrl-C stops it.")

    run_in_trio(main)


def console_settings(host: str, port: int, hosts: Sequence[str] = ()) -> AdminSettings:
    return AdminSettings(
        host, port, connections_max=CONNECTIONS_MAX, body_bytes_max=FORM_BYTES_MAX, hosts=frozenset(hosts)
    )
