"""`zab shell`."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click
import trio

from zab.cli.kit.failures import Misused
from zab.cli.kit.options import client_tls, identity, tls_options, user_and_password
from zab.cli.shell.terminal import complain, run_lines, run_prompt, run_words
from zab.client.client_settings import ClientSettings
from zab.client.remote_session import connect
from zab.core.errors import ConfigError, ZabError
from zab.session.api import Session

DEFAULT_SERVERS = "127.0.0.1:2181"
WITHIN_S = 30.0


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Read and change nodes, with the commands of ZooKeeper's shell.",
)
@click.option(
    "-s",
    "--server",
    "-server",
    "servers",
    default=DEFAULT_SERVERS,
    show_default=True,
    metavar="HOST:PORT[,...][/ROOT]",
    help="One or more servers of the ensemble. With /ROOT, all paths are relative to that node.",
)
@click.option(
    "--timeout", type=click.IntRange(1), default=30_000, show_default=True, help="The timeout of the session, in ms."
)
@click.option(
    "--within",
    type=float,
    help="Try to connect for at most this many seconds, even if connections are refused.  [default: 30, but give up "
    "once every server has refused]",
)
@click.option(
    "--auth",
    type=identity,
    multiple=True,
    metavar="SCHEME:CREDENTIALS",
    help="Credentials of an identity, like digest:user:password. May be repeated.",
)
@click.option("--sasl", type=user_and_password, metavar="USER:PASSWORD", help="Log in with SASL DIGEST-MD5.")
@tls_options
@click.option("-r", "--read-only", is_flag=True, help="Accept a server without a quorum: it serves reads only.")
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="ZAB_HISTORY",
    default=Path("~/.zab_history"),
    show_default=True,
    help="The file that stores the commands typed at the prompt.",
)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def shell(
    servers: str,
    timeout: int,
    within: float | None,
    auth: tuple[tuple[str, bytes], ...],
    sasl: tuple[str, str] | None,
    tls: bool | None,
    ca: str | None,
    cert: str | None,
    key: str | None,
    any_hostname: bool,
    read_only: bool,
    history: Path,
    words: tuple[str, ...],
) -> None:
    """Read and change nodes, at servers of zab or of ZooKeeper.

    Without a COMMAND, the shell shows a prompt with completion by Tab and a history. If stdin is not a terminal, it
    reads one command per line. `help` lists the commands: those of ZooKeeper's shell and a few more.

    \b
    zab shell ls /
    zab shell --server db1:2181,db2:2181/app get -s /leader
    echo 'create /a 1' | zab shell

    Exit status: 0 all commands succeeded, 1 a command failed, 2 wrong usage, 3 no session could be opened. At the
    prompt, failed commands do not change the status 0.
    """
    secure = client_tls(tls, ca, cert, key, any_hostname)

    def opens(names: str) -> AbstractAsyncContextManager[Session]:
        return connect(
            names,
            timeout_ms=timeout,
            auth=list(auth),
            tls=secure,
            sasl=sasl,
            read_only=read_only,
            wait_ms=int((WITHIN_S if within is None else within) * 1000),
            settings=ClientSettings(hopeless_ends=True, refused_ends=within is None),
        )

    try:
        if words:
            good = trio.run(run_words, opens, servers, list(words))
        elif sys.stdin.isatty():
            run_prompt(opens, servers, Path(os.path.expanduser(history)))
            good = True
        else:
            good = trio.run(run_lines, opens, servers)
    except ConfigError as error:
        raise Misused(str(error)) from error
    except ZabError as error:
        complain(f"zab: {error}")
        sys.exit(3)
    sys.exit(0 if good else 1)
