"""The two servers, alike in every setting that a client could notice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import trio
from attrs import frozen

from bench.ports import free_port
from tests.differential.drive import KEPT, SUPER_HASH, janitor
from tests.integration import apache
from tests.integration.cluster import FAST, loopback
from tests.integration.processes import ROOT
from zab.core.ensemble import Ensemble
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import open_store
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.store_settings import StoreSettings

TICK_MS: Final = 1_000
PORTS: Final = ClientPortSettings(
    tick_ms=TICK_MS,
    timeout_ticks_min=10,
    timeout_ticks_max=60,
    containers_ms=3_600_000,
    connections_per_host_max=0,
    super_digest=SUPER_HASH,
)
STORE: Final = StoreSettings(extended_types=True, enforce_quota=True)
THEIRS: Final = {
    "minSessionTimeout": str(10 * TICK_MS),
    "maxSessionTimeout": str(60 * TICK_MS),
    "maxClientCnxns": "0",
    "enforceQuota": "true",
    "znode.container.checkIntervalMs": "3600000",
    "DigestAuthenticationProvider.superDigest": SUPER_HASH,
    "forceSync": "no",
}


@frozen
class Peers:
    """The ports of both."""

    theirs: int
    ours: int

    def equalize(self) -> None:
        """Equalize the counters that continue from script to script, after a step at one server only."""
        with janitor(self.theirs) as theirs, janitor(self.ours) as ours:
            for path in KEPT[:3]:
                for one, other in ((theirs, ours), (ours, theirs)):
                    while _behind(one.versions(), other.versions(), path):
                        one.ask(Op.CREATE, f"{path.rstrip('/')}/x", b"", OPEN, 0)
                        one.ask(Op.DELETE, f"{path.rstrip('/')}/x", -1)
                    while _behind(one.versions(), other.versions(), path + " data"):
                        one.ask(Op.SET_DATA, path, b"", -1)
                    while _behind(one.versions(), other.versions(), path + " acl"):
                        one.ask(Op.SET_ACL, path, OPEN, -1)


def _behind(one: dict[str, int], other: dict[str, int], key: str) -> bool:
    return one[key] < other[key]


@contextmanager
def our_server(folder: Path, sid: int = 1, ensemble: str = "", port: int = 0) -> Iterator[int]:
    port = port or free_port()
    with (folder / f"ours-{sid}.log").open("ab") as log:
        arguments = [str(folder / f"ours-{sid}"), str(port), str(sid), ensemble]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.differential.peers", *arguments], cwd=ROOT, stdout=log, stderr=log
        )
    try:
        yield port
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def wait_for(port: int) -> None:
    patience = time.monotonic() + apache.START_SECONDS_MAX
    while time.monotonic() < patience:
        try:
            if "Mode: " in apache.ask(port, "srvr"):
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError("our server does not start")


@contextmanager
def alone(folder: Path) -> Iterator[Peers]:
    """Run one server of each kind."""
    with our_server(folder) as ours, apache.running(folder, **THEIRS) as server:
        wait_for(ours)
        yield Peers(server.port, ours)


@contextmanager
def three(folder: Path) -> Iterator[Peers]:
    """Three servers each; the port is that of one which does not lead."""
    with ExitStack() as stack:
        ensemble = Ensemble(loopback(3))
        text = ",".join(server.text() for server in ensemble.servers)
        ours = {sid: stack.enter_context(our_server(folder, sid, text)) for sid in (1, 2, 3)}
        theirs = stack.enter_context(apache.ensemble(folder, **THEIRS))
        for port in ours.values():
            wait_for(port)
        yield Peers(_follower(theirs), _follower(list(ours.values())))


def _follower(ports: list[int]) -> int:
    """Return a follower when a leader exists."""
    while True:
        modes = [apache.ask(port, "srvr") for port in ports]
        if sum("Mode: follower" in mode for mode in modes) == len(ports) - 1:
            return next(port for port, mode in zip(ports, modes, strict=True) if "Mode: follower" in mode)
        time.sleep(0.05)


async def main(folder: str, port: int, sid: int, ensemble: str) -> None:
    options: dict[str, Any] = {"ensemble": Ensemble.parse(ensemble), "settings": FAST} if ensemble else {}
    async with open_store(folder, server_id=sid, client_port=port, client_ports=PORTS, store=STORE, **options):
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
