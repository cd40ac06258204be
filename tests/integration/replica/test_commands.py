"""The tests of `tests/unit/replica/test_commands.py` that need sockets or processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORT_INTERRUPTED = """
import importlib.abc, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("replica.cli.root", "zab.cli.root"):
            signal.raise_signal(signal.SIGTERM)

sys.meta_path.insert(0, Interrupt())
sys.argv[1:] = ["COMMAND", "nowhere"]
from PACKAGE.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("package", ["replica", "zab"])
@pytest.mark.parametrize("command", ["serve", "dev"])
def test_sigterm_during_the_imports_ends_a_server_in_order(package: str, command: str) -> None:
    code = IMPORT_INTERRUPTED.replace("PACKAGE", package).replace("COMMAND", command)
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
