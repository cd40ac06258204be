"""The command line. It needs click and rich, which `import zab` does not."""

from __future__ import annotations

import signal
import sys


def end_servers_early() -> None:
    """Let SIGTERM end a server with status 0 while its modules are imported, as it does later."""
    if sys.argv[1:2] in (["serve"], ["dev"]):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def main() -> None:
    end_servers_early()
    try:
        from zab.cli.root import zab
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"zab: the command line needs {error.name}, which is not installed. Try: pip install 'zab[cli]'")
    zab()
