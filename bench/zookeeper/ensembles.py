"""The two sides of the comparison: three servers each, in processes of their own, on loopback, fsync on.

A server that was killed comes back at its old ports. All clients have one address, so neither side counts them.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from attrs import frozen

from bench.members import Members
from bench.ports import free_ports
from bench.workers import closing, cpu_s, rss_mib
from bench.zookeeper.load import java

COUNT: Final = 3
SIDS: Final = tuple(range(1, COUNT + 1))
START_S: Final = 60.0
STOP_S: Final = 15.0
HEAP_MIB: Final = 512
_PR_SET_PDEATHSIG: Final = 1


class Served(Protocol):
    """A system under load."""

    @property
    def label(self) -> str: ...
    @property
    def hosts(self) -> str: ...
    @property
    def pids(self) -> dict[int, int]: ...


class Side(Served, Protocol):
    """An ensemble whose servers can be killed."""

    @property
    def ports(self) -> dict[int, int]: ...
    def leader(self) -> int: ...
    def kill(self, sid: int) -> None:
        """Kill a server with `kill -9`."""

    def start(self, sid: int) -> object: ...
    def wait(self) -> None:
        """Until all serve."""


def hosts(ports: Iterable[int]) -> str:
    """Return the connection string for clients."""
    return ",".join(f"127.0.0.1:{port}" for port in ports)


@frozen
class Usage:
    """Resources of all servers of one side."""

    cpu_s: float
    rss_mib: float


def usage(side: Served) -> Usage:
    return Usage(sum(map(cpu_s, side.pids.values())), sum(map(rss_mib, side.pids.values())))


# -- ours ----------------------------------------------------------------------------------------------


class Ours(Members):
    label = "ours"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, COUNT, "bench.zookeeper.server")
        self.ports = dict(zip(SIDS, free_ports(COUNT), strict=True))
        self.hosts = hosts(self.ports.values())

    def arguments(self, sid: int) -> list[str]:
        return ["--client-port", str(self.ports[sid])]

    @property
    def pids(self) -> dict[int, int]:
        return {sid: worker.pid for sid, worker in self.workers.items()}

    def kill(self, sid: int) -> None:
        self.workers[sid].kill()

    def wait(self) -> None:
        self.serving()


@contextmanager
def ours(directory: Path) -> Iterator[Ours]:
    side = Ours(directory)
    with closing(side.workers):
        side.start_all()
        yield side


# -- theirs --------------------------------------------------------------------------------------------


class Apache:
    """Apache ZooKeeper with default settings, except the admin server (no jars) and the bound on connections."""

    label = "apache"

    def __init__(self, directory: Path, heap_mib: int) -> None:
        self._directory = directory.resolve()
        self._heap_mib = heap_mib
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        ports = free_ports(3 * COUNT)
        self.ports = dict(zip(SIDS, ports[2::3], strict=True))
        self.hosts = hosts(self.ports.values())
        lines = [f"server.{sid}=127.0.0.1:{ports[3 * sid - 3]}:{ports[3 * sid - 2]}" for sid in SIDS]
        for sid in SIDS:
            home = self._directory / str(sid)
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{sid}\n")
            settings = ["tickTime=2000", "initLimit=10", "syncLimit=5", f"dataDir={home / 'data'}"]
            settings += [f"clientPort={self.ports[sid]}", "clientPortAddress=127.0.0.1", "admin.enableServer=false"]
            settings += ["4lw.commands.whitelist=srvr", "maxClientCnxns=0"]
            (home / "zoo.cfg").write_text("\n".join([*settings, *lines]) + "\n")

    @property
    def pids(self) -> dict[int, int]:
        return {sid: process.pid for sid, process in self._processes.items()}

    def start(self, sid: int) -> None:
        home = self._directory / str(sid)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with (home / "server.log").open("ab") as log:
            self._processes[sid] = subprocess.Popen(
                java(main, str(home / "zoo.cfg"), heap_mib=self._heap_mib),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home,
                start_new_session=True, preexec_fn=end_with_parent,
            )  # fmt: skip

    def kill(self, sid: int) -> None:
        self._processes[sid].kill()
        self._processes[sid].wait()

    def wait(self) -> None:
        for sid in SIDS:
            self._mode(sid)

    def leader(self) -> int:
        return next(sid for sid in SIDS if self._mode(sid) == "leader")

    def _mode(self, sid: int) -> str:
        """Once it has one."""
        patience = time.monotonic() + START_S
        while time.monotonic() < patience and self._processes[sid].poll() is None:
            for line in asked(self.ports[sid], b"srvr").splitlines():
                if line.startswith("Mode: "):
                    return line.removeprefix("Mode: ").strip()
            time.sleep(0.1)
        log = (self._directory / str(sid) / "server.log").read_text(errors="replace")
        raise RuntimeError(f"server {sid} of Apache ZooKeeper does not serve: {log[-2000:]}")

    def end(self) -> None:
        end_all(self._processes.values())


@contextmanager
def apache(directory: Path, heap_mib: int = HEAP_MIB) -> Iterator[Apache]:
    side = Apache(directory, heap_mib)
    try:
        for sid in SIDS:
            side.start(sid)
        side.wait()
        yield side
    finally:
        side.end()


def end_with_parent() -> None:
    """Kill this process when its parent ends: a remaining server would disturb the next measurement."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_all(processes: Collection[subprocess.Popen[bytes]], patience_s: float = STOP_S) -> None:
    """Stop all servers at the same time, and kill those that do not end."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def asked(port: int, word: bytes) -> str:
    """Send a four-letter word; return an empty reply if no server answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(word)
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
    except OSError:
        return ""
