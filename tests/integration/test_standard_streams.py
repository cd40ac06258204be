"""Commands whose standard output or standard error cannot be written: a full disk, or a closed pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ports import free_port

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")

COMMANDS = {
    "a table": ["zab", "status", "127.0.0.1:1"],
    "JSON": ["zab", "status", "127.0.0.1:1", "--json"],
    "help of zab": ["zab", "serve", "--help"],
    "help of zab-broker": ["replica.cli", "--help"],
    "broker": ["replica.cli", "serve", "server.properties", "--check"],
    "harness": ["harness", "worlds"],
}
NO_SPACE = "cannot write to standard output: No space left on device\n"


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "server.properties").write_text(
        f"broker.id=1\nzookeeper.connect=127.0.0.1:1\nlog.dirs={tmp_path}/logs\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_full_disk_ends_a_command_with_one_line_and_its_own_status(
    tmp_path: Path, command: list[str], unbuffered: str
) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
    *warnings, last = ended.stderr.splitlines(keepends=True)
    assert (ended.returncode, last) == (74, NO_SPACE)
    assert all(line.startswith("warning: ") for line in warnings)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_closed_pipe_ends_a_command_quietly(tmp_path: Path, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", *command], stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    os.close(writer)
    assert ended.returncode == 141
    assert all(line.startswith("warning: ") for line in ended.stderr.splitlines())


def test_message_that_cannot_be_written_changes_no_status(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "zab", "shell", "--server", "127.0.0.1:1", "ls", "/"]
        assert subprocess.run(command, stderr=full).returncode == 3
