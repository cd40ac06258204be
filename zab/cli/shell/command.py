"""`zab shell`."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click
import trio

from zab.cli.shell.terminal import complain, interactive, lines_only, words_only
from zab.client.dialing import ClientTls
from zab.client.session import connect
from zab.client.settings import ClientSettings
from zab.core.errors import ZabError
from zab.runtime.session.api import Session

DEFAULT_SERVERS = "127.0.0.1:2181"
WITHIN_S = 30.0
_FILE = click.Path(exists=True, dir_okay=False)


def parse_auth(text: str) -> tuple[str, bytes]:
    scheme, colon, credentials = text.partition(":")
    if not colon or not scheme:
        raise click.BadParameter("expected SCHEME:CREDENTIALS, like digest:user:password")
    return scheme, credentials.encode()


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="The commands of ZooKeeper's own shell, by hand or one at a time.",
)
@click.option(
    "-s",
    "--server",
    "-server",
    "servers",
    default=DEFAULT_SERVERS,
    show_default=True,
    metavar="HOST:PORT[,...][/ROOT]",
    help="Any servers of the ensemble; with a root, all paths are below it.",
)
@click.option("--timeout", type=click.IntRange(1), default=30_000, show_default=True, help="Of the session, in ms.")
@click.option(
    "--within",
    type=float,
    help="Keep trying for so many seconds, also where connections are refused.  [default: 30, or until every server "
    "has refused]",
)
@click.option("--auth", multiple=True, metavar="SCHEME:CREDENTIALS", help="Who this is, as digest:user:password.")
@click.option("--sasl", metavar="USER:PASSWORD", help="Who this is, by SASL with DIGEST-MD5.")
@click.option("--tls/--no-tls", help="Speak TLS.  [default: if one of the following is given]")
@click.option("--ca", type=_FILE, help="Who signs the servers' certificates (PEM).  [default: whom the system trusts]")
@click.option("--cert", type=_FILE, help="Who this is, for servers that want to know (PEM).")
@click.option("--key", type=_FILE, help="The key of --cert, where it is not in the same file.")
@click.option("--any-hostname", is_flag=True, help="A server's certificate need not name the host that was dialled.")
@click.option("-r", "--read-only", is_flag=True, help="Be content with a server that is cut off from the others.")
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="ZAB_HISTORY",
    default=Path("~/.zab_history"),
    show_default=True,
    help="Where commands typed at the prompt are kept.",
)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def shell(
    servers: str,
    timeout: int,
    within: float | None,
    auth: tuple[str, ...],
    sasl: str | None,
    tls: bool,
    ca: str | None,
    cert: str | None,
    key: str | None,
    any_hostname: bool,
    read_only: bool,
    history: Path,
    words: tuple[str, ...],
) -> None:
    """Look into a store and change it: ours, or a ZooKeeper.

    Without a COMMAND there is a prompt, with completion by Tab and a history; or, if the input is no terminal,
    commands are read from there, one a line. `zab shell help` lists the commands: those of ZooKeeper's own shell.

    \b
    zab shell ls /
    zab shell --server db1:2181,db2:2181/app get -s /leader
    echo 'create /a 1' | zab shell

    Exit status: 0 all was done, 1 something was not, 2 misused, 3 no server could be reached.
    """
    known = [parse_auth(text) for text in auth]
    user, colon, password = (sasl or "").partition(":")
    if sasl is not None and not colon:
        raise click.BadParameter("--sasl: expected USER:PASSWORD")
    secure = ClientTls(ca, cert, key, not any_hostname) if tls or ca or cert else None

    def opens(names: str) -> AbstractAsyncContextManager[Session]:
        return connect(
            names,
            timeout_ms=timeout,
            auth=known,
            tls=secure,
            sasl=(user, password) if colon else None,
            read_only=read_only,
            wait_ms=int((WITHIN_S if within is None else within) * 1000),
            settings=ClientSettings(hopeless_ends=True, refused_ends=within is None),
        )

    try:
        if words:
            good = trio.run(words_only, opens, servers, list(words))
        elif sys.stdin.isatty():
            interactive(opens, servers, Path(os.path.expanduser(history)))
            good = True
        else:
            good = trio.run(lines_only, opens, servers)
    except ZabError as error:
        complain(f"zab: {error}")
        sys.exit(3)
    sys.exit(0 if good else 1)
