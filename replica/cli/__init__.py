"""The command `zab-broker`. Every subcommand is a module, loaded when it is asked for.

Such a module has `add(parser)`, which says what it takes, and `act(arguments)`, which does it and returns the exit
code. Its docstring is its help. Results go to stdout, everything else to stderr. Exit 0: it was done. 1: it was not,
or what was looked for is there (a partition without a leader, say). 2: misused.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Final

from attrs import frozen

from kraft_controller.cli.common import FAILED, MISUSED, Failed, Misuse


@frozen
class Command:
    module: str
    about: str


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command("replica.cli.serve", "run a broker, as its server.properties says"),
    "dev": Command("replica.cli.dev", "run brokers and the store that they need, all in this process"),
    "topics": Command("kraft_controller.cli.topics", "make, list, describe, grow and delete topics"),
    "produce": Command("replica.cli.produce", "write records to a topic, a line each"),
    "consume": Command("replica.cli.consume", "read records of a topic, and print them"),
    "groups": Command("replica.cli.groups", "list, describe, set back and delete consumer groups"),
    "transactions": Command("replica.cli.transactions", "who has one open, and what hangs; list, describe and abort"),
    "reassign": Command(
        "kraft_controller.cli.reassign", "move replicas to other brokers: plan, begin, look, take back"
    ),
    "elect": Command("kraft_controller.cli.elect", "have leaders elected: those preferred, or anybody who is alive"),
    "configs": Command("kraft_controller.cli.configs", "what is configured for topics, brokers, clients and users"),
    "acls": Command("replica.cli.acls", "who may do what: list, add and remove ACLs"),
    "brokers": Command("kraft_controller.cli.brokers", "who is there, where, since when, and what he holds and leads"),
    "controller": Command("kraft_controller.cli.controller", "who is the controller; ask him to step down"),
    "dump": Command("replica.cli.dump", "show what is in the files of a log directory"),
}
"""In the order in which help shows them."""

_DESCRIPTION: Final = """\
Brokers that Kafka's clients cannot tell from Kafka's, on the coordination store.

All but `serve` are for whoever runs them. `--help` behind a command says what it takes.
"""
_EPILOG: Final = """\
exit status: 0 it was done; 1 it was not, or something is not as it should be; 2 misused
"""


def _overview() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zab-broker",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('zab')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.about, add_help=False)
    return parser


def in_our_words(name: str, arguments: Sequence[str]) -> list[str]:
    """Some commands understand the options of Kafka's own tool, too."""
    translate: Callable[[Sequence[str]], list[str]] = getattr(import_module(COMMANDS[name].module), "as_verbs", list)
    return translate(arguments)


def parser_of(name: str) -> argparse.ArgumentParser:
    command = import_module(COMMANDS[name].module)
    parser = argparse.ArgumentParser(
        prog=f"zab-broker {name}",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(act=command.act)
    command.add(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in COMMANDS:
        _overview().parse_args(given)  # shows help, or says what is wrong, and exits
    name, *rest = given
    try:
        parser = parser_of(name)
    except ModuleNotFoundError as error:
        if error.name not in ("cramjam", "google_crc32c", "prometheus_client", "rich", "click"):
            raise
        print(
            f"zab-broker {name} needs {error.name}, which is not installed: pip install 'zab[broker]'", file=sys.stderr
        )
        return MISUSED
    try:
        parsed = parser.parse_args(in_our_words(name, rest))
        code: int = parsed.act(parsed)
        sys.stdout.flush()
    except Misuse as error:
        print(f"zab-broker {name}: {error}", file=sys.stderr)
        return MISUSED
    except Failed as error:
        print(f"zab-broker {name}: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return code
