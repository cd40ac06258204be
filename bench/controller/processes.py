"""Brokers as processes, each ended by its own handle, and by nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.zookeeper.ensembles import end_with_parent


class Brokers:
    def __init__(self, store: str, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, ident: int) -> None:
        command = [
            sys.executable,
            "-m",
            "harness.worlds.processes.controllers.broker",
            str(ident),
            self._store,
            str(self._folder),
        ]
        with (self._folder / f"broker-{ident}.log").open("ab") as log:
            self._processes[ident] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def kill(self, ident: int) -> None:
        process = self._processes.pop(ident)
        process.kill()
        process.wait()

    def alive(self) -> list[int]:
        return [ident for ident, process in self._processes.items() if process.poll() is None]

    def log(self, ident: int) -> str:
        """All that it has said, in every life."""
        return (self._folder / f"broker-{ident}.log").read_text(errors="replace")

    def end(self) -> None:
        for ident in list(self._processes):
            self.kill(ident)


@contextmanager
def brokers(store: str, folder: Path) -> Iterator[Brokers]:
    made = Brokers(store, folder)
    try:
        yield made
    finally:
        made.end()
