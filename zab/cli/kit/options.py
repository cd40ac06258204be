"""Options, types of options, and checks of options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from zab.cli.kit.verb_group import Arguments
from zab.client.dialing import ClientTls


class Seconds(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no argument
    name = "seconds"

    def __init__(self, *, zero: bool = False, most: float = 1e6) -> None:
        self._zero = zero
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < self._most or (seconds == 0 and not self._zero):
            least = "0 or more" if self._zero else "more than 0"
            self.fail(f"{value!r}: expected a number of seconds, {least} and less than {self._most:.0f}", param, ctx)
        return seconds


SECONDS: Final = Seconds()
SECONDS_OR_ZERO: Final = Seconds(zero=True, most=1e9)


def not_here(instead: str, *names: str) -> list[click.Parameter]:
    """Make hidden options that only other commands have. Using one fails, with the message `instead`."""

    def refuse(context: click.Context, option: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{option.opts[0]}: {instead}", context)

    return [
        click.Option([name], is_flag=False, flag_value="", hidden=True, expose_value=False, callback=refuse)
        for name in names
    ]


def check_exclusive(arguments: Arguments, *options: str, required: bool = False) -> None:
    """Raise `click.UsageError` if more than one of the options is given, or if `required` and none is given."""
    given = [each for each in options if _is_given(getattr(arguments, each.removeprefix("--").replace("-", "_")))]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")
    if required and not given:
        raise click.UsageError(f"one of {', '.join(options)} is needed")


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != ()


def identity(text: str) -> tuple[str, bytes]:
    """Convert SCHEME:CREDENTIALS to a pair."""
    scheme, colon, credentials = text.partition(":")
    if not colon or not scheme:
        raise click.BadParameter("expected SCHEME:CREDENTIALS, like digest:user:password")
    return scheme, credentials.encode()


def user_and_password(text: str) -> tuple[str, str]:
    """Convert USER:PASSWORD to a pair. Error messages do not repeat the text."""
    user, colon, password = text.partition(":")
    if not user or not colon:
        raise click.BadParameter("expected USER:PASSWORD")
    return user, password


_FILE: Final = click.Path(exists=True, dir_okay=False)
_TLS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--tls/--no-tls", default=None, help="Use TLS, or not.  [default: TLS if --ca or --cert is given]"),
    click.option(
        "--ca",
        type=_FILE,
        help="The authorities that sign the servers' certificates (PEM).  [default: those of the system]",
    ),
    click.option("--cert", type=_FILE, help="The certificate of this client (PEM)."),
    click.option("--key", type=_FILE, help="The key of --cert, if it is not in the same file (PEM)."),
    click.option("--any-hostname", is_flag=True, help="Accept a server's certificate that names another host."),
)


def tls_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for TLS between a client and the servers of a store. `client_tls` reads them."""
    for option in reversed(_TLS):
        function = option(function)
    return function


def client_tls(
    tls: bool | None, ca: str | None, cert: str | None, key: str | None, any_hostname: bool
) -> ClientTls | None:
    """Return the TLS settings that these options describe; None for plain TCP."""
    uses_tls = bool(ca or cert) if tls is None else tls
    return ClientTls(ca, cert, key, not any_hostname) if uses_tls else None


def log_dir_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--log-dir`."""
    return click.option(
        "--log-dir",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The dataLogDir, if the log has a directory of its own.",
    )(function)
