"""What the commands have in common: the store they work at, how they show what they found, and how they end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import zab
from kraft_controller.runtime.admin.picture import Picture
from kraft_controller.runtime.closed import acl_of

DONE, FAILED, MISUSED = 0, 1, 2
STORE: Final = "127.0.0.1:2181"
CELL_MAX: Final = 400


class Misuse(Exception):
    """The command was called in a way that makes no sense. The message is for the caller."""


class Failed(Exception):
    """What was asked for was not done. The message says why."""


Work = Callable[[zab.Session, argparse.Namespace], Awaitable[int]]

# -- arguments -----------------------------------------------------------------------------------------


class _Elsewhere(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, *, const: str) -> None:
        hidden = argparse.SUPPRESS
        super().__init__(option_strings, dest, nargs="?", const=const, default=hidden, help=hidden)

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, __: object, option_string: str | None = None
    ) -> None:
        parser.error(f"{option_string}: {self.const}")


def not_here(parser: argparse.ArgumentParser, instead: str, *options: str) -> None:
    """Options that other commands have: who tries them is told what to say instead, and nobody else hears of them."""
    parser.add_argument(*options, action=_Elsewhere, const=instead)


def store_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the store")
    group.add_argument(
        "--store",
        default=STORE,
        metavar="HOST:PORT,...[/PATH]",
        help=f"the servers that hold the cluster's metadata, as in zookeeper.connect (default {STORE})",
    )
    group.add_argument(
        "--within", type=_seconds, default=15.0, metavar="SECONDS", help="until a server is found (default 15)"
    )
    group.add_argument("--auth", action="append", default=[], metavar="SCHEME:CREDENTIALS", help="digest:user:password")
    group.add_argument("--login", metavar="USER:PASSWORD", help="who this is, by SASL DIGEST-MD5")
    group.add_argument(
        "--set-acl", action="store_true", help="what is made is closed to others, as with zookeeper.set.acl=true"
    )
    group.add_argument("--tls", action="store_true", help="speak TLS; each of the following means it, too")
    group.add_argument("--ca", type=Path, metavar="FILE", help="who signs the servers' certificates (PEM)")
    group.add_argument("--cert", type=Path, metavar="FILE", help="who this is (PEM)")
    group.add_argument("--key", type=Path, metavar="FILE", help="the key of --cert, where it is not in the same file")
    not_here(
        parser,
        "this is read and written in the store: --store HOST:PORT,... names its servers, as zookeeper.connect does",
        "--bootstrap",
        "--bootstrap-server",
    )


def output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs: one JSON value on stdout, not a table")


def verbs_with(
    where: Callable[[argparse.ArgumentParser], None], parser: argparse.ArgumentParser
) -> Callable[[str, Callable[..., Awaitable[int]], str], argparse.ArgumentParser]:
    """What a command can do. Each verb is a parser, with what all of them take: `where` adds whom it asks."""
    made = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, work: Callable[..., Awaitable[int]], about: str) -> argparse.ArgumentParser:
        one = made.add_parser(name, help=about, description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        one.set_defaults(work=work)
        output_arguments(one)
        where(one)
        return one

    return verb


def verbs(parser: argparse.ArgumentParser) -> Callable[[str, Work, str], argparse.ArgumentParser]:
    return verbs_with(store_arguments, parser)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise ValueError(text)
    return seconds


# -- the store -----------------------------------------------------------------------------------------


def connected(arguments: argparse.Namespace) -> int:
    """The `work` of a verb, with a session. Whatever the store has against it ends the command with a line."""
    import trio

    async def main() -> int:
        async with zab.connect(
            arguments.store,
            auth=[_identity(each) for each in arguments.auth],
            tls=_tls(arguments),
            sasl=_login(arguments.login),
            acl=acl_of if arguments.set_acl else None,
            wait_ms=int(arguments.within * 1000),
            settings=zab.ClientSettings(hopeless_ends=True),
        ) as session:
            if await session.exists("/") is None:
                root = arguments.store.partition("/")[2]
                why = "no broker was ever started there, nor was it made by hand"
                raise Failed(f"the store has no node /{root}: {why}; is --store right?")
            code: int = await arguments.work(session, arguments)
            return code

    try:
        return trio.run(main)
    except zab.ConfigError as error:
        raise Misuse(str(error)) from None
    except zab.ZabError as error:
        raise Failed(f"the store: {error}") from None


def _identity(text: str) -> tuple[str, bytes]:
    scheme, colon, credentials = text.partition(":")
    if not colon or not scheme:
        raise Misuse(f"--auth {text!r}: it looks like digest:user:password")
    return scheme, credentials.encode()


def _login(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    user, colon, password = text.partition(":")
    if not user or not colon:
        raise Misuse("--login: it looks like USER:PASSWORD")
    return user, password


def _tls(arguments: argparse.Namespace) -> zab.ClientTls | None:
    if not (arguments.tls or arguments.ca or arguments.cert or arguments.key):
        return None
    return zab.ClientTls(arguments.ca, arguments.cert, arguments.key)


# -- output --------------------------------------------------------------------------------------------


def show(arguments: argparse.Namespace, rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Rows as a table, or as a list of objects that may say more than the columns of the table."""
    rows = list(rows)
    if arguments.json:
        show_json(rows)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        cells = [cell(row.get(column)) for column in columns]
        table.add_row(*(Text(_shortened(each) if sys.stdout.isatty() else each) for each in cells))
    # Where nobody looks, nothing is folded or left out: a script may want to cut it in columns.
    Console(width=None if sys.stdout.isatty() else 1_000_000, highlight=False).print(table)


def show_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def say(arguments: argparse.Namespace, line: str, **fields: object) -> None:
    """One thing that was done: a line for people, an object for programs."""
    if arguments.json:
        show_json(fields)
    else:
        print(line)


def _shortened(text: str) -> str:
    """A list of thousands of replicas is no cell for people."""
    if len(text) <= CELL_MAX:
        return text
    return f"{text[: CELL_MAX // 2]}... ({len(text)} characters; --json shows all)"


def cell(value: object) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return str(value)


def damaged(picture: Picture) -> int:
    """Said aloud, and failed for: whoever looks must not think that it is all there is."""
    for why in picture.damaged:
        progress(f"damaged: {why}")
    return FAILED if picture.damaged else DONE


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
