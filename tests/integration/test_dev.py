"""`zab dev` as a person uses it: start, look, write, stop, start again."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.ports import free_base
from tests.integration.http_client import ask
from tests.integration.processes import ROOT


@contextmanager
def dev(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and its output when it was ready."""
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
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ended(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert not any(word in errors for word in ("Traceback", " ERROR ")), "a busy machine may be warned of, and no more"


def dev_base() -> str:
    """With all its companions free."""
    return str(free_base(0, 1, 2, 707, 708, 709, 1707, 1708, 1709))


def test_printed_commands_work_and_their_data_survives(tmp_path: Path) -> None:
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    base = dev_base()
    with dev(tmp_path, "--port-base", base) as (process, introduction):
        assert "3 servers run in this process" in introduction
        hosts = ",".join(f"127.0.0.1:{int(base) + number}" for number in range(3))
        assert f"  {hosts}\n" in introduction
        by_kazoo, by_zab = [line.strip() for line in introduction.splitlines() if " -c " in line or " log dump" in line]
        assert shell(by_kazoo.replace("python", sys.executable, 1)) == "['zookeeper']"
        status = shell(f"{sys.executable} -m zab status --server 127.0.0.1:{base}")
        assert [row.split()[1] for row in status.splitlines()[2:5]] == ["1", "2", "3"], "one leads to the others"
        create = by_kazoo.replace("python", sys.executable, 1).replace("k.get_children(", 'k.create("/kept") or (')
        assert shell(create) == "/kept"
        assert "/kept" in shell(by_zab)
        ended(process, signal.SIGINT)
    with dev(tmp_path) as (process, introduction):
        assert shell(by_kazoo.replace("python", sys.executable, 1)) == "['zookeeper', 'kept']"
        ended(process, signal.SIGTERM)


def test_one_server_is_an_ensemble_too(tmp_path: Path) -> None:
    with dev(tmp_path, "--servers", "1", "--port-base", dev_base()) as (_, introduction):
        assert introduction.startswith("1 server")
        [console] = re.findall(r"A browser .* at http://127\.0\.0\.1:(\d+)/", introduction)
        shown = ask(int(console), "/")
        assert (shown.status, "1 of 1" in shown.text) == (200, True)
