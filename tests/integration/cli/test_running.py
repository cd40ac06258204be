"""The tests of `tests/unit/cli/test_running.py` that need sockets or processes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from zab.cli.kit.signals import notify_systemd


def test_systemd_receives_the_listening_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_systemd("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify_systemd("READY=1")
        assert listening.recv(100) == b"READY=1"


def test_systemd_that_is_gone_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify_systemd("READY=1")
    assert "cannot notify" in capsys.readouterr().err
