"""Members in processes of their own, started by the command line, killed by a test."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import trio

from bench.ports import free_ports
from tests import forkserver
from zab.core.ensemble import Ensemble, Server
from zab.core.zxid import ServerId

ROOT = Path(__file__).resolve().parents[2]


class Processes:
    """Servers of docs/examples/replicated_map.py, each a process."""

    def __init__(self, path: Path, count: int, tick_ms: int = 200) -> None:
        ports = free_ports(3 * count)
        self.ensemble = Ensemble(
            tuple(
                Server(ServerId(sid), "127.0.0.1", ports[3 * sid - 3], ports[3 * sid - 2])
                for sid in range(1, count + 1)
            )
        )
        self.client_ports = {sid: ports[3 * sid - 1] for sid in range(1, count + 1)}
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self._path = path
        self._tick_ms = tick_ms

    def start(self, sid: int) -> None:
        servers = ",".join(server.text() for server in self.ensemble.servers)
        arguments = ["--id", str(sid), "--ensemble", servers, "--data", str(self._path / str(sid))]
        arguments += ["--client-port", str(self.client_ports[sid]), "--tick-ms", str(self._tick_ms)]
        with self._log(sid) as log:
            self.running[sid] = forkserver.start(
                [str(ROOT / "docs/examples/replicated_map.py"), *arguments],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self, sid: int) -> None:
        """Kill the process with SIGKILL."""
        process = self.running.pop(sid)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self, sid: int) -> int:
        process = self.running.pop(sid)
        process.terminate()
        return process.wait(timeout=120)

    def log(self, sid: int) -> str:
        return (self._path / f"{sid}.log").read_text()

    def _log(self, sid: int) -> IO[bytes]:
        return (self._path / f"{sid}.log").open("ab")

    # -- talking to them ---------------------------------------------------------------------------

    async def connect(self, sid: int) -> trio.SocketStream:
        while True:
            try:
                return await trio.open_tcp_stream("127.0.0.1", self.client_ports[sid])
            except OSError:
                await trio.sleep(0.02)

    async def ask(self, sid: int, line: str) -> str:
        """The reply to one line, however often the server has to be asked for it."""
        while True:
            async with await self.connect(sid) as stream:
                reply = await exchange(stream, line)
            if reply is not None:
                return reply

    async def status(self, sid: int) -> dict[str, Any]:
        status: dict[str, Any] = json.loads((await self.ask(sid, "status")).removeprefix("ok "))
        return status

    async def leader(self) -> int:
        """Return the leader when all running servers agree on it."""
        while True:
            states = [await self.status(sid) for sid in self.running]
            if all(state["serving"] for state in states) and len({state["leader"] for state in states}) == 1:
                return int(states[0]["leader"])
            await trio.sleep(0.02)


async def exchange(stream: trio.SocketStream, line: str) -> str | None:
    """Return None if the connection broke: then the outcome is unknown."""
    reply = b""
    try:
        await stream.send_all(line.encode() + b"\n")
        while not reply.endswith(b"\n"):
            data = await stream.receive_some()
            if not data:
                return None
            reply += data
    except trio.BrokenResourceError:
        return None
    return reply.decode().rstrip("\n")


@contextmanager
def processes(path: Path, count: int = 3) -> Iterator[Processes]:
    made = Processes(path, count)
    try:
        for sid in made.client_ports:
            made.start(sid)
        yield made
    finally:
        for sid in list(made.running):
            made.kill(sid)
