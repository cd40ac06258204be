"""A cut-off server that has not noticed: holders of locks through it stop in time.

Three servers in this process, on virtual time: streams in memory, disks in memory, no threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

import zab
from zab.client.dialing import Address, Outside
from zab.core.ensemble import Ensemble
from zab.core.messages import State
from zab.core.ready import Write
from zab.core.zxid import Ticket
from zab.recipes import Election, Lock, Lost, Semaphore
from zab.runtime.environment import Environment
from zab.runtime.store_server.connection_shell import ConnectionShell
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.runtime.writer import Writer
from zab.session.state import SessionState
from zab.storage.memory_disk import MemoryDisk

T = TypeVar("T")
ENSEMBLE = Ensemble.parse("\n".join(f"server.{sid}=host{sid}:2888:3888" for sid in (1, 2, 3)))
TIMEOUT_MS = 10_000


class LoopWriter(Writer):
    """Nothing takes time, and there is no thread."""

    def put(self, writes: Sequence[Write]) -> bool:
        self._storage.perform(writes)
        return True

    async def call(self, job: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return job()

    async def run(self, report: Callable[[Ticket], None]) -> None:
        await trio.sleep_forever()


def loop_writer(storage: Any, pause_us_max: int) -> Writer:
    return LoopWriter(storage, pause_us_max)


async def in_loop(job: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
    await trio.lowlevel.checkpoint()
    return job()


HOST = Environment(in_thread=in_loop, check_cancelled=lambda: None, writer=loop_writer)


class Silenced(trio.abc.Stream):
    """One end of a cable. While either server is cut off, sent bytes are lost silently."""

    def __init__(self, inner: trio.abc.Stream, ends: tuple[int, int], cut: set[int]) -> None:
        self._inner, self._ends, self._cut = inner, ends, cut

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._cut.isdisjoint(self._ends):
            await self._inner.send_all(data)
        else:
            await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = await self._inner.receive_some(max_bytes)
        if not self._cut.isdisjoint(self._ends):
            await trio.sleep_forever()
        return bytes(data)

    async def aclose(self) -> None:
        if self._cut.isdisjoint(self._ends):
            await self._inner.aclose()
        else:
            await trio.lowlevel.checkpoint()


class Listener(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self, streams: trio.MemoryReceiveChannel[trio.abc.Stream]) -> None:
        self._streams = streams

    async def accept(self) -> trio.abc.Stream:
        return await self._streams.receive()

    async def aclose(self) -> None:
        await self._streams.aclose()


class Cables:
    def __init__(self) -> None:
        self.cut: set[int] = set()
        self.listeners: dict[tuple[str, int], trio.MemorySendChannel[trio.abc.Stream]] = {}

    def of(self, sid: int) -> Plug:
        return Plug(self, sid)


class Plug:
    """The network of one server: a `zab.net.network.Network`."""

    def __init__(self, cables: Cables, sid: int) -> None:
        self._cables, self._sid = cables, sid

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        cables, ends = self._cables, (self._sid, int(host.removeprefix("host")))
        if not cables.cut.isdisjoint(ends):
            await trio.sleep_forever()
        if (host, port) not in cables.listeners:
            raise OSError("connection refused")
        here, there = trio.testing.memory_stream_pair()
        await cables.listeners[host, port].send(Silenced(there, ends, cables.cut))
        return Silenced(here, ends, cables.cut)

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        await trio.lowlevel.checkpoint()
        send, receive = trio.open_memory_channel[trio.abc.Stream](100)
        self._cables.listeners[f"host{self._sid}", port] = send
        return [Listener(receive)]


class Three:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.cables = Cables()
        self.servers: dict[int, ServerRuntime] = {}
        self.scopes: dict[int, trio.CancelScope] = {}
        self.nursery = nursery

    async def start(self, sid: int, task_status: trio.TaskStatus[None]) -> None:
        network = self.cables.of(sid)
        with trio.CancelScope() as self.scopes[sid]:
            async with zab.open_store(
                f"server {sid}", server_id=sid, ensemble=ENSEMBLE, disk=MemoryDisk(), network=network, host=HOST
            ) as store:
                self.servers[sid] = store._server
                task_status.started()
                await trio.sleep_forever()

    @property
    def roles(self) -> tuple[int, list[int]]:
        """Return the leader and the followers."""
        (leader,) = [sid for sid, each in self.servers.items() if each.member.status().role.state is State.LEADING]
        return leader, [sid for sid in self.servers if sid != leader]

    def session(self, via: str, sid: int) -> AbstractAsyncContextManager[zab.Session]:
        if via == "process":
            return self.servers[sid].session(TIMEOUT_MS)
        return zab.connect(f"host{sid}", timeout_ms=TIMEOUT_MS, outside=Outside(addresses, self.dialled))

    async def dialled(self, address: Address, *_: object) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        here, there = trio.testing.memory_stream_pair()
        server = self.servers[int(address.host.removeprefix("host"))]
        self.nursery.start_soon(ConnectionShell(server, there, address.host, f"{address.host}:1").run)
        return here


async def addresses(host: str, port: int) -> list[Address]:
    await trio.lowlevel.checkpoint()
    return [Address(host, port, 0, (host, port))]


@asynccontextmanager
async def three() -> AsyncIterator[Three]:
    async with trio.open_nursery() as nursery:
        made = Three(nursery)
        async with trio.open_nursery() as starting:
            for sid in (1, 2, 3):
                starting.start_soon(nursery.start, made.start, sid)
        while not all(server.clients.ready for server in made.servers.values()):
            await trio.sleep(0.1)
        yield made
        nursery.cancel_scope.cancel()


def on_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**arguments: Any) -> None:
        async def bounded() -> None:
            with trio.fail_after(1_000):
                await test(**arguments)

        trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0))

    return run


VALID: dict[str, Callable[[zab.Session], AbstractAsyncContextManager[object]]] = {
    "lock": lambda session: Lock(session, "/held"),
    "semaphore": lambda session: Semaphore(session, "/held", leases=1),
    "election": lambda session: Election(session, "/held").candidate(),
}


@pytest.mark.parametrize("recipe", VALID)
@pytest.mark.parametrize("via", ["process", "client"])
@pytest.mark.parametrize("idle_s", [1.0, 60.0])
@on_virtual_time
async def test_two_never_hold_one_thing(via: str, recipe: str, idle_s: float) -> None:
    """The network of a follower falls silent. It believes in its leader for some seconds more, and answers pings."""
    hold = VALID[recipe]
    inside: list[str] = []
    lost, inherited = trio.Event(), trio.Event()

    async def one(session: zab.Session) -> None:
        with pytest.raises(Lost, match="for too long"):
            async with hold(session):
                inside.append("holder")
                try:
                    await trio.sleep_forever()
                finally:
                    inside.remove("holder")
        lost.set()

    async def other(session: zab.Session) -> None:
        async with hold(session):
            assert inside == [], "two are inside"
            inherited.set()

    async with three() as made:
        _, (cut, well) = made.roles
        async with (
            made.session(via, cut) as mine,
            made.session("process", well) as yours,
            trio.open_nursery() as tasks,
        ):
            tasks.start_soon(one, mine)
            await trio.sleep(idle_s)
            tasks.start_soon(other, yours)
            await trio.sleep(idle_s)
            assert inside == ["holder"], "while all is well, it is kept"
            made.cables.cut.add(cut)
            await inherited.wait()
            made.cables.cut.clear()
            await lost.wait()


@pytest.mark.parametrize("via", ["process", "client"])
@on_virtual_time
async def test_partial_snapshot_survives_an_election(via: str) -> None:
    """Pings are answered meanwhile, and a `sync` waits; the new leader gives every session its full timeout again."""
    async with three() as made:
        leader, (follower, _) = made.roles
        async with made.session(via, follower) as session, Lock(session, "/held") as held:
            states = session.states()
            before = trio.current_time()
            made.scopes[leader].cancel()
            await trio.sleep(30)
            assert session.last_received_at > before + 20
            assert await session.exists(held.path) is not None
            assert await anext(states) is SessionState.CONNECTED
            if via == "client":
                assert session.state is SessionState.CONNECTED
                with trio.move_on_after(1) as nothing_more:
                    await anext(states)
                assert nothing_more.cancelled_caught, "its connection is the first one"


@pytest.mark.parametrize("via", ["process", "client"])
@on_virtual_time
async def test_last_received_at_follows_replies_of_the_leader(via: str) -> None:
    async with three() as made:
        _, (cut, _) = made.roles
        async with made.session(via, cut) as session:
            await trio.sleep(5)
            asked_at = trio.current_time()
            await session.sync()
            assert session.last_received_at == asked_at
            made.cables.cut.add(cut)
            await trio.sleep(5)
            assert session.state is SessionState.CONNECTED, "its server believes in its leader, and answers"
            assert await session.exists("/") is not None
            assert session.last_received_at == asked_at
            made.cables.cut.clear()
