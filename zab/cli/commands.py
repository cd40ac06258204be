"""The commands, each in a module of its own that is loaded when it is asked for: `zab shell` shall start at once."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

_HOMES: Final = {
    "serve": "zab.cli.serve",
    "dev": "zab.cli.dev",
    "shell": "zab.cli.shell.command",
    "status": "zab.cli.status.command",
    "log": "zab.cli.log",
    "snapshot": "zab.cli.snapshot",
    "import": "zab.cli.move",
    "export": "zab.cli.move",
    "member": "zab.cli.library",
    "kv": "zab.cli.library",
}
"""The attribute has the command's name; with an underscore behind it where Python has that word for itself."""


class Lazily(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        home = _HOMES.get(name)
        if home is None:
            return None
        command: click.Command = getattr(import_module(home), "import_" if name == "import" else name)
        return command


@click.group(cls=Lazily, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zab")
def zab() -> None:
    """A ZooKeeper in pure Python, and the consensus library under it.

    \b
    To try it:          zab dev, then any ZooKeeper client at 127.0.0.1:2181
    To run it:          zab serve zoo.cfg
    To look and act:    zab status, zab shell
    To move to it:      zab import, and back by zab export
    To look inside:     zab log dump, zab snapshot dump

    Results go to stdout and logs to stderr. Exit status: 0 ended as asked, 1 failed, 2 misused.
    """
