"""Write the generated reference pages of the broker: `python -m replica.cli.reference`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from kraft_controller.cli.store_connection import store_options
from replica.cli.bootstrap import verb_options
from replica.cli.properties.properties_page import server_properties_page
from replica.cli.root import COMMANDS
from zab.cli.kit.reference_page import chapters, option_rows, option_table
from zab.cli.reference import write_pages

ALONE: Final = ("serve", "dev", "console", "dump")
AT_BROKERS: Final = ("produce", "consume", "groups", "transactions")
AT_THE_STORE: Final = tuple(name for name in COMMANDS if name not in (*ALONE, *AT_BROKERS))

_HEAD: Final = """\
# Commands for a cluster of brokers

*Running brokers, and operating a cluster of them: `zab-broker COMMAND`.*

The command comes with `pip install 'zab[broker]'`. `--help` after a command or a verb prints its part of
this page. Results go to stdout, everything else to stderr. The exit status is 0 after success, 1 when a command failed
or a check found something (`topics describe --unavailable`), 2 for an invalid command line or configuration file, 74 if
stdout could not be written (the disk is full), 141 if its reader closed the pipe, and 130 if Ctrl-C ended a command
that does not handle it.

`python -m replica.cli.reference` writes this page from the commands, and a test compares them.
"""
_ON_THIS_MACHINE: Final = """\
# Running brokers

These commands work on the machine where they are called.
"""
_ASKING: Final = """\
# Clients of the brokers

These commands use Kafka's protocol, so they also work with Kafka's own brokers. After a temporary failure, such as
an election or the loss of a broker, they retry for up to `--within` seconds. A permanent failure, such as a missing
topic, ends the command at once.

With `--json`, `consume` prints one JSON object a line. All of these commands take these options:
"""
_WRITING: Final = """\
# Work in the store

These commands read the cluster's metadata in the store. To change something, they write a request for the controller,
or the topic, setting or ACL itself. So most of them work even if no broker is running; a later controller executes the
request. A command that lists or describes omits each node that cannot be parsed, names it on stderr, and exits with 1.

All verbs take these options:
"""
_PARTS: Final[tuple[tuple[str, tuple[str, ...], tuple[click.Parameter, ...]], ...]] = (
    (_ON_THIS_MACHINE, ALONE, ()),
    (_ASKING, AT_BROKERS, tuple(verb_options())),
    (_WRITING, AT_THE_STORE, tuple(store_options())),
)


def broker_commands_page() -> str:
    pieces = [_HEAD]
    for head, names, common in _PARTS:
        rows = option_rows(common)
        pieces += ["\n#" + head, *(["\n", option_table(rows)] if rows else [])]
        pieces += [chapters(f"zab-broker {name}", COMMANDS[name].load(), level=3, common=rows) for name in names]
    return "".join(pieces)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "docs/reference/broker-commands.md": broker_commands_page,
    "docs/reference/server-properties.md": server_properties_page,
}

if __name__ == "__main__":
    write_pages(PAGES)
