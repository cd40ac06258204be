"""The tests of `tests/unit/cli/test_commands.py` that need sockets or processes."""

from __future__ import annotations

import subprocess
import sys


def test_asking_for_one_command_does_not_load_the_others() -> None:
    code = (
        "import sys, zab.cli.root as c; c.zab.main(['log', '--help'], standalone_mode=False); "
        "print([name for name in sys.modules if name in ('zab.cli.serve', 'zab.cli.dev', 'rich')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
