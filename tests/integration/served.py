"""Servers in processes of their own, started by `zab serve` with a configuration file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

from attrs import define, field

from bench.ports import free_port, free_ports
from tests import forkserver
from tests.integration.processes import ROOT

PATIENCE_S = 240
Start = Callable[..., subprocess.Popen[str]]


@define
class Served:
    """One server process. `said` has the lines of its stdout."""

    process: subprocess.Popen[str]
    log: Path
    said: Queue[str] = field(factory=Queue)
    joined: str = ""
    """The line that reported readiness, for helpers that wait for it."""

    def ready(self) -> str:
        """Wait for the line that reports readiness, and return it."""
        while True:
            line = self.said.get(timeout=PATIENCE_S)
            if not line:
                raise AssertionError(f"zab serve ended: {self.log.read_text()}")
            if " is ready" in line:
                return line

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=PATIENCE_S)


def real_start(words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start Python with these arguments as a user does, with all imports."""
    return subprocess.Popen([sys.executable, *words], **options)


@contextmanager
def serve(config: Path, *options: str, start: Start = forkserver.start) -> Iterator[Served]:
    log = config.with_suffix(".log")
    with log.open("ab") as errors:
        process = start(
            ["-m", "zab", "serve", str(config), *options],
            cwd=config.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    served = Served(process, log)

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            served.said.put(line)
        served.said.put("")

    listening = threading.Thread(target=listen)
    listening.start()
    try:
        yield served
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        listening.join()
        assert process.stdout is not None
        process.stdout.close()


def three_configs(folder: Path) -> tuple[list[Path], list[int]]:
    """Write three configurations that differ in directory and port, with a `myid` in each directory."""
    clients = free_ports(3)
    servers = "".join(f"server.{sid}=127.0.0.1:{free_port()}:{free_port()}\n" for sid in (1, 2, 3))
    configs = []
    for sid, port in enumerate(clients, start=1):
        data = folder / f"data{sid}"
        data.mkdir()
        (data / "myid").write_text(f"{sid}\n")
        config = folder / f"zoo{sid}.cfg"
        config.write_text(
            "# an ensemble of three\ntickTime=400\ninitLimit=25\nsyncLimit=10\n"
            f"dataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
            f"4lw.commands.whitelist=*\nautopurge.purgeInterval=1\n{servers}"
        )
        configs.append(config)
    return configs, clients
