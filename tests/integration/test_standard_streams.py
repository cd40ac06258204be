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


def _reads(where: str) -> bool:
    """Return True if a server serves a client at this address."""
    command = [sys.executable, "-m", "zab", "shell", "--server", where, "--within", "60", "ls", "/"]
    return subprocess.run(command, stdout=subprocess.PIPE).stdout == b"[zookeeper]\n"


@pytest.mark.parametrize("full", ["stdout", "stderr", "pipe"])
@pytest.mark.parametrize("kind", ["serve", "dev"])
def test_server_serves_on_if_a_line_cannot_be_printed(tmp_path: Path, kind: str, full: str) -> None:
    port = free_port()
    (tmp_path / "zoo.cfg").write_text(
        f"dataDir={tmp_path}/data\nclientPort={port}\nadmin.enableServer=false\nno.such.key=warns\n"
    )
    words = (
        ["serve", "zoo.cfg"] if kind == "serve" else ["dev", "--servers=1", f"--port-base={port}", "--log-level=info"]
    )
    reader, writer = os.pipe()
    os.close(reader)
    if full != "pipe":
        os.close(writer)
        writer = os.open("/dev/full", os.O_WRONLY)
    log = (tmp_path / "log").open("wb")
    streams = {"stdout": writer, "stderr": log} if full != "stderr" else {"stdout": log, "stderr": writer}
    with subprocess.Popen([sys.executable, "-m", "zab", *words], cwd=tmp_path, **streams) as server:  # type: ignore[call-overload]
        assert _reads(f"127.0.0.1:{port}")
        server.terminate()
    os.close(writer)
    log.close()
    assert server.returncode == 0
    printed = "is ready" if kind == "serve" else "Ctrl-C stops the ensemble"
    assert (printed if full == "stderr" else "not_printed") in (tmp_path / "log").read_text()
