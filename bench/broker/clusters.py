"""The two sides of the comparison: brokers of ours and of Apache Kafka, each over one server of our store.

Neither waits for the disk before it acknowledges a record: that is the default of both, and what replicas are for.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from bench.ports import free_ports
from bench.workers import Worker, cpu_s, python, rss_mib
from bench.zookeeper.ensembles import end_all, end_with_parent

START_S: Final = 120.0
STOP_S: Final = 20.0
_ROOT: Final = Path(__file__).parents[2]
KAFKA_MAIN: Final = "kafka.Kafka"
KAFKA_JARS: Final = Path(os.environ.get("ZAB_KAFKA_JARS") or _ROOT / ".peers" / "kafka")
SESSION_MS: Final = 6_000
HEAP_MIB: Final = 1024
"""As `kafka-server-start.sh` has it, unless it is told otherwise."""


def missing() -> str | None:
    """Why Apache Kafka cannot be measured here; None when it can."""
    if not list(KAFKA_JARS.glob("kafka_2.13-3.*.jar")):
        return "no jars of Apache Kafka 3: `make peers` brings them, or ZAB_KAFKA_JARS names their folder"
    return None if shutil.which("java") else "no java on this machine"


def kafka_version() -> str | None:
    if missing() is not None:
        return None
    return next(KAFKA_JARS.glob("kafka-clients-3.*.jar")).stem.removeprefix("kafka-clients-")


class Process:
    """One that is not commanded. Its own handle ends it."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=_ROOT, start_new_session=True,
                preexec_fn=end_with_parent,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        end_all([self._process], STOP_S)

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


Broker: TypeAlias = Process | Worker


class Cluster:
    def __init__(self, label: str, folder: Path, brokers: int) -> None:
        self.label = label
        self._folder = folder
        self._store_port, *self._ports = free_ports(1 + 2 * brokers)
        self.store = f"127.0.0.1:{self._store_port}"
        self.hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports[:brokers])
        self.brokers: dict[int, Broker] = {}
        self._numbers = tuple(range(1, brokers + 1))
        home = folder / "store"
        home.mkdir(parents=True)
        (home / "zoo.cfg").write_text(
            f"tickTime=2000\ndataDir={home.resolve()}/data\nclientPort={self._store_port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        )
        self._store = Process(python("zab", "serve", str(home / "zoo.cfg")), home)
        try:
            _answers(self._store_port, self._store)
            for number in self._numbers:
                self.start(number)
            self.wait()
        except BaseException:
            self.end()
            raise

    def start(self, number: int) -> None:
        home = self._folder / str(number)
        home.mkdir(exist_ok=True)
        properties = home / "server.properties"
        settings: dict[str, object] = {
            "broker.id": number,
            "zookeeper.connect": self.store,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._ports[number - 1]}",
            "log.dirs": (home / "data").resolve(),
            "offsets.topic.replication.factor": min(3, len(self._numbers)),
            "auto.create.topics.enable": "false",
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if self.label == "ours":
            self.brokers[number] = Worker(python("bench.broker.server", str(properties)), home / "log")
        else:
            command = [
                "java",
                f"-Xms{HEAP_MIB}m",
                f"-Xmx{HEAP_MIB}m",
                "-cp",
                f"{KAFKA_JARS}/*",
                KAFKA_MAIN,
                str(properties),
            ]
            self.brokers[number] = Process(command, home)

    def wait(self) -> None:
        """Until all take connections."""
        for number, broker in self.brokers.items():
            _answers(self._ports[number - 1], broker)

    def kill(self, number: int) -> None:
        self.brokers[number].kill()

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self.brokers.values()]

    def cpu_s(self) -> float:
        return sum(map(cpu_s, self.pids))

    def rss_mib(self) -> float:
        return sum(map(rss_mib, self.pids))

    def end(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self._store.stop()


@contextmanager
def cluster(label: str, folder: Path, brokers: int) -> Iterator[Cluster]:
    made = Cluster(label, folder, brokers)
    try:
        yield made
    finally:
        made.end()


def _answers(port: int, process: Broker) -> None:
    patience = time.monotonic() + START_S
    while time.monotonic() < patience and process.alive:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"process {process.pid} does not start: {_said(process)} ({sys.executable})")


def _said(process: Broker) -> str:
    return process.said() if isinstance(process, Process) else process.log.read_text(errors="replace")[-2000:]
