"""The command line. It needs click and rich, which `import zab` does not."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def end_servers_early() -> None:
    """Let SIGINT and SIGTERM end a server with status 0 before it listens for them itself, as they do later.

    Importing its modules takes up to a second. A shell ignores SIGINT in a background job, and so does the server then.
    """
    if sys.argv[1:2] not in (["serve"], ["dev"]):
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> NoReturn:
    """End at once: an exception would be raised wherever the program is, also in the middle of the event loop."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # the signal may have interrupted a write to them
        os._exit(0)


def main() -> None:
    end_servers_early()
    try:
        from zab.cli.root import zab
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"zab: the command line needs {error.name}, which is not installed. Try: pip install 'zab[cli]'")
    zab()
