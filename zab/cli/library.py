"""`zab member` and `zab kv`: the consensus library's demonstration, a replicated map from keys to values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from zab.cli import door
from zab.cli.client import converse, status_table
from zab.cli.kv import KeyValue
from zab.cli.logs import level_option, log_to_stderr
from zab.cli.running import run_in_trio, stop_on_signal
from zab.core.ensemble import Ensemble
from zab.core.errors import ZabError
from zab.core.ready import Settings
from zab.runtime.errors import cannot_listen
from zab.runtime.member import Member
from zab.runtime.network import TlsConfig
from zab.storage.storage import StorageSettings


def tick_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--tick-ms",
        type=click.IntRange(10),
        default=Settings().tick_ms,
        show_default=True,
        help="The unit of all timeouts: a leader pings every half of it, and a silent peer is given up after five.",
    )(function)


@click.command()
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
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False),
    help="Certificate of this server, PEM. It names the host that --ensemble gives this server.",
)
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Its key, PEM.")
@click.option(
    "--tls-ca", type=click.Path(exists=True, dir_okay=False), help="Who signed all servers' certificates, PEM."
)
@click.option(
    "--no-autocreate",
    is_flag=True,
    help="An empty directory is the loss of a history, not the beginning of one: the others have to give it theirs.",
)
@tick_option
@level_option("info")
def member(
    server_id: int,
    members: str,
    data: Path,
    client_port: int | None,
    client_host: str,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    no_autocreate: bool,
    tick_ms: int,
    log_level: str,
) -> None:
    """Run one server of the library's demonstration machine, until SIGINT or SIGTERM.

    It replicates a small map from keys to values. For the coordination store, see `zab serve`.

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

    settings, storage = Settings(tick_ms=tick_ms), StorageSettings(autocreate=not no_autocreate)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, nursery.cancel_scope)
            await nursery.start(
                partial(run_one, server_id, ensemble, data, client_port, client_host, storage, settings, tls)
            )
            click.echo(f"server {server_id} is up")

    run_in_trio(run)


@click.command(context_settings={"ignore_unknown_options": True})
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
    """Ask a server of `zab member`.

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
        run_in_trio(status_table, servers, timeout_s)
        return
    if len(servers) > 1:
        raise click.UsageError("only `status` asks more than one server")
    run_in_trio(converse, servers[0], " ".join(words), timeout_s)


async def run_one(
    sid: int,
    ensemble: Ensemble,
    data: Path,
    client_port: int | None,
    client_host: str,
    storage: StorageSettings,
    settings: Settings,
    tls: TlsConfig | None,
    task_status: trio.TaskStatus[Member] = trio.TASK_STATUS_IGNORED,
) -> None:
    machine = KeyValue()
    member = Member(machine, data, server_id=sid, ensemble=ensemble, settings=settings, storage=storage, tls=tls)
    async with trio.open_nursery() as nursery:
        await nursery.start(member.run)
        if client_port is not None:
            try:
                await nursery.start(door.serve, member, machine, client_host, client_port)
            except OSError as error:
                raise cannot_listen(client_host, client_port, "clients", error) from error
        task_status.started(member)
