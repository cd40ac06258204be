"""`zab-broker dev`, where it cannot begin."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.ports import free_ports


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "replica.cli", "dev", "--servers", "1", "--brokers", "1"]
        where = ["--data", str(tmp_path), "--port-base", str(port), "--store-port-base", str(free_ports(1)[0])]
        ran = subprocess.run([*command, *where], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("zab-broker")
    assert f"cannot have 127.0.0.1:{port}" in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
