"""The command line. It needs click and rich; `import zab` does not need them."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def end_servers_early() -> None:
    """Let SIGINT and SIGTERM end a starting server with status 0, before the server handles these signals itself.

    Importing the server's modules takes up to a second. If a shell has set SIGINT to ignored, as for a background job,
    it stays ignored.
    """
    if sys.argv[1:2] not in (["serve"], ["dev"]):
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> NoReturn:
    """Exit at once. An exception would interrupt any code, even that of the event loop."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # a flush raises if the signal has interrupted a write
        os._exit(0)


def main() -> None:
    end_servers_early()
    try:
        from zab.cli.kit.program import run_program
        from zab.cli.root import zab
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"zab: the command line needs {error.name}, which is not installed. Try: pip install 'zab[cli]'")
    sys.exit(run_program(zab, "zab", sys.argv[1:]))
