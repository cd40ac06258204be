"""A signal during the start of a server ends it with status 0, as it does later."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMANDS = {
    "zab serve": "from zab.cli import main; main()",
    "zab dev": "from zab.cli import main; main()",
    "zab-broker serve": "import sys; from replica.cli import main; sys.exit(main())",
}


def catches(pid: int, number: int) -> bool:
    """Return whether the process has a handler of its own for the signal."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("command", COMMANDS)
def test_signal_during_the_imports_ends_a_server_with_status_0(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    """Python catches SIGINT from its start on, so the handler of SIGTERM tells that ours are installed."""
    config = tmp_path / "zoo.cfg"
    config.write_text(f"dataDir={tmp_path / 'data'}\nclientPort=0\nadmin.enableServer=false\n")
    arguments = {"zab serve": [config], "zab dev": [], "zab-broker serve": [tmp_path / "server.properties"]}[command]
    name, subcommand = command.split()
    # A shell may run the tests in the background, with SIGINT ignored.
    code = f"import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); {COMMANDS[command]}"
    process = subprocess.Popen(
        [sys.executable, "-c", code, subcommand, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
        text=True,
    )
    try:
        until = time.monotonic() + 60
        while not catches(process.pid, signal.SIGTERM):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.001)
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in said, f"{name}: {said}"
    assert process.returncode == 0, said
