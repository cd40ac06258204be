"""How a broker ends that is told to."""

from __future__ import annotations

import logging
import re
import signal
from pathlib import Path

import pytest
import trio
import trio.testing

from replica.cli import main, serve_command
from replica.cli.serve_command import until_left


def test_log_lines_begin_with_a_time_and_its_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(serve_command, "run", lambda *_: logging.getLogger("replica").warning("started broker=1"))
    for tuning in ("raise_open_files", "tune_collector"):
        monkeypatch.setattr(serve_command, tuning, lambda: None)
    (tmp_path / "server.properties").write_text(
        f"broker.id=1\nzookeeper.connect=127.0.0.1:1\nlog.dirs={tmp_path}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
    )
    assert main(["serve", str(tmp_path / "server.properties")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"[0-9-]{10}T[0-9:.]{12}[+-][0-9]{2}:[0-9]{2} WARNING started broker=1", lines[-1])


def test_last_override_of_a_key_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"broker.id=1\nzookeeper.connect=127.0.0.1:1\nlog.dirs={tmp_path}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
    )
    overrides = ["--override", "num.partitions=2", "--override", "num.partitions=3"]
    assert main(["serve", "--check", *overrides, str(file)]) == 0
    assert "num.partitions=3" in re.sub(" *= *", "=", capsys.readouterr().out)


async def test_immediate_controlled_shutdown_ends_the_wait() -> None:
    """Told so while it starts, before it knows of any cluster: then nobody has begun to listen for a second time."""

    async def leave() -> None:
        pass

    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        await until_left(leave, signals)
    await trio.testing.wait_all_tasks_blocked()


async def test_second_signal_ends_the_wait() -> None:
    left = []

    async def leave() -> None:
        signal.raise_signal(signal.SIGUSR1)
        await trio.Event().wait()
        left.append(True)

    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        await until_left(leave, signals)
    assert left == []
