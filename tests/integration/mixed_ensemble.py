"""Three servers of Apache ZooKeeper, and one of ours: `zab serve` with the same configuration and one key more."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from bench.ports import free_port
from tests.integration import apache
from tests.integration.raw_client import Client
from tests.integration.served import Served, serve
from zab.core.zxid import ServerId

SETTLE_S_MAX: Final = 60
T = TypeVar("T")


class MixedEnsemble:
    """Servers of ZooKeeper and one of ours: the observer 4 beside three voters, or the voter `ours` of three."""

    def __init__(self, folder: Path, stack: ExitStack, ours: int, properties: dict[str, str]) -> None:
        self.me = ServerId(ours)
        self.voters = tuple(sid for sid in (1, 2, 3) if sid != ours)
        """The voters of ZooKeeper."""
        self._folder = folder
        self._stack = stack
        self._java: dict[int, AbstractContextManager[subprocess.Popen[bytes]]] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.servers = {sid: apache.Server(free_port(), folder / f"{sid}" / "data") for sid in (*self.voters, ours)}
        self.properties = {"initLimit": "20", "syncLimit": "10", "skipACL": "no", **properties}
        for sid in self.servers:
            role = "observer" if sid > 3 else "participant"
            self.properties[f"server.{sid}"] = f"127.0.0.1:{free_port()}:{free_port()}:{role}"
        stack.callback(self._end)

    def _end(self) -> None:
        for sid in list(self._java):
            self.stop(sid)

    # -- servers of ZooKeeper ------------------------------------------------------------------------

    def start(self, *sids: int) -> None:
        processes = {}
        for sid in sids:
            server = self.servers[sid]
            server.data.mkdir(parents=True, exist_ok=True)
            (server.data / "myid").write_text(f"{sid}")
            running = apache._process(server.data.parent, server, self.properties)
            processes[sid] = self._processes[sid] = running.__enter__()
            self._java[sid] = running
        for sid, process in processes.items():
            apache._wait_for(self.servers[sid].port, process, self.servers[sid].data.parent / "server.log")

    def stop(self, sid: int) -> None:
        self._java.pop(sid).__exit__(None, None, None)

    def kill(self, sid: int) -> None:
        """Kill a server with SIGKILL."""
        process = self._processes[sid]
        process.kill()
        process.wait()
        self.stop(sid)

    @property
    def leader(self) -> int:
        def leads(sid: int) -> bool:
            return "Mode: leader" in apache.ask(self.servers[sid].port, "srvr")

        return wait_for(lambda: next((sid for sid in self._java if leads(sid)), 0))

    # -- our server --------------------------------------------------------------------------------

    @property
    def data(self) -> Path:
        return self.servers[self.me].data

    @property
    def log(self) -> Path:
        return self._folder / "ours.log"

    @property
    def running(self) -> tuple[int, ...]:
        """The servers of ZooKeeper that run."""
        return tuple(self._java)

    @contextmanager
    def ours(self, *options: str) -> Iterator[Served]:
        """Run our server, and wait until it serves."""
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / "myid").write_text(f"{self.me}")
        config = self._folder / "ours.cfg"
        properties = {**self.properties, "peerProtocol": "zookeeper", "tickTime": "1000"}
        if self.me > 3:
            properties["peerType"] = "observer"
        port = self.servers[self.me].port
        config.write_text(
            f"dataDir={self.data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n4lw.commands.whitelist=*\n"
            "extendedTypesEnabled=true\n" + "".join(f"{key}={value}\n" for key, value in properties.items())
        )
        with serve(config, *options) as served:
            served.joined = served.ready()
            yield served

    def client(self, sid: int, resumes: Client | None = None) -> Client:
        client = Client(self.servers[sid].port, resumes=resumes)
        self._stack.callback(client.socket.close)
        return client

    def zxid(self, sid: int) -> str:
        found = apache.ask(self.servers[sid].port, "srvr").splitlines()
        return next((line for line in found if line.startswith("Zxid:")), "")

    def wait_until_equal(self, *sids: int) -> None:
        """Wait until these servers have applied the same zxid."""
        wait_for(lambda: len(found := {self.zxid(sid) for sid in sids}) == 1 and "" not in found)


def wait_for(look: Callable[[], T], seconds: float = SETTLE_S_MAX) -> T:
    """Return the first true value of `look`. It fails while servers start, elect or end."""
    patience = time.monotonic() + seconds
    while True:
        try:
            found = look()
        except (OSError, EOFError):
            found = None
        if found:
            return found
        assert time.monotonic() < patience, "the servers did not get there in time"
        time.sleep(0.05)


@contextmanager
def mixed_ensemble(folder: Path, ours: int, **properties: str) -> Iterator[MixedEnsemble]:
    with ExitStack() as stack:
        yield MixedEnsemble(folder, stack, ours, properties)
