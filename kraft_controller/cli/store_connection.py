"""The store session of a command: its options, and how store errors end the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

import zab
from kraft_controller.runtime.admin.cluster_description import ClusterDescription
from kraft_controller.runtime.store_acls import acl_of
from zab.cli.kit.failures import DONE, FAILED, Failed, Misused
from zab.cli.kit.options import SECONDS, identity, not_here, user_and_password
from zab.cli.kit.output import progress
from zab.cli.kit.verb_group import Arguments, Handler, Verbs, params_of

STORE: Final = "127.0.0.1:2181"
FILE: Final = click.Path(path_type=Path)

json_option: Final = click.option("--json", is_flag=True, help="Print JSON instead of text.")


_AT_THE_STORE: Final = "this command works on the store: name its servers with --store HOST:PORT,..."
_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    json_option,
    click.option(
        "--store",
        default=STORE,
        show_default=True,
        metavar="HOST:PORT,...[/PATH]",
        help="Servers of the store that holds the cluster's metadata, as in zookeeper.connect.",
    ),
    click.option(
        "--within",
        type=SECONDS,
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to try to reach a server of the store.",
    ),
    click.option(
        "--auth",
        type=identity,
        multiple=True,
        metavar="SCHEME:CREDENTIALS",
        help="An identity for the store, such as digest:user:password. May be repeated.",
    ),
    click.option(
        "--login",
        type=user_and_password,
        metavar="USER:PASSWORD",
        help="Authenticate to the store with SASL DIGEST-MD5.",
    ),
    click.option(
        "--set-acl",
        is_flag=True,
        help="Like zookeeper.set.acl=true: only this command's identity may change the nodes that it creates, and read "
        "those with secrets.",
    ),
    click.option("--tls", is_flag=True, help="Use TLS. Implied by --ca, --cert and --key."),
    click.option("--ca", type=FILE, metavar="FILE", help="The authority that signs the servers' certificates (PEM)."),
    click.option("--cert", type=FILE, metavar="FILE", help="The certificate of this client (PEM)."),
    click.option("--key", type=FILE, metavar="FILE", help="The key of --cert, if it is not in the same file (PEM)."),
)


def store_options() -> list[click.Parameter]:
    return [*params_of(*_OPTIONS), *not_here(_AT_THE_STORE, "--bootstrap", "--bootstrap-server")]


class StoreVerbs(Verbs):
    """A command whose verbs use a session with the store."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, connect=with_session, common=store_options, **options)


def with_session(handler: Handler, arguments: Arguments) -> int:
    """Run the handler with a session. A store error ends the command with one line on stderr."""
    import trio

    async def main() -> int:
        async with zab.connect(
            arguments.store,
            auth=list(arguments.auth),
            tls=_tls(arguments),
            sasl=arguments.login,
            acl=acl_of if arguments.set_acl else None,
            wait_ms=int(arguments.within * 1000),
            settings=zab.ClientSettings(hopeless_ends=True),
        ) as session:
            if await session.exists("/") is None:
                root = arguments.store.partition("/")[2]
                why = "no broker has used this path yet"
                raise Failed(f"the store has no node /{root}, so {why}; check --store")
            return await handler(session, arguments)

    try:
        return trio.run(main)
    except zab.ConfigError as error:
        raise Misused(str(error)) from None
    except zab.ZabError as error:
        raise Failed(f"store error: {error}") from None


def _tls(arguments: Arguments) -> zab.ClientTls | None:
    if not (arguments.tls or arguments.ca or arguments.cert or arguments.key):
        return None
    return zab.ClientTls(arguments.ca, arguments.cert, arguments.key)


def report_damage(cluster: ClusterDescription) -> int:
    """Report nodes that cannot be parsed. Return the exit status: 1 if there are any, since the output lacks their
    contents."""
    for why in cluster.damaged:
        progress(f"damaged: {why}")
    return FAILED if cluster.damaged else DONE
