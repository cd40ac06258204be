"""The servers of a memory store: real ones, each with a disk in memory that survives its processes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, TypedDict

import trio

from zab.core.ensemble import Ensemble
from zab.core.ready import Settings
from zab.core.zxid import ServerId
from zab.host.clocks import steady_wall_clock
from zab.host.threads import in_task
from zab.net.memory_network import MemoryNetwork, ProcessNetwork
from zab.runtime.environment import Environment
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import make_server, run_server
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.runtime.store_server.store_server import StoreServer
from zab.service.limits import Limits
from zab.storage.memory_disk import MemoryDisk
from zab.storage.storage import StorageSettings
from zab.store.store_settings import StoreSettings
from zab.testing.loop_writer import LoopWriter

CLIENT_PORT: Final = 2181
STORAGE: Final = StorageSettings(preallocate=False)
CLIENT_PORTS: Final = ClientPortSettings(connections_per_host_max=0)
"""The default: no limit per address, because all clients have the same address here."""


class MemoryStoreOptions(TypedDict, total=False):
    """Settings of every server of a memory store, as for `zab.open_store`."""

    settings: Settings
    limits: Limits
    store: StoreSettings
    client_ports: ClientPortSettings


def host_of(sid: int) -> str:
    return f"s{sid}"


def ensemble_of(servers: int) -> Ensemble | None:
    """Return the membership; None for a single server, which needs no ports for others."""
    if servers == 1:
        return None
    return Ensemble.parse("\n".join(f"server.{sid}={host_of(sid)}:2888:3888" for sid in range(1, servers + 1)))


class ServerProcess:
    """One process of a server, from its start to its end."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.dead = False
        """True once it was killed: it sends and receives nothing more, and its errors do not count."""
        self._scope = trio.CancelScope()
        self.up = trio.Event()
        """Set when the server has recovered and its ports are open, or the process has ended."""
        self._ended = trio.Event()
        network = ProcessNetwork(server.network, self)
        options = server.options.copy()
        options.setdefault("client_ports", CLIENT_PORTS)
        self.runtime: ServerRuntime = make_server(
            f"server {server.id} in memory",
            server_id=server.id,
            ensemble=server.ensemble,
            storage=STORAGE,
            disk=server.disk,
            network=network,
            host=Environment(
                in_thread=in_task,
                check_cancelled=_never_cancelled,
                in_loop=_at_once,
                random_bytes=server.random.randbytes,
                listen=network.listen_for_clients,
                wall_ms=server.wall_ms,
                writer=LoopWriter,
            ),
            **options,
        )
        self.store = StoreServer(self.runtime)
        self.runtime.readiness.sessions[self] = None

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(run_server, self.runtime, host_of(self.server.id), CLIENT_PORT)
                    self.up.set()
        except Exception:
            if not self.dead:
                raise
        finally:
            self.server.process = None
            self._ended.set()
            self.up.set()
            self.server.changed()

    async def end(self) -> None:
        """Cancel the process, and wait until it has ended."""
        self._scope.cancel()
        await self._ended.wait()

    # -- called by the readiness of the server --------------------------------------------------------

    def ready_changed(self, ready: bool) -> None:
        self.server.changed()

    def store_closed(self, why: str) -> None:
        self.server.changed()


class MemoryServer:
    """A server with its disk, which outlives its processes."""

    def __init__(
        self,
        sid: int,
        ensemble: Ensemble | None,
        network: MemoryNetwork,
        seed: int,
        options: MemoryStoreOptions,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called whenever the server may have begun or ceased to serve or to lead."""
        self.id = ServerId(sid)
        self.ensemble = ensemble
        self.network = network
        self.options = options
        self.changed = changed
        self.disk = MemoryDisk()
        self.random = Random(f"{seed}/server/{sid}")
        self.wall_ms = steady_wall_clock()
        """The wall clock, which follows Trio's clock: TTLs of nodes pass in virtual time, too."""
        self.process: ServerProcess | None = None
        """The present process; None while the server is down."""
        self.restarts = 0
        """The number of `restart` calls under way."""

    @property
    def running(self) -> bool:
        """True unless the server was killed, and no call of `restart` is about to start it."""
        return self.restarts > 0 or (self.process is not None and not self.process.dead)

    @property
    def serving(self) -> bool:
        process = self.process
        return process is not None and not process.dead and process.runtime.clients.ready

    @property
    def leading(self) -> bool:
        return self.serving and self.process is not None and self.process.runtime.role.leading

    def start(self, nursery: trio.Nursery) -> ServerProcess:
        """Start a process of this server, and return it at once."""
        self.process = process = ServerProcess(self)
        nursery.start_soon(process.run)
        return process

    async def restart(self, nursery: trio.Nursery) -> None:
        """Stop the server in good order if it runs, and start it. Return when its ports are open."""
        self.restarts += 1
        try:
            await self.stop()
            process = self.start(nursery)
        finally:
            self.restarts -= 1
        await process.up.wait()

    async def stop(self) -> None:
        """Stop the server in good order."""
        if self.process is not None:
            await self.process.end()

    async def kill(self, *, power_loss: bool) -> None:
        """Kill the server at this instant: what it does while its tasks end has no effect."""
        process = self.process
        if process is None:
            return
        process.dead = True
        self.network.crashed(process)
        if power_loss:
            self.disk.crash()
        else:
            self.disk.kill()
        await process.end()


def _at_once(job: Callable[[], object]) -> None:
    job()


def _never_cancelled() -> None:
    """Return: a job in the loop cannot be cancelled."""
