"""The table of commands of `zab-broker`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from zab.cli.kit.program import LazyCommand, Program

_CONTROLLER: Final = "kraft_controller.cli"
_BROKER: Final = "replica.cli"

COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "serve": LazyCommand(f"{_BROKER}.serve_command:serve", "run a broker with a server.properties file"),
    "dev": LazyCommand(f"{_BROKER}.dev_command:dev", "run a test cluster with its store in this process"),
    "topics": LazyCommand(f"{_CONTROLLER}.topics_command:topics", "create, list, describe, grow and delete topics"),
    "produce": LazyCommand(f"{_BROKER}.produce_command:produce", "write the lines of stdin to a topic"),
    "consume": LazyCommand(f"{_BROKER}.consume_command:consume", "read records of a topic and print them"),
    "groups": LazyCommand(f"{_BROKER}.groups_command:groups", "list, describe, reset and delete consumer groups"),
    "transactions": LazyCommand(f"{_BROKER}.transactions_command:transactions", "show and abort transactions"),
    "reassign": LazyCommand(f"{_CONTROLLER}.reassign_command:reassign", "move replicas to other brokers"),
    "elect": LazyCommand(f"{_CONTROLLER}.elect_command:elect", "elect preferred leaders, or any live replica"),
    "configs": LazyCommand(f"{_CONTROLLER}.configs_command:configs", "show and change dynamic settings"),
    "console": LazyCommand(f"{_BROKER}.console_command:console", "show store, brokers, records, groups in a browser"),
    "acls": LazyCommand(f"{_BROKER}.acls_command:acls", "list, add and remove ACLs"),
    "brokers": LazyCommand(f"{_CONTROLLER}.brokers_command:brokers", "show the registered brokers"),
    "controller": LazyCommand(
        f"{_CONTROLLER}.controller_command:controller", "show the controller; ask it to step down"
    ),
    "dump": LazyCommand(f"{_BROKER}.dump_command:dump", "show the contents of files in a log directory"),
}


@click.group(
    cls=Program,
    table=COMMANDS,
    extra="zab[broker]",
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="zab", prog_name="zab-broker", message="%(prog)s %(version)s")
def zab_broker() -> None:
    """Kafka-compatible brokers on the coordination store.

    `serve` runs a broker; all other commands are for operators and developers.

    Exit status: 0 success; 1 failure, or a check found something; 2 invalid command line or configuration; 74 stdout
    cannot be written.
    """
