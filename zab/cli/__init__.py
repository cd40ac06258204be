"""The command line. It needs click and rich, which `import zab` does not."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        # SIGTERM before the server has started ends it with status 0, as it does later.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        from zab.cli.root import zab
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"zab: the command line needs {error.name}, which is not installed. Try: pip install 'zab[cli]'")
    zab()
