"""SIGTERM during a start of Spark or a cluster: stop all child processes and report what was saved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.processes import ROOT

pytest.importorskip("pyspark")

STARTS: str = """
import subprocess, sys
from pyspark.sql import SparkSession

class Builder:
    def __getattr__(self, name):
        return lambda *words: self

    def getOrCreate(self):
        jvm = subprocess.Popen(["sleep", "600"])
        print(jvm.pid, flush=True)
        jvm.wait()
        raise ConnectionRefusedError(111, "Connection refused")

SparkSession.builder = Builder()
from harness.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""As far as Spark comes here: something has been started, and does not answer yet."""


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def gone(pid: int) -> bool:
    """Wait until the process has ended."""
    patience = time.monotonic() + 60
    while lives(pid) and time.monotonic() < patience:
        time.sleep(0.05)
    found = not lives(pid)
    if not found:
        os.kill(pid, signal.SIGKILL)
    return found


@pytest.mark.parametrize("everybody", [False, True], ids=["it alone", "its whole group"])
def test_while_spark_starts(everybody: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS, "fuzz", "--runs", "100", "--ops", "5", "--output", str(tmp_path)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    jvm = int(process.stdout.readline())
    if everybody:
        os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()
    _, said = process.communicate(timeout=120)
    assert gone(jvm)
    assert process.returncode == 143
    assert said.splitlines() == [
        "terminated",
        f"0 runs are finished and stored in {tmp_path}; the same command resumes there",
    ]


def test_while_a_cluster_starts(tmp_path: Path) -> None:
    java, pids = tmp_path / "java", tmp_path / "pids"
    java.write_text(f'#!/bin/sh\necho "$$" >> {pids}\nexec sleep 600\n')
    java.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "docs/examples/harness_cluster.py"), str(tmp_path / "found")],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not pids.exists() or not pids.read_text().endswith("\n"):
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    _, said = process.communicate(timeout=120)
    assert gone(int(pids.read_text()))
    assert process.returncode == 143
    assert said == f"terminated: master and workers have ended; finished runs are in {tmp_path / 'found'}\n"
