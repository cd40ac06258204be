"""Whoever has workers may be killed at any time, and nobody is left behind who goes on for nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

LONG_S = 300.0
"""On any machine."""
PROC = Path("/proc")
MANY = ["-m", "harness", "fuzz", "--runs", "1000000", "--jobs", "2", "--ops", "5", "--faults", "1", "--stop-after", "0"]


@pytest.mark.skipif(not PROC.is_dir(), reason="who is whose child is looked up in /proc")
def test_workers_end_when_their_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, *MANY], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers: list[tuple[int, str]] = []
    try:
        until(lambda: len(children(parent.pid)) >= 2)
        workers = [(pid, born(pid)) for pid in children(parent.pid)]
        parent.send_signal(signal.SIGKILL)
        parent.wait(LONG_S)
        until(lambda: not any(there(*worker) for worker in workers))
    finally:
        parent.kill()
        parent.wait(LONG_S)
        for worker in workers:
            if there(*worker):
                os.kill(worker[0], signal.SIGKILL)


def until(so: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not so():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)


def stat(pid: int) -> list[str]:
    """What the system says of a process behind its name: state, parent, and so on. Empty when there is none."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def children(pid: int) -> list[int]:
    found = [int(path.name) for path in PROC.iterdir() if path.name.isdigit()]
    return [each for each in found if stat(each)[1:2] == [str(pid)]]


def born(pid: int) -> str:
    said = stat(pid)
    return said[19] if said else ""


def there(pid: int, since: str) -> bool:
    """Whether that process still runs; another one may have its number by now, and one that has ended may lie there
    until somebody asks how."""
    said = stat(pid)
    return bool(said) and said[0] not in "ZX" and said[19] == since
