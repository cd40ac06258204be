"""The tests of `tests/unit/harness/test_commands.py` that need sockets or processes."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.unit.harness.test_commands import OF_SPARK


def test_runs_load_nothing_of_spark() -> None:
    """A campaign of a user's machine, and every command but those on stored campaigns."""
    modules = ("one_run", "shrink", "check", "worlds", "fuzz", "mutants", "crash_points", "explore")
    names = ", ".join(f"harness.cli.{name}" for name in modules)
    code = f"import harness, json, sys, {names}; harness.campaign; print(json.dumps(list(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not OF_SPARK & {name.partition(".")[0] for name in json.loads(ran.stdout)}
