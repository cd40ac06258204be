"""Servers of the store with real sockets and real disks in one process, for clients that we did not write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import evolve

from bench.ports import free_port, free_ports
from tests.integration.cluster import FAST, loopback
from zab.admin.admin_settings import AdminSettings
from zab.core.ensemble import Ensemble, Server
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import make_server, run_server
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.store.store_settings import StoreSettings
from zab.wire.client.client_frames import FOUR_LETTER_WORDS

ALL_WORDS = frozenset(FOUR_LETTER_WORDS.values())
PORTS = ClientPortSettings(tick_ms=200, timeout_ticks_max=100, words=ALL_WORDS)
"""Sessions of 400 ms are possible."""


class Stores:
    def __init__(self, nursery: trio.Nursery, path: Path, count: int, options: dict[str, Any]) -> None:
        self.servers: dict[int, ServerRuntime] = {}
        self.ports = dict(enumerate(free_ports(count), start=1))
        servers = self._addressed(loopback(count)) if options.pop("has_client_addresses", True) else loopback(count)
        self.ensemble = Ensemble(servers) if count > 1 else None
        self._nursery = nursery
        self._path = path
        self._admin: tuple[AdminSettings, ...] = options.pop("admin", ())
        self._options = options
        self._scopes: dict[int, trio.CancelScope] = {}
        self._ended: dict[int, trio.Event] = {}

    def _addressed(self, servers: Sequence[Server]) -> tuple[Server, ...]:
        return tuple(evolve(each, client_host="127.0.0.1", client_port=self.ports[each.id]) for each in servers)

    def spare(self) -> Server:
        """Return the address of a future member. Start it with an ensemble in which it is an observer."""
        sid = max(self.ports) + 1
        self.ports[sid] = free_port()
        (server,) = self._addressed(loopback(1, first=sid))
        return server

    async def start(self, sid: int, ensemble: Ensemble | None = None, **own: Any) -> ServerRuntime:
        """`own`: options of this server alone."""
        usual = {"settings": FAST, "client_ports": PORTS, "store": StoreSettings(extended_types=True)}
        options = {**usual, **self._options, **own}
        server = make_server(self._path / str(sid), server_id=sid, ensemble=ensemble or self.ensemble, **options)
        self.servers[sid] = server
        self._ended[sid] = trio.Event()
        await self._nursery.start(self._run, sid, server)
        return server

    async def _run(self, sid: int, server: ServerRuntime, task_status: trio.TaskStatus[None]) -> None:
        with trio.CancelScope() as self._scopes[sid]:
            await run_server(server, "127.0.0.1", self.ports[sid], self._admin, task_status)
        self._ended[sid].set()

    async def stop(self, sid: int) -> None:
        self._scopes[sid].cancel()
        await self._ended[sid].wait()
        del self.servers[sid]

    async def leader(self) -> int:
        while True:
            for server in self.servers.values():
                await server.member.wait_serving()
            leaders = {server.member.status().role.leader for server in self.servers.values()}
            (leader,) = leaders if len(leaders) == 1 else (None,)
            if leader in self.servers and all(server.clients.ready for server in self.servers.values()):
                assert leader is not None
                return leader
            await trio.sleep(0.01)

    def hosts(self, *sids: int) -> str:
        return ",".join(f"127.0.0.1:{self.ports[sid]}" for sid in sids or self.ports)


@asynccontextmanager
async def stores(path: Path, count: int = 1, **options: Any) -> AsyncIterator[Stores]:
    async with trio.open_nursery() as nursery:
        made = Stores(nursery, path, count, options)
        for sid in made.ports:
            await made.start(sid)
        await made.leader()
        yield made
        nursery.cancel_scope.cancel()
