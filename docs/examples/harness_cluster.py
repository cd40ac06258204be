"""A campaign on a cluster: a standalone master of Spark with two workers, here on loopback; then its analysis.

    python docs/examples/harness_cluster.py [DIR]        # needs pyspark and java; takes about a minute

Each worker is a process of its own, and so are its executors. They get the sources from the driver, and must see DIR
under the same path. Exit status: 0 every promise was kept, 1 one was broken, 2 something is missing or went wrong.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

MISUSED: Final = 2
TOLD: Final = 143
PATIENCE_S: Final = 240.0
WORKERS: Final = 2
RUNS: Final = "40"


def spark_home() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def missing() -> str | None:
    """What this needs and does not find."""
    if shutil.which("java") is None:
        return "java is not installed"
    return "pyspark is not installed" if spark_home() is None else None


def free_ports(count: int) -> list[int]:
    """Below those that the system gives to connections, which may have it before the master. No two are the same."""
    found: list[int] = []
    for port in random.sample(range(32_000, 32_700), 700):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found[:count]


class ToldToEnd(BaseException):
    """SIGTERM has come: end the processes that were started here, then this one."""


def told(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the clean-up
    raise ToldToEnd


@contextmanager
def told_later() -> Iterator[None]:
    """Delay SIGTERM until a process that was just started is known to the clean-up."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if heard:
            signal.raise_signal(signal.SIGTERM)


def end(process: subprocess.Popen[bytes], patience_s: float = 10) -> None:
    process.terminate()
    try:
        process.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Cluster:
    """What `start-master.sh` and `start-worker.sh` start on machines of their own. It ends with the block."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        port, self._web = free_ports(2)
        self.master = f"spark://127.0.0.1:{port}"
        addresses = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(self._web)]
        self._start("master", "org.apache.spark.deploy.master.Master", *addresses)
        self._until("the master answers", lambda: self._shown().get("status") == "ALIVE")
        for number in range(WORKERS):
            offer = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
            where = ["--host", "127.0.0.1", "--webui-port", "0"]
            self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *where, *offer, self.master)
        self._until("the workers are there", lambda: self._shown().get("aliveworkers") == WORKERS)

    def _start(self, name: str, main: str, *arguments: str) -> None:
        home = spark_home()
        assert home is not None
        log = self._stack.enter_context((self._folder / f"{name}.log").open("wb"))
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # they start sooner
        }
        command = ["java", "-Xmx512m", "-cp", f"{home / 'jars'}/*", main, *arguments]
        with told_later():
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, env=environment)
            self._stack.callback(end, process)

    def _shown(self) -> dict[str, Any]:
        """What the master shows on its page, or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web}/json/", timeout=5) as answer:
                shown: dict[str, Any] = json.load(answer)
                return shown
        except (OSError, ValueError):  # it has not started, or not completely
            return {}

    def _until(self, what: str, there: Any) -> None:
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < patience:
            if there():
                print(f"cluster: {what}", flush=True)
                return
            time.sleep(0.2)
        raise TimeoutError(f"not within {PATIENCE_S:.0f} s: {what}\n{self.last_words()}")

    def last_words(self) -> str:
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"== {log.stem}\n" + "\n".join(log.read_text().splitlines()[-15:]) for log in logs)

    def executors(self) -> int:
        """How many processes have worked here: each has a directory of its own under its worker's."""
        return len(list(self._folder.glob("work-*/app-*/*")))


def harness(*arguments: str) -> int:
    print("zab-harness", *arguments, flush=True)
    # In a real cluster the driver has an address that the workers can reach, and says so here.
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "harness", *arguments]
    with ExitStack() as stack:
        with told_later():
            process = subprocess.Popen(command, env=environment)
            stack.callback(end, process, 30)  # it says what it has kept
        return process.wait(timeout=900)


def main(output: str | None) -> int:
    reason = missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return MISUSED
    signal.signal(signal.SIGTERM, told)
    try:
        return campaign(output)
    except ToldToEnd:
        stored = f"finished runs are in {output}" if output else "no run is stored"
        print(f"terminated: master and workers have ended; {stored}", file=sys.stderr)
        return TOLD


def campaign(output: str | None) -> int:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            cluster = Cluster(stack, Path(folder))
        except TimeoutError as late:
            print(late, file=sys.stderr)
            return MISUSED
        there = output or str(Path(folder) / "found")
        size = ["--servers", "3", "--ops", "40", "--faults", "6"]
        code = harness("fuzz", "--runs", RUNS, *size, "--output", there, "--master", cluster.master)
        if code != MISUSED:
            code = max(code, harness("analyze", there, "--master", cluster.master, "--memory", "512m"))
        print(f"cluster: {cluster.executors()} executors have worked for this", flush=True)
        if code == MISUSED:
            print(cluster.last_words(), file=sys.stderr)
        return code


if __name__ == "__main__":
    match sys.argv[1:]:
        case [] | [_]:
            sys.exit(main(sys.argv[1] if sys.argv[1:] else None))
        case _:
            print(__doc__, file=sys.stderr)
            sys.exit(MISUSED)
