"""The guard of this folder refuses connections, processes and files outside of a temporary folder."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

REFUSED: dict[str, Callable[[], object]] = {
    "connect": lambda: socket.socket().connect(("127.0.0.1", 1)),
    "bind": lambda: socket.socket().bind(("127.0.0.1", 0)),
    "name": lambda: socket.getaddrinfo("localhost", 80),
    "process": lambda: subprocess.run(["true"], check=True),
    "fork": os.fork,
    "worker": lambda: multiprocessing.get_context("fork").Process(target=print).start(),
    "file": lambda: Path(__file__).with_name("left-over").write_text(""),
    "server": lambda: trio.run(trio.open_tcp_listeners, 0),
}


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("act", REFUSED.values(), ids=REFUSED)
def test_it_refuses(act: Callable[[], object], guard: Any) -> None:
    with pytest.raises(RuntimeError, match="a unit test opens no connection, starts no process"):
        act()
    assert guard.refused is not None
    guard.refused = None


def test_it_notices_a_refusal_that_the_code_catches(guard: Any) -> None:
    try:
        socket.getaddrinfo("localhost", 80)
    except Exception:
        pass
    assert guard.refused == "socket.getaddrinfo ('localhost', 80, 0, 0, 0)"
    guard.refused = None


def test_it_allows_temporary_files_and_the_loop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    trio.run(trio.sleep, 0)
    assert Path(__file__).read_text()
