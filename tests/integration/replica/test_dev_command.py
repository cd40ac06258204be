"""`zab-broker dev` as a person uses it: start, try what it says, stop, start again; and where it cannot begin."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.ports import free_base
from tests.integration.http_client import ask
from tests.integration.processes import ROOT
from zab.cli.dev import dev

DEV = [sys.executable, "-m", "replica.cli", "dev", "--servers", "1", "--brokers", "1"]
PATIENCE_S = 240


@contextmanager
def running(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and what it printed when it was ready."""
    command = [*DEV, "--data", str(data), *options]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
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


def typed(line: str) -> str:
    done = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ended(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert not any(word in errors for word in ("Traceback", " ERROR ")), "a busy machine may be warned of, and no more"


@pytest.mark.slow
def test_everything_it_says_to_try_works_and_is_remembered(tmp_path: Path) -> None:
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    store, port = free_base(0, 707, 1707), free_base(0)
    with running(tmp_path, "--store-port-base", str(store), "--port-base", str(port)) as (process, introduction):
        assert "1 broker and 1 server of the store run in this process; the controller is broker 1" in introduction
        [console] = re.findall(r"in a browser +http://127\.0\.0\.1:(\d+)/", introduction)
        for path, words in (("/servers", "Healthy"), ("/brokers", "127.0.0.1"), ("/node?path=/brokers", "the brokers")):
            shown = ask(int(console), path)
            assert shown.status == 200
            assert words in shown.text
        tries = [line.strip() for line in introduction.partition("Try")[2].splitlines() if line.startswith("  ")]
        said = [typed(each.replace("python -c", f"{sys.executable} -c")) for each in tries]
        produced, consumed, described, topics, nodes, health, _ = said
        assert (produced, consumed, topics) == ("", "hello", "{'greetings'}")
        assert "greetings" in described
        assert "'brokers'" in nodes
        assert '"healthy": true' in health
        ended(process, signal.SIGINT)
    with running(tmp_path, "--port-base", str(port)) as (process, _):
        assert typed(tries[1]) == "hello"
        ended(process, signal.SIGTERM)


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        where = ["--data", str(tmp_path), "--port-base", str(port), "--store-port-base", str(free_base(0, 707, 1707))]
        ran = subprocess.run([*DEV, *where], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith(
        f"zab-broker dev: cannot listen on 127.0.0.1:{port} for listener PLAINTEXT"
    )
    assert "Traceback" not in ran.stderr


def test_zab_dev_with_brokers_becomes_this_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []

    def become(_: str, command: list[str]) -> None:
        became.append(command)
        raise SystemExit

    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "zab")])
    CliRunner().invoke(dev, ["--brokers", "2", "--data", str(tmp_path), "--port-base", "12181"])
    given = ["--store-port-base=12181", "--tick-ms=2000", "--log-level=warning", "--brokers=2", f"--data={tmp_path}"]
    assert became[0] == [sys.executable, "-m", "replica.cli", "dev", *given, "--log-format=text"]
    (tmp_path / "zab-broker").touch()
    CliRunner().invoke(dev, ["--brokers", "2", "--data", str(tmp_path), "--port-base", "12181"])
    assert became[-1][:2] == [str(tmp_path / "zab-broker"), "dev"]
    monkeypatch.setattr("zab.cli.dev.find_spec", lambda name: None)
    refused = CliRunner().invoke(dev, ["--brokers", "2"])
    assert refused.exit_code == 2
    assert "pip install 'zab[broker]'" in refused.output
