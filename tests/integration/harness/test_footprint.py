"""What a command takes is what all processes take that it begins, and those that these begin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.footprint import measured, of_session

GRANDCHILD = "held = bytearray(60 << 20); print('there', flush=True); input()"
CHILD = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {GRANDCHILD!r}]).returncode)"


def test_processes_of_processes_count() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        seen = of_session(process.pid)
        process.communicate(b"\n")
    assert len(seen) == 2
    assert process.pid in [each.pid for each in seen]
    assert max(each.pages for each in seen) * 4096 > 60 << 20
    assert of_session(process.pid) == []


def test_a_command_is_measured_to_its_end(tmp_path: Path) -> None:
    found = measured([sys.executable, "-c", "print(sum(range(10**6))); raise SystemExit(3)"], tmp_path / "log")
    assert (found.code, found.wall_s > 0) == (3, True)
    assert (tmp_path / "log").read_text() == "499999500000\n"
