"""The table of commands of `zab`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from zab.cli.kit.program import LazyCommand, Program

COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "serve": LazyCommand("zab.cli.serve:serve", "run one server from ZooKeeper's configuration file"),
    "dev": LazyCommand("zab.cli.dev:dev", "run an ensemble in this process, to try things out"),
    "shell": LazyCommand(
        "zab.cli.shell.shell_command:shell", "read and change nodes with the commands of ZooKeeper's shell"
    ),
    "status": LazyCommand("zab.cli.status.status_command:status", "show all servers of an ensemble in a table"),
    "console": LazyCommand("zab.cli.console_command:console", "show servers and nodes in a browser"),
    "log": LazyCommand("zab.cli.log_command:log", "print, verify and repair a transaction log"),
    "snapshot": LazyCommand("zab.cli.snapshot_command:snapshot", "print, verify and take snapshots"),
    "migrate": LazyCommand(
        "zab.cli.migration.migrate_command:migrate", "replace the servers of a running ensemble of ZooKeeper one by one"
    ),
    "import": LazyCommand("zab.cli.import_export:import_", "convert a data directory of ZooKeeper for `zab serve`"),
    "export": LazyCommand("zab.cli.import_export:export", "convert a data directory of `zab serve` for ZooKeeper"),
}


@click.group(cls=Program, table=COMMANDS, extra="zab[cli]", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zab", message="%(prog)s %(version)s")
def zab() -> None:
    """A coordination store in pure Python for clients of ZooKeeper.

    \b
    Try it:              zab dev, then any ZooKeeper client at 127.0.0.1:2181
    Run it:              zab serve zoo.cfg
    Operate it:          zab status, zab shell, zab console
    Move to it:          zab migrate plan, zab import, and back with zab export
    Inspect its files:   zab log dump, zab snapshot dump

    Results go to stdout, logs to stderr. Exit status: 0 success, 1 failure, 2 wrong usage, 74 stdout cannot be written;
    COMMAND --help names exceptions.
    """
