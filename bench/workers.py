"""Processes under measurement, commanded by JSON lines through their stdin and stdout.

Only what was started here is ever ended, and by its own handle. A worker ends by itself when its stdin
does, so nothing is left behind when the measuring process dies.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

Answer: TypeAlias = dict[str, Any]
STARTED_S: Final = 120.0
ANSWER_S: Final = 240.0
LAST_LINES: Final = 25


class WorkerDied(Exception):
    """A worker ended, or did not answer in time. The message has the end of its stderr."""


class Worker:
    """One worker process. `ask` is `tell` and `hear`; several workers get a command first and are read afterwards."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=Path(__file__).parents[1],
                start_new_session=True,  # Ctrl-C is for the one who measures, who then ends the workers
            )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                self._lines.put(line)
        self._lines.put(b"")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def tell(self, do: str, **arguments: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerDied(f"process {self.pid} has ended{self._last_words()}") from None

    def hear(self, timeout_s: float = ANSWER_S) -> Answer:
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise WorkerDied(f"process {self.pid} did not answer in {timeout_s:g} s{self._last_words()}") from None
        if not line:
            raise WorkerDied(f"process {self.pid} has ended{self._last_words()}")
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise WorkerDied(f"process {self.pid}: {answer['error']}{self._last_words()}")
        return answer

    def _last_words(self) -> str:
        """The end of its log, because the log is in a temporary directory."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "".join(f"\n    {line}" for line in (f"; {self.log} ends with", *lines))

    def ask(self, do: str, timeout_s: float = ANSWER_S, **arguments: object) -> Answer:
        self.tell(do, **arguments)
        return self.hear(timeout_s)

    def kill(self) -> None:
        """`kill -9`: unsent output is lost, files stay. Returns when the process is gone."""
        self._process.kill()
        self._reap()

    def stop(self, timeout_s: float = 15.0) -> None:
        """Let it end in its own way; kill it if it does not."""
        self.close_input()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def _reap(self) -> None:
        self._process.wait()
        self.close_input()
        self._reader.join()

    def close_input(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()


def python(module: str, *arguments: str) -> list[str]:
    """The command of a worker in Python."""
    return [sys.executable, "-m", module, *arguments]


@contextmanager
def closing(workers: dict[int, Worker]) -> Iterator[dict[int, Worker]]:
    """Whatever happens, no worker outlives this block."""
    try:
        yield workers
    finally:
        for worker in workers.values():
            worker.close_input()
        for worker in workers.values():
            worker.stop()


def ask_all(workers: Iterable[Worker], do: str, timeout_s: float = ANSWER_S, **arguments: object) -> list[Answer]:
    """Send a command to all workers, then read all replies."""
    asked = list(workers)
    for worker in asked:
        worker.tell(do, **arguments)
    return [worker.hear(timeout_s) for worker in asked]


def rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def cpu_s(pid: int) -> float:
    """User and system time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scheduled_s(pid: int) -> float:
    """Processor time so far of all threads, in nanoseconds where `cpu_s` counts ticks."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def disk_mib(directory: Path) -> float:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file()) / (1 << 20)
