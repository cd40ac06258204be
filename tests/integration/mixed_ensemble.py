"""Servers of Apache ZooKeeper and of ours in one ensemble: `zab serve` has the same configuration and one key more."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Final, TypeVar

from bench.ports import free_port
from tests import forkserver
from tests.integration import apache
from tests.integration.apache_peers import write_every_kind
from tests.integration.raw_client import Client
from tests.integration.served import Served, serve
from zab.store.operations import Op

SETTLE_S_MAX: Final = 60
REQUESTS_MAX: Final = 100
"""The requests that a client sends at once, without waiting for a reply."""
T = TypeVar("T")


class MixedEnsemble:
    """Three voters, with or without an observer 4. Each can run as a server of ZooKeeper or as one of ours.

    With `reconfigEnabled` the lines of the servers name their client ports, and `spares` can join.
    """

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        observer: bool,
        spares: Sequence[int],
        jars: Path | None,
        properties: dict[str, str],
    ) -> None:
        """`jars`: the folder with the jars of another release of ZooKeeper than that of `apache`."""
        self._jars = jars
        self.system: tuple[str, ...] = ()
        """The system properties of Java of the servers of ZooKeeper, as `name=value`."""
        self._folder = folder
        self._stack = stack
        self._java: dict[int, AbstractContextManager[subprocess.Popen[bytes]]] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ours: dict[int, AbstractContextManager[Served]] = {}
        self._served: dict[int, Served] = {}
        self._spares = spares
        founders = (1, 2, 3, 4)[: 3 + observer]
        self.servers = {sid: apache.Server(free_port(), folder / f"{sid}" / "data") for sid in (*founders, *spares)}
        """The ports and directories of the servers of ZooKeeper. Ours have the same ports, and other directories."""
        self.properties = {"initLimit": "20", "syncLimit": "10", "skipACL": "no", **properties}
        self._reconfigures = "reconfigEnabled" in properties
        self._addresses = {sid: f"127.0.0.1:{free_port()}:{free_port()}" for sid in self.servers}
        for sid in founders:
            self.properties[f"server.{sid}"] = self.entry(sid, "observer" if sid > 3 else "participant")
        stack.callback(self._end)

    def _end(self) -> None:
        for sid in list(self._java):
            self.stop(sid)
        for sid in list(self._ours):
            self.stop_ours(sid)

    def entry(self, sid: int, role: str = "participant") -> str:
        """Return the value of the server's line in a membership."""
        client = f";127.0.0.1:{self.servers[sid].port}" if self._reconfigures else ""
        return f"{self._addresses[sid]}:{role}{client}"

    def _properties_of(self, sid: int) -> dict[str, str]:
        own = {f"server.{sid}": self.entry(sid, "observer")} if sid in self._spares else {}
        return {**self.properties, **own}

    @property
    def running(self) -> tuple[int, ...]:
        """All servers that run."""
        return (*self._java, *self._ours)

    # -- servers of ZooKeeper ------------------------------------------------------------------------

    def start(self, *sids: int, wait: bool = True) -> None:
        processes = {}
        for sid in sids:
            server = self.servers[sid]
            server.data.mkdir(parents=True, exist_ok=True)
            (server.data / "myid").write_text(f"{sid}")
            properties = self._properties_of(sid)
            running = apache._process(
                server.data.parent, server, properties, self.system, jars=self._jars, keeps_config=self._reconfigures
            )
            processes[sid] = self._processes[sid] = running.__enter__()
            self._java[sid] = running
        for sid, process in processes.items() if wait else ():
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

        return wait_for(lambda: next((sid for sid in self.running if leads(sid)), 0))

    # -- our servers -------------------------------------------------------------------------------

    def data(self, sid: int) -> Path:
        return self._folder / f"ours{sid}"

    def log(self, sid: int) -> Path:
        return self._folder / f"ours{sid}.log"

    def start_ours(self, sid: int, planted: str = "", *, is_member: bool = False) -> Served:
        """Start a server of ours, and wait until it serves. `planted` is code that it runs first.

        `is_member`: a spare has joined already.
        """
        data = self.data(sid)
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{sid}")
        config = self._folder / f"ours{sid}.cfg"
        properties = {**self._properties_of(sid), "peerProtocol": "zookeeper", "tickTime": "1000"}
        if sid > 3:
            properties["peerType"] = "observer"
        if not (self._reconfigures and config.exists()):
            config.write_text(
                f"dataDir={data}\nclientPort={self.servers[sid].port}\nclientPortAddress=127.0.0.1\n"
                "4lw.commands.whitelist=*\nextendedTypesEnabled=true\n"
                + "".join(f"{key}={value}\n" for key, value in properties.items())
            )

        def start(words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
            if planted:
                words = ["-c", f"{planted}\nfrom zab.cli.root import zab\nzab()", *words[2:]]
            return forkserver.start(words, **options)

        running = serve(config, start=start)
        served = running.__enter__()
        self._ours[sid], self._served[sid] = running, served
        if sid in self._spares and not is_member:
            wait_for(lambda: "Mode:" in apache.ask(self.servers[sid].port, "srvr"))
        else:
            served.joined = served.ready()
        return served

    def kill_ours(self, sid: int) -> None:
        """Kill a server of ours with SIGKILL."""
        self.stop_ours(sid, signal.SIGKILL)

    def stop_ours(self, sid: int, how: int = signal.SIGTERM) -> None:
        self._served.pop(sid).stop(how)
        self._ours.pop(sid).__exit__(None, None, None)

    @contextmanager
    def ours(self, sid: int) -> Iterator[Served]:
        try:
            yield self.start_ours(sid)
        finally:
            self.stop_ours(sid)

    # -- all servers -------------------------------------------------------------------------------

    def client(self, *sids: int, resumes: Client | None = None) -> Client:
        """Connect to one of these servers as clients do: again, while a server is down or follows no leader yet."""
        hosts = cycle(sids)
        client = wait_for(lambda: Client(self.servers[next(hosts)].port, resumes=resumes))
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


def tree(client: Client) -> dict[str, Any]:
    """Return the data and the stats of all nodes that clients make."""
    found: dict[str, Any] = {}
    left = ["/"]
    while left:
        paths, left = left[:REQUESTS_MAX], left[REQUESTS_MAX:]
        found |= zip(paths, client.ask_all(Op.GET_DATA, [(path, False) for path in paths]), strict=True)
        children = client.ask_all(Op.GET_CHILDREN, [(path, False) for path in paths])
        for path, names in zip(paths, children, strict=True):
            left += [f"{path.rstrip('/')}/{name}" for name in names if path != "/" or name != "zookeeper"]
    return found


def check_equal(mixed: MixedEnsemble) -> None:
    """Compare all nodes at all servers. Ours must have found no difference between digests, either."""
    mixed.wait_until_equal(*mixed.running)
    seen = []
    for sid in mixed.running:
        client = mixed.client(sid)
        seen.append(tree(client))
        client.close()
    assert all(each == seen[0] for each in seen)
    for sid in mixed.running:
        assert mismatches(mixed, sid) == 0


def mismatches(mixed: MixedEnsemble, sid: int) -> int:
    """Return the number of transactions after which this server's tree differed from the leader's.

    Servers before ZooKeeper 3.6 have no digests.
    """
    counted = dict(line.split("\t", 1) for line in apache.ask(mixed.servers[sid].port, "mntr").splitlines())
    return int(counted.get("zk_digest_mismatches_count", 0))


def write(mixed: MixedEnsemble, sid: int, prefix: str) -> None:
    """Write every kind of transaction at a server, with a session of its own."""
    client = mixed.client(sid)
    write_every_kind(client, prefix)
    client.close()


@contextmanager
def mixed_ensemble(
    folder: Path, *, observer: bool = False, spares: Sequence[int] = (), jars: Path | None = None, **properties: str
) -> Iterator[MixedEnsemble]:
    with ExitStack() as stack:
        yield MixedEnsemble(folder, stack, observer, spares, jars, properties)
