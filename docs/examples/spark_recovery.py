"""Spark's masters under our store: one dies and another takes over; the store's leader dies, and nobody minds.

    python docs/examples/spark_recovery.py        # needs pyspark and java; takes about half a minute

Everything runs on loopback, in processes of its own, and ends with this one. Exit status: 0 it went as it should,
1 it did not, 2 something is missing here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import trio

import zab

HELD, FAILED, MISUSED = 0, 1, 2
PATIENCE_S: Final = 400.0
DIRECTORY: Final = "/spark"
PORTS: Final = iter(random.sample(range(31_300, 32_000), 700))
T = TypeVar("T")


# -- one server of the store ---------------------------------------------------------------------------


async def serve(sid: int, ensemble: str, data: str, port: int) -> None:
    """Ticks of 400 ms: a session ends at most eight seconds after its client has died, whatever Spark asks for."""
    client_ports = zab.ClientPortSettings(tick_ms=400)
    async with zab.open_store(
        data, server_id=sid, ensemble=zab.Ensemble.parse(ensemble), client_port=port, client_ports=client_ports
    ):
        await trio.sleep_forever()


# -- and one application -------------------------------------------------------------------------------


def compute(masters: str) -> None:
    """A job each time it reads a line. In between it waits, and its masters may come and go."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(masters)
        .appName("survivor")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    while sys.stdin.readline():
        print(session.range(1000).selectExpr("sum(id)").collect()[0][0], flush=True)
    session.stop()


# -- the stage -----------------------------------------------------------------------------------------


def free_ports(count: int) -> list[int]:
    """Below those that the system gives to connections: a server that is killed finds its own again. Each is given
    once: a JVM takes seconds until it has the one that it was told of."""
    found: list[int] = []
    while len(found) < count:
        port = next(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def eventually(what: str, look: Callable[[], T | None]) -> T:
    patience = time.monotonic() + PATIENCE_S
    while time.monotonic() < patience:
        found = look()
        if found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {PATIENCE_S:.0f} s: {what}")


class Stage:
    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.1f} s  {text}", flush=True)

    def start(self, name: str, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        log: IO[bytes] = self._stack.enter_context((self._folder / f"{name}.log").open("ab"))
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # they start sooner
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        process = subprocess.Popen(
            command, **{"stdout": log, "stderr": log, "cwd": self._folder, "env": environment, **options}
        )
        self._stack.callback(self._end, process)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def last_words(self) -> str:
        """Of everybody, for whoever has to find out why."""
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"== {log.stem}\n" + "\n".join(log.read_text().splitlines()[-15:]) for log in logs)


class Stores:
    """Three servers."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        ports = free_ports(9)
        members = [f"server.{sid}=127.0.0.1:{ports[3 * sid - 3]}:{ports[3 * sid - 2]}" for sid in (1, 2, 3)]
        self.ports = {sid: ports[3 * sid - 1] for sid in (1, 2, 3)}
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        for sid, port in self.ports.items():
            arguments = [str(sid), ",".join(members), str(folder / f"store-{sid}"), str(port)]
            command = [sys.executable, str(Path(__file__).resolve()), "serve", *arguments]
            self.running[sid] = stage.start(f"store-{sid}", command)

    def mode(self, sid: int) -> str | None:
        try:
            with socket.create_connection(("127.0.0.1", self.ports[sid]), timeout=2) as connection:
                connection.sendall(b"srvr")
                said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return None
        return next((line.removeprefix("Mode: ") for line in said.splitlines() if line.startswith("Mode: ")), None)

    def leader(self) -> int | None:
        modes = {sid: self.mode(sid) for sid in self.running}
        settled = sorted(mode or "" for mode in modes.values()) == ["follower"] * (len(modes) - 1) + ["leader"]
        return next(sid for sid, mode in modes.items() if mode == "leader") if settled else None

    def kill(self, sid: int) -> None:
        process = self.running.pop(sid)
        process.kill()
        process.wait()

    def hosts(self, *sids: int) -> str:
        return ",".join(f"127.0.0.1:{self.ports[sid]}" for sid in sids)


class Master:
    def __init__(self, stage: Stage, name: str, hosts: str) -> None:
        self.name = name
        self.port, self.web = free_ports(2)
        properties = {
            "spark.deploy.recoveryMode": "ZOOKEEPER",
            "spark.deploy.zookeeper.url": hosts,
            "spark.deploy.zookeeper.dir": DIRECTORY,
        }
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.web)]
        command = java("org.apache.spark.deploy.master.Master", properties)
        self.process = stage.start(f"master-{name}", [*command, *arguments])

    def state(self) -> dict[str, Any]:
        """Return what the master's page shows, or nothing before the page is there."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/json/", timeout=5) as answer:
                shown: dict[str, Any] = json.load(answer)
                return shown
        except (OSError, json.JSONDecodeError):  # the master opens its port first, and its page later
            return {}

    @property
    def status(self) -> str | None:
        return self.state().get("status")

    def knows(self) -> tuple[list[str], list[str]] | None:
        """Its living workers and its applications, once it leads with both of them."""
        shown = self.state()
        workers = [worker["id"] for worker in shown.get("workers", ()) if worker["state"] == "ALIVE"]
        applications = [application["id"] for application in shown.get("activeapps", ())]
        return (workers, applications) if shown.get("status") == "ALIVE" and workers and applications else None


def java(main: str, properties: dict[str, str]) -> list[str]:
    home = spark_home()
    assert home is not None
    options = [f"-D{name}={value}" for name, value in properties.items()]
    return ["java", "-Xmx512m", *options, "-cp", f"{home / 'jars'}/*", main]


def spark_home() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def missing() -> str | None:
    """What this needs and does not find."""
    if shutil.which("java") is None:
        return "java is not installed"
    home = spark_home()
    if home is None or not list((home / "jars").glob("zookeeper-3*.jar")):
        return "pyspark is not installed"
    return None


# -- the play ------------------------------------------------------------------------------------------


def kept(stores: Stores) -> list[str]:
    """What Spark has written down, as our own client reads it."""

    async def look() -> list[str]:
        async with zab.connect(stores.hosts(*stores.running)) as session:
            return sorted(await session.children(f"{DIRECTORY}/master_status"))

    return trio.run(look)


def play(stage: Stage, folder: Path) -> None:
    say = stage.say
    stores = Stores(stage, folder)
    leader = eventually("a leader of the store", stores.leader)
    others = [sid for sid in stores.ports if sid != leader]
    say(f"store: three servers, server {leader} leads")

    # Both masters are clients of servers that do not lead: it is the election that they are to sit through.
    hosts = stores.hosts(*others)
    first = Master(stage, "A", hosts)
    eventually("master A leads", lambda: first.status == "ALIVE" or None)
    say("spark: master A leads")
    second = Master(stage, "B", hosts)
    masters = f"spark://127.0.0.1:{first.port},127.0.0.1:{second.port}"
    worker = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "600m"]
    command = java("org.apache.spark.deploy.worker.Worker", {})
    stage.start("worker", [*command, *worker, "--work-dir", str(folder / "work"), masters])
    application = stage.start(
        "application",
        [sys.executable, str(Path(__file__).resolve()), "compute", masters],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def job() -> str:
        assert application.stdin is not None
        assert application.stdout is not None
        application.stdin.write(b"\n")
        application.stdin.flush()
        return application.stdout.readline().decode().strip()

    def expect(result: str) -> None:
        assert result == "499500", f"the job says {result!r}"

    eventually("master B stands by", lambda: second.status == "STANDBY" or None)
    say("spark: master B stands by")
    expect(job())
    known = eventually("master A has a worker and an application", first.knows)
    say(f"spark: a job is done; A has {known[0][0]} and {known[1][0]}")
    say(f"store: {DIRECTORY}/master_status holds {', '.join(kept(stores))}")

    first.process.kill()
    first.process.wait()
    say("spark: master A is killed")
    assert eventually("master B leads with what A had", second.knows) == known, "what A knew is lost"
    say("spark: master B leads, with the same worker and the same application")
    expect(job())
    say("spark: the application, still the same, has done another job")

    stores.kill(leader)
    say(f"store: server {leader}, which led, is killed")
    following = eventually("another leader of the store", stores.leader)
    say(f"store: server {following} leads")
    expect(job())
    assert second.process.poll() is None, "master B has gone"
    assert second.knows() == known, "master B has forgotten"
    say("spark: master B has stayed through it, and a third job is done")
    assert application.stdin is not None
    application.stdin.close()
    application.wait(timeout=PATIENCE_S)


def main() -> int:
    reason = missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return MISUSED
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stage = Stage(stack, Path(folder))
        try:
            play(stage, Path(folder))
        except AssertionError as wrong:
            print(stage.last_words(), file=sys.stderr)
            stage.say(f"it did not go as it should: {wrong}")
            return FAILED
        stage.say("all of it went as it should")
    return HELD


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            sys.exit(main())
        case ["serve", sid, ensemble, data, port]:
            trio.run(serve, int(sid), ensemble, data, int(port))
        case ["compute", masters]:
            compute(masters)
        case _:
            print(__doc__, file=sys.stderr)
            sys.exit(MISUSED)
