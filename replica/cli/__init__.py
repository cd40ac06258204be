"""The command line `zab-broker`. Each command is a module of its own, which is imported when the command runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from zab.cli import end_servers_early


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    if arguments is None:
        end_servers_early()
    try:
        from replica.cli.root import zab_broker
        from zab.cli.kit.program import run_program
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(f"zab-broker needs {error.name}, which is not installed: pip install 'zab[broker]'", file=sys.stderr)
        return 2
    return run_program(zab_broker, "zab-broker", sys.argv[1:] if arguments is None else arguments)
