"""Brokers as processes of their own, so that they can be killed, on a store in the test's loop."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from attrs import define, field

from bench.ports import free_port
from replica.core.errors import ErrorCode
from replica.runtime.network.broker_client import connect
from replica.runtime.network.broker_connection import Unreachable
from replica.runtime.requests import ApiKey
from tests import forkserver
from tests.kafka_bodies import Body, ask
from zab.core.ensemble import Ensemble, Server
from zab.core.zxid import ServerId

ROOT = Path(__file__).resolve().parents[2]
SESSION_MS = 3_000
PATIENCE_S = 900.0


@define(eq=False)
class Processes:
    path: Path
    store: str
    ports: dict[int, int]
    running: dict[int, subprocess.Popen[bytes]] = field(factory=dict)

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def start(self, number: int) -> None:
        properties = self.path / f"server{number}.properties"
        properties.write_text(
            f"broker.id={number}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.ports[number]}\n"
            f"log.dirs={self.path / f'broker{number}'}\n"
            f"zookeeper.connect={self.store}\n"
            f"zookeeper.session.timeout.ms={SESSION_MS}\n"
            "num.partitions=3\n"
            "default.replication.factor=3\n"
            "min.insync.replicas=2\n"
            "offsets.topic.num.partitions=4\n"
            "group.initial.rebalance.delay.ms=0\n"
            "leader.imbalance.check.interval.seconds=5\n"
        )
        with (self.path / f"broker{number}.log").open("ab") as log:
            self.running[number] = forkserver.start(
                ["-m", "replica.cli", "serve", str(properties)],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def kill(self, number: int) -> None:
        """As a power cut does, but for the page cache."""
        process = self.running.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait()

    async def cluster(self) -> Body:
        """As some broker describes it now."""
        while True:
            try:
                addresses = [("127.0.0.1", self.ports[number]) for number in self.running]
                async with connect(addresses) as client:
                    return await ask(client, ApiKey.METADATA, {"topics": None})
            except (Unreachable, OSError):
                await trio.sleep(0.1)

    async def settled(self) -> Body:
        """All that run are known, one of them is the controller, and everything is led and in sync with all."""
        while True:
            found = await self.cluster()
            if (
                {each["node_id"] for each in found["brokers"]} == self.running.keys()
                and found["controller_id"] in self.running
                and all(
                    part["error_code"] == ErrorCode.NONE
                    and set(part["isr_nodes"]) == set(part["replica_nodes"]) & self.running.keys()
                    for topic in found["topics"]
                    for part in topic["partitions"]
                )
            ):
                return found
            await trio.sleep(0.1)


@asynccontextmanager
async def broker_processes(path: Path, store: str) -> AsyncIterator[Processes]:
    made = Processes(path, store, {number: free_port() for number in (1, 2, 3)})
    try:
        for number in made.ports:
            made.start(number)
        await made.settled()
        yield made
    finally:
        for process in made.running.values():
            process.send_signal(signal.SIGKILL)
        for process in made.running.values():
            process.wait()


@define(eq=False)
class StoreProcesses:
    running: dict[int, subprocess.Popen[bytes]]
    ports: dict[int, int]

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    async def leader(self) -> int:
        while True:
            for sid in self.running:
                try:
                    async with await trio.open_tcp_stream("127.0.0.1", self.ports[sid]) as stream:
                        await stream.send_all(b"srvr")
                        told = b"".join([chunk async for chunk in stream])
                    if b"Mode: leader" in told:
                        return sid
                except (OSError, trio.BrokenResourceError):
                    pass
            await trio.sleep(0.1)

    def kill(self, sid: int) -> None:
        process = self.running.pop(sid)
        process.send_signal(signal.SIGKILL)
        process.wait()


def _store_process(sid: int, ensemble: Ensemble, path: Path, port: int) -> subprocess.Popen[bytes]:
    arguments = [str(sid), ensemble.text(), str(path), str(port)]
    with path.with_suffix(".log").open("ab") as log:
        return forkserver.start(
            ["-m", "tests.integration.store_process", *arguments],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


@asynccontextmanager
async def store_processes(path: Path) -> AsyncIterator[StoreProcesses]:
    """A store of three servers, each a process of its own."""
    ensemble = Ensemble(tuple(Server(ServerId(sid), "127.0.0.1", free_port(), free_port()) for sid in (1, 2, 3)))
    made = StoreProcesses({}, {sid: free_port() for sid in (1, 2, 3)})
    try:
        for sid, port in made.ports.items():
            made.running[sid] = _store_process(sid, ensemble, path / f"store{sid}", port)
        await made.leader()
        yield made
    finally:
        for sid in list(made.running):
            made.kill(sid)
