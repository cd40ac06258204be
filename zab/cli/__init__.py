"""The command line. It needs click and rich, which `import zab` does not."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from zab.cli.commands import zab
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"zab: the command line needs {error.name}, which is not installed. Try: pip install 'zab[cli]'")
    zab()
