"""`docs/tutorial-broker.md`, typed line by line by somebody who believes every word of it."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ports import free_base
from tests.integration.processes import ROOT
from tests.project.test_docs import FENCE

PAGE = ROOT / "docs" / "tutorial-broker.md"
PATIENCE_S = 240
DEV = "zab-broker dev"


def steps() -> Iterator[tuple[str, str | None]]:
    """A block of commands, and what is said to be printed, if it is said."""
    blocks = FENCE.findall(PAGE.read_text())
    for (language, text), (following, printed) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "sh":
            yield text, printed if following == "text" else None


def command_in(folder: Path, hosts: str, store: str) -> None:
    """`zab-broker` and `python` as they would be on the path, but at the ports of this test."""
    file = folder / "zab-broker"
    file.write_text(
        f'#!/bin/sh\ncase "$1" in\n'
        f'  produce|consume|groups) exec "{sys.executable}" -m replica.cli "$@" --bootstrap {hosts} ;;\n'
        f'  topics) exec "{sys.executable}" -m replica.cli "$@" --store {store} ;;\n'
        f'  *) exec "{sys.executable}" -m replica.cli "$@" ;;\nesac\n'
    )
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for each in (file, python):
        each.chmod(each.stat().st_mode | stat.S_IXUSR)


@pytest.mark.slow
def test_every_command_of_the_tutorial_works_as_described(tmp_path: Path) -> None:
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    port, store = free_base(0, 1, 2), free_base(0, 1, 2, 707, 708, 709, 1707, 1708, 1709)
    (tmp_path / "bin").mkdir()
    command_in(tmp_path / "bin", f"127.0.0.1:{port}", f"127.0.0.1:{store}")
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    brokers: subprocess.Popen[str] | None = None
    done = 0
    try:
        for block, printed in steps():
            if block.startswith(DEV):
                if brokers is not None:
                    brokers.send_signal(signal.SIGINT)
                    brokers.communicate(timeout=PATIENCE_S)
                    assert brokers.returncode == 0
                brokers = started(block, tmp_path, environment, port, store)
                continue
            script = block.replace("127.0.0.1:9092", f"127.0.0.1:{port}")
            ran = subprocess.run(
                ["sh", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
            )
            assert ran.returncode == 0, f"{block}\n{ran.stderr}"
            assert printed is None or ran.stdout == printed
            done += 1
    finally:
        if brokers is not None:
            brokers.kill()
            brokers.communicate()
    assert done >= 9


def started(line: str, folder: Path, environment: dict[str, str], port: int, store: int) -> subprocess.Popen[str]:
    found = re.fullmatch(rf"{DEV} (.*)\n", line)
    assert found is not None
    command = [sys.executable, "-m", "replica.cli", "dev", *found[1].split()]
    where = ["--port-base", str(port), "--store-port-base", str(store)]
    process = subprocess.Popen([*command, *where], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for said in process.stdout:
        if said.startswith("Ctrl-C"):
            return process
    process.communicate()
    raise AssertionError("it ended before it was ready")
