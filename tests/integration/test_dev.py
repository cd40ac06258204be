"""`zab dev` as a person uses it: start, look, write, stop, start again."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.cluster import free_ports
from tests.integration.processes import ROOT


@contextmanager
def dev(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and what it printed when it was ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "zab", "dev", "--data", str(data), *options],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        introduction = ""
        for line in process.stdout:
            introduction += line
            if line.startswith("Ctrl-C"):
                break
        yield process, introduction
    finally:
        process.kill()
        process.communicate()


def shell(command: str) -> str:
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def free_base() -> str:
    """A port with its two companions far above it."""
    while True:
        (base,) = free_ports(1)
        if base < 60_000:
            return str(base)


def test_everything_it_says_to_try_works_and_is_remembered(tmp_path: Path) -> None:
    with dev(tmp_path, "--port-base", free_base()) as (process, introduction):
        assert "3 servers run in this process" in introduction
        commands = [re.split(r"\s{3,}", line.strip())[0] for line in introduction.splitlines() if " kv " in line]
        assert len(commands) == 5
        replies = [shell(command) for command in commands]
        assert replies[0] == "zxid=1/1"
        assert replies[1] == "hello"
        assert replies[3] == "1 zxid=1/2"
        table = replies[4].splitlines()
        assert table[0].split()[:4] == ["address", "server", "state", "serving"]
        assert sorted(line.split()[2] for line in table[1:]) == ["following", "following", "leading"]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0
        assert errors == ""
    with dev(tmp_path) as (process, introduction):
        assert shell(commands[1]) == "hello"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0
        assert errors == ""


def test_one_server_is_an_ensemble_too(tmp_path: Path) -> None:
    with dev(tmp_path, "--servers", "1", "--port-base", free_base()) as (_, introduction):
        assert introduction.startswith("1 server")
