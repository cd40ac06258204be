"""The two sides of the comparison: three servers each, in processes of their own, on loopback, fsync on."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from attrs import frozen

from bench.members import Members
from bench.workers import closing, cpu_s, free_ports, rss_mib
from bench.zookeeper.load import java

COUNT: Final = 3
START_S: Final = 60.0
STOP_S: Final = 15.0
_PR_SET_PDEATHSIG: Final = 1


class Side(Protocol):
    @property
    def label(self) -> str: ...
    @property
    def hosts(self) -> str: ...
    @property
    def pids(self) -> list[int]: ...


@frozen
class Usage:
    """Of all servers of a side together."""

    cpu_s: float
    rss_mib: float


def usage(side: Side) -> Usage:
    return Usage(sum(map(cpu_s, side.pids)), sum(map(rss_mib, side.pids)))


# -- ours ----------------------------------------------------------------------------------------------


class Ours:
    label = "ours"

    def __init__(self, members: Members) -> None:
        self.members = members
        self.pids = [worker.pid for worker in members.workers.values()]
        self.hosts = ",".join(f"127.0.0.1:{status['port']}" for status in members.serving().values())


@contextmanager
def ours(directory: Path) -> Iterator[Ours]:
    members = Members(directory, COUNT, "bench.zookeeper.server")
    with closing(members.workers):
        members.start_all()
        yield Ours(members)


# -- theirs --------------------------------------------------------------------------------------------


@frozen
class Apache:
    hosts: str
    pids: list[int]
    label: str = "apache"


@contextmanager
def apache(directory: Path) -> Iterator[Apache]:
    """With its default settings, but for the admin server, whose jars are not there."""
    directory = directory.resolve()
    ports = free_ports(3 * COUNT)
    lines = [f"server.{i + 1}=127.0.0.1:{ports[3 * i]}:{ports[3 * i + 1]}" for i in range(COUNT)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for i in range(COUNT):
            home = directory / str(i + 1)
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{i + 1}\n")
            config = home / "zoo.cfg"
            settings = ["tickTime=2000", "initLimit=10", "syncLimit=5", f"dataDir={home / 'data'}"]
            settings += [f"clientPort={ports[3 * i + 2]}", "clientPortAddress=127.0.0.1", "admin.enableServer=false"]
            settings += ["4lw.commands.whitelist=srvr"]
            config.write_text("\n".join([*settings, *lines]) + "\n")
            command = java("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config))
            with (home / "server.log").open("ab") as log:
                processes.append(
                    subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home,
                        start_new_session=True, preexec_fn=end_with_parent,
                    )
                )  # fmt: skip
        for i, process in enumerate(processes):
            _wait_for(ports[3 * i + 2], process, directory / str(i + 1) / "server.log")
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports[2::3])
        yield Apache(hosts, [process.pid for process in processes])
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def end_with_parent() -> None:
    """A server that outlives whoever measures it would disturb whatever is measured next."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    patience = time.monotonic() + START_S
    while time.monotonic() < patience and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(b"srvr")
                if b"Mode: " in b"".join(iter(lambda: connection.recv(65536), b"")):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"Apache ZooKeeper does not start: {log.read_text(errors='replace')[-2000:]}")
