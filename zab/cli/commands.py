"""`zab dev`, `zab member`, `zab kv`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import trio

from zab.cli.client import converse, status_table
from zab.cli.dev import layout_of, log_to_stderr, run_dev, run_one, stop_on_signal
from zab.cli.shell.command import shell
from zab.core.ensemble import Ensemble
from zab.core.errors import ZabError
from zab.core.ready import Settings
from zab.runtime.member import sole_error
from zab.runtime.network import TlsConfig

LEVELS = ("debug", "info", "warning", "error")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zab")
def zab() -> None:
    """ZAB: atomic broadcast in pure Python.

    \b
    zab dev      an ensemble on loopback, in one process, to try things out
    zab member   one server of an ensemble
    zab kv       talk to the small key-value machine that these two run

    Results go to stdout and logs to stderr. Exit status: 0 ended as asked, 1 failed, 2 misused.
    """


def _tick_option(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--tick-ms",
        type=click.IntRange(10),
        default=Settings().tick_ms,
        show_default=True,
        help="The unit of all timeouts: a leader pings every half of it, and a silent peer is given up after five.",
    )(function)


def _level_option(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--log-level", type=click.Choice(LEVELS), default=default, show_default=True, help="What goes to stderr."
    )


@zab.command()
@click.option("--servers", type=click.IntRange(1, 9), help="How many servers.  [default: 3, or what the data has]")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data"),
    show_default=True,
    help="Where they keep their logs and snapshots, a directory for each. It is found again at the next start.",
)
@click.option(
    "--port-base",
    type=click.IntRange(1024, 63000),
    help="Client port of server 1; the others follow. Servers meet 707 and 1707 above.  [default: 2181: 2888 and 3888]",
)
@_tick_option
@_level_option("warning")
def dev(servers: int | None, data: Path, port_base: int | None, tick_ms: int, log_level: str) -> None:
    """Run an ensemble on loopback, in this process.

    Its servers have sockets, disks and elections of their own, as if they were machines. They replicate a
    small map from keys to values; what to try with it is printed when they are ready. Ctrl-C ends it.
    """
    log_to_stderr(log_level)
    _run(run_dev, data, layout_of(data, servers, port_base), Settings(tick_ms=tick_ms))


@zab.command()
@click.option("--id", "server_id", type=click.IntRange(1, 255), required=True, help="Which of the servers this is.")
@click.option(
    "--ensemble",
    "members",
    required=True,
    metavar="SERVERS",
    help="server.N=host:quorumPort:electionPort[:participant|observer], separated by commas.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory of this server's log and snapshots. What it remembers of changed membership counts more "
    "than --ensemble.",
)
@click.option("--client-port", type=click.IntRange(1, 65535), help="Where `zab kv` can talk to this server.")
@click.option("--client-host", default="127.0.0.1", show_default=True, help="The address of that port.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Certificate of this server, PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Its key, PEM.")
@click.option(
    "--tls-ca", type=click.Path(exists=True, dir_okay=False), help="Who signed all servers' certificates, PEM."
)
@_tick_option
@_level_option("info")
def member(
    server_id: int,
    members: str,
    data: Path,
    client_port: int | None,
    client_host: str,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    tick_ms: int,
    log_level: str,
) -> None:
    """Run one server of an ensemble, until SIGINT or SIGTERM.

    \b
    zab member --id 1 --data /var/lib/zab --client-port 2181 \\
        --ensemble server.1=a:2888:3888,server.2=b:2888:3888,server.3=c:2888:3888
    """
    log_to_stderr(log_level)
    tls = None
    if tls_cert is not None and tls_key is not None and tls_ca is not None:
        tls = TlsConfig(tls_cert, tls_key, tls_ca)
    elif (tls_cert, tls_key, tls_ca) != (None, None, None):
        raise click.UsageError("--tls-cert, --tls-key and --tls-ca belong together")
    try:
        ensemble = Ensemble.parse(members)
        if not ensemble.voters:
            raise click.UsageError("--ensemble lists no participant: at least one server has to vote")
        ensemble.check_addresses()
    except ZabError as error:
        raise click.UsageError(str(error)) from error

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, nursery.cancel_scope)
            await nursery.start(
                run_one, server_id, ensemble, data, client_port, Settings(tick_ms=tick_ms), tls, client_host
            )
            click.echo(f"server {server_id} is up")

    _run(run)


@zab.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--server",
    "servers",
    multiple=True,
    default=("127.0.0.1:2181",),
    show_default=True,
    metavar="HOST:PORT",
    help="Client port of a server. With `status`, several of them give a table.",
)
@click.option(
    "--timeout-s",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="How long to wait for the reply.",
)
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...")
def kv(servers: tuple[str, ...], timeout_s: float, words: tuple[str, ...]) -> None:
    """Ask a server of `zab dev` or `zab member`.

    \b
    set KEY VALUE     write; replies when a quorum has it on disk
    add KEY NUMBER    add to a number; replies with the sum
    delete KEY
    get KEY           what this server knows: fast, perhaps not the newest
    barrier-get KEY   the newest value that anybody was told was written
    list              everything this server knows
    status            of this server, or of each
    """
    if any("\n" in word or "\r" in word for word in words):
        raise click.UsageError("a command is one line: no newline may be in its words")
    if words == ("status",):
        _run(status_table, servers, timeout_s)
        return
    if len(servers) > 1:
        raise click.UsageError("only `status` asks more than one server")
    _run(converse, servers[0], " ".join(words), timeout_s)


def _run(function: Callable[..., Any], *arguments: object) -> None:
    """In Trio; an expected failure is one line on stderr and exit status 1."""
    try:
        trio.run(function, *arguments)
    except (ZabError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except BaseExceptionGroup as group:
        sole = sole_error(group)
        if isinstance(sole, (ZabError, OSError)):
            raise click.ClickException(str(sole)) from sole
        raise sole from None


zab.add_command(shell)
