"""A store in memory: its servers, its sessions, and the faults that a test can inject."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, Unpack

import trio

from zab.client.hosts import parse_hosts, shown
from zab.client.remote_session import RemoteSession
from zab.client.remote_session import connect as connect_client
from zab.core.argument_names import check_names, checks_methods, with_arguments_of
from zab.core.errors import ConfigError, LocalProtocolError, Stopped
from zab.core.zxid import ServerId
from zab.net.memory_network import MemoryNetwork
from zab.runtime.block_nursery import block_nursery
from zab.runtime.store_server.store_server import StoreServer
from zab.runtime.waiter import Waiter
from zab.session.api import Session
from zab.session.state import SessionState
from zab.testing.loop_events import LoopEvents, PromptTiming
from zab.testing.memory_clients import ClientHost
from zab.testing.memory_servers import CLIENT_PORT, MemoryServer, MemoryStoreOptions, ensemble_of, host_of
from zab.testing.misuse import check_kind, check_loop, check_trio, clock_must_move
from zab.testing.partitions import Partitions

SERVERS_MAX: Final = 30
_SERVED: Final = frozenset({SessionState.CONNECTED, SessionState.READ_ONLY})


@checks_methods
class MemoryStore:
    """A running store in memory, of one server or of several. `open_memory_store` opens it.

        async with open_memory_store(servers=3) as store, store.session() as session:
            await session.create("/app")
            await store.kill(await store.wait_leader())
            await session.set("/app", b"written under the next leader")

    Servers have the numbers 1, 2 and so on. Every method must be called in the `trio.run` that opened the store, and
    before the end of the block; otherwise it raises `zab.LocalProtocolError`. So do the requests of sessions in another
    `trio.run`, and a call for a server that does not exist. Calls that wait also raise it if they would wait for ever
    because a `trio.testing.MockClock` stands still.
    """

    def __init__(self, servers: int, seed: int, options: MemoryStoreOptions, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._seed = seed
        self._network = MemoryNetwork(LoopEvents(nursery), PromptTiming(), servers, str(seed))
        self._ensemble = ensemble_of(servers)
        self._servers = {
            sid: MemoryServer(sid, self._ensemble, self._network, seed, options, self._wake)
            for sid in range(1, servers + 1)
        }
        self._partitions = Partitions(self._network, self._servers.keys(), "server", "open_memory_store(servers=3)")
        self._clients: dict[Session, ClientHost] = {}
        """The open sessions over connections."""
        self._client_number = count(1).__next__
        self._changes = trio.lowlevel.ParkingLot()
        """The tasks that wait until a server has changed its role, or the store is closed."""
        self._closed = False

    def __repr__(self) -> str:
        leader = "closed" if self._closed else "no leader" if self.leader is None else f"server {self.leader} leads"
        return f"<{type(self).__name__} of {len(self._servers)} servers, {leader}>"

    # -- sessions ----------------------------------------------------------------------------------

    @property
    def hosts(self) -> str:
        """The addresses of all servers, in the form that `connect` takes: "s1:2181,s2:2181"."""
        return ",".join(f"{host_of(sid)}:{CLIENT_PORT}" for sid in self._servers)

    def session(self, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[RemoteSession]:
        """Open a session for as long as the block lasts. It connects to any of the servers, as `zab.connect` does."""
        return self.connect(self.hosts, timeout_ms=timeout_ms)

    @with_arguments_of(connect_client)
    def connect(self, hosts: str, **options: Any) -> AbstractAsyncContextManager[RemoteSession]:
        """Open a session as `zab.connect` does, with the same arguments. `hosts` names servers of this store.

        `tls` and `outside` have no effect. A test may put this method in the place of `zab.connect`.

        Raise `zab.ConfigError` if `hosts` names a host that is not in `MemoryStore.hosts`.
        """
        self._check("connect")
        known = {(host_of(sid), CLIENT_PORT) for sid in self._servers}
        for host in parse_hosts(hosts).hosts:
            if host not in known:
                raise ConfigError(
                    f"{hosts!r}: {shown(host)} is not in this memory store: use store.hosts, {self.hosts!r}"
                )
        return self._connected(hosts, options)

    @asynccontextmanager
    async def _connected(self, hosts: str, options: dict[str, Any]) -> AsyncIterator[RemoteSession]:
        self._check("connect")
        client = ClientHost(self._network, self._client_number(), self._seed)
        async with (
            clock_must_move("open the session") as connected,
            connect_client(hosts, **{**options, "tls": None, "outside": client.outside}) as session,
        ):
            connected()
            self._clients[session] = client
            try:
                yield session
            finally:
                del self._clients[session]

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions of `session` and `connect` whose blocks have not ended, in the order of their opening."""
        return tuple(self._clients)

    async def expire(self, session: Session) -> None:
        """End a session as if it had expired: its ephemeral nodes are deleted, and its state becomes EXPIRED.

        Return when both are done. A session that `suspend` cut off learns of its end only after `resume`, so for such a
        session the call returns when the nodes are deleted. The call waits while there is no leader, as `wait_leader`
        does, and raises as that does.
        """
        self._check("expire")
        check_kind("session", session, Session, "a session of this store, such as store.sessions[0]")
        if session.over is not None:
            return
        async with clock_must_move("expire the session"):
            await self._close_session(session)
            client = self._clients.get(session)
            if client is None or not client.is_cut_off:
                async for state in session.states():
                    if state.final:
                        return

    async def _close_session(self, session: Session) -> None:
        while True:
            process = self._servers[await self._elected("expire")].process
            assert process is not None, "a leader runs"
            sessions = process.runtime.clients.sessions
            if session.id not in sessions.table:
                if session in self._clients:
                    return  # it has expired, and its client has not received this yet
                raise LocalProtocolError(
                    f"session {session.id:#x} is not in this store: it has expired, or belongs to another store"
                )
            closed = Waiter()
            sessions.close(session.id, closed.done)
            try:
                await closed.wait()
            except Stopped:
                continue
            return

    async def suspend(self, session: Session) -> None:
        """Cut the connection of a session, and let it open no other one until `resume`.

        Return when the session is SUSPENDED, or over. If it stays cut off for its timeout, the store expires it. Raise
        `zab.LocalProtocolError` for a session that `session` or `connect` of this store has not opened, or whose block
        has ended.
        """
        client = self._client_of("suspend", session)
        client.cut_off()
        async for state in session.states():
            if state not in _SERVED:
                return

    async def resume(self, session: Session) -> None:
        """Let a suspended session connect again. Return when it is connected, or over. Raise as `suspend` does."""
        client = self._client_of("resume", session)
        client.reconnect()
        async with clock_must_move("connect the session"):
            async for state in session.states():
                if state is not SessionState.SUSPENDED:
                    return

    def _client_of(self, what: str, session: Session) -> ClientHost:
        self._check(what)
        client = self._clients.get(session)
        if client is None:
            raise LocalProtocolError(
                f"{what}: {session!r} has no connection in this store: open it with store.session() or "
                "store.connect(), and use it within its block"
            )
        return client

    # -- servers -----------------------------------------------------------------------------------

    def server(self, server: int = 1) -> StoreServer:
        """Return a running server, as `zab.open_store` returns it. Its sessions are in-process: they use no connection.

        Raise `zab.LocalProtocolError` if the server is down. After a restart, call this method again.
        """
        process = self._server("server", server).process
        if process is None or process.dead:
            raise LocalProtocolError(f"server {server} is down: await store.restart({server}) starts it")
        return process.store

    @property
    def leader(self) -> int | None:
        """The number of the server that leads and reaches a quorum; None if there is none.

        A store of one server has a leader while that server serves.
        """
        for sid, server in self._servers.items():
            if server.leading and self._reaches_quorum(sid):
                return sid
        return None

    def _reaches_quorum(self, leader: int) -> bool:
        reached = [
            server.id
            for sid, server in self._servers.items()
            if server.serving and not self._partitions.separates(leader, sid)
        ]
        return self._ensemble is None or self._ensemble.is_quorum(reached)

    async def wait_leader(self) -> int:
        """Wait until there is a `leader`, and return its number.

        Raise `zab.LocalProtocolError` if no majority of the servers can elect one, because too many were killed or are
        cut off: only `restart` or `heal` can end that, so call it before.
        """
        self._check("wait_leader")
        async with clock_must_move("elect a leader"):
            return await self._elected("wait_leader")

    async def _elected(self, what: str) -> int:
        await trio.lowlevel.checkpoint()
        if self.leader is None:
            self._check_quorum(what)
        while (leader := self.leader) is None:
            await self._changes.park()
            self._check(what)
        return leader

    def _check_quorum(self, what: str) -> None:
        """Raise `LocalProtocolError` unless enough servers run and reach each other for an election."""
        running = [sid for sid, server in self._servers.items() if server.running]
        for one in running:
            reached = [ServerId(sid) for sid in running if not self._partitions.separates(one, sid)]
            if self._ensemble is None or self._ensemble.is_quorum(reached):
                return
        down = [sid for sid in self._servers if sid not in running]
        if not down or (self._ensemble is not None and self._ensemble.is_quorum([ServerId(sid) for sid in running])):
            why = "partitions leave no majority of the servers: store.heal() ends them"
        else:
            which = f"servers {', '.join(map(str, down))} are" if len(down) > 1 else f"server {down[0]} is"
            why = f"{which} down: await store.restart({down[0]}) starts {'one' if len(down) > 1 else 'it'}"
        raise LocalProtocolError(f"{what}: no server can be elected, because {why}")

    async def kill(self, server: int, *, power_loss: bool = False) -> None:
        """Kill a server. Its disk keeps everything that was written; with `power_loss`, only what was synced.

        Raise `zab.LocalProtocolError` if the server is down.
        """
        killed = self._server("kill", server)
        if killed.process is None:
            raise LocalProtocolError(f"server {server} is down already: await store.restart({server}) starts it")
        await killed.kill(power_loss=power_loss)

    async def restart(self, server: int) -> None:
        """Start a server that was killed; stop a running one in good order, and start it again.

        Return when its ports are open. `store.server(server).readable()` waits until it serves.
        """
        await self._server("restart", server).restart(self._nursery)

    def partition(self, *servers: int) -> None:
        """Cut these servers off from the others, until `heal`. Earlier partitions stay; clients reach all servers.

        Data sent across the partition waits. If the partition lasts, each connection across it breaks within 10 s. A
        leader without a quorum resigns after about `Settings.sync_ms`, or earlier if its connections break first.
        """
        self._check("partition")
        self._partitions.cut_off({self._server("partition", server).id for server in servers})
        self._wake()

    def heal(self) -> None:
        """End all partitions."""
        self._check("heal")
        self._partitions.heal()
        self._wake()

    def _server(self, what: str, sid: int) -> MemoryServer:
        self._check(what)
        found = self._servers.get(sid)
        if found is None:
            raise LocalProtocolError(f"{what}: there is no server {sid!r}: this store has 1 to {len(self._servers)}")
        return found

    # -- life --------------------------------------------------------------------------------------

    def _check(self, what: str) -> None:
        """Raise `LocalProtocolError` unless the call comes from the store's loop while the store is open."""
        what = f"MemoryStore.{what}"
        check_trio(what)
        check_loop(f"{what}: this store", self._token)
        if self._closed:
            raise LocalProtocolError(f"{what}: the store is closed: use it inside the block of open_memory_store")

    def _wake(self) -> None:
        self._changes.unpark_all()

    async def _open(self) -> None:
        """Start all servers, and wait until all of them serve."""
        async with clock_must_move("elect a leader"):
            for server in self._servers.values():
                server.start(self._nursery)
            while not all(server.serving for server in self._servers.values()) or self.leader is None:
                await self._changes.park()

    def _close(self) -> None:
        self._closed = True
        self._wake()


class _OpeningStore(AbstractAsyncContextManager[MemoryStore]):
    """The result of `open_memory_store`. It opens the store at `async with`, once; other uses raise an explanation."""

    def __init__(self, servers: int, seed: int, options: MemoryStoreOptions) -> None:
        self._arguments = servers, seed, options
        self._begun = False
        self._block: AbstractAsyncContextManager[MemoryStore]

    async def __aenter__(self) -> MemoryStore:
        check_trio("open_memory_store")
        if self._begun:
            raise LocalProtocolError("this memory store was opened before: call open_memory_store again for a new one")
        self._begun = True
        self._block = _opened(*self._arguments)
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, traceback)

    def __enter__(self) -> NoReturn:
        raise TypeError("a memory store opens with `async with`, in an async function that Trio runs, not with `with`")

    def __exit__(self, *_: object) -> None:
        """Do nothing: `__enter__` raises."""

    if not TYPE_CHECKING:  # a type checker finds these mistakes by itself

        def __getattr__(self, name: str) -> object:
            hint = f": write `async with ... as store:`, then `store.{name}`" if hasattr(MemoryStore, name) else ""
            raise AttributeError(f"this memory store is not open yet, and has no attribute {name!r}{hint}")


@asynccontextmanager
async def _opened(servers: int, seed: int, options: MemoryStoreOptions) -> AsyncIterator[MemoryStore]:
    async with block_nursery() as nursery:
        store = MemoryStore(servers, seed, options, nursery)
        try:
            await store._open()
            yield store
        finally:
            store._close()


def open_memory_store(
    servers: int = 1, *, seed: int = 0, **options: Unpack[MemoryStoreOptions]
) -> AbstractAsyncContextManager[MemoryStore]:
    """Open a store in memory for as long as the block lasts.

        servers       the number of its servers: 1, as in `zab.open_store("data")`, or an ensemble of 2 or more
        seed          the seed of the random choices of the servers, the network and the client, such as the times of
                      elections. Trio itself runs ready tasks in a random order
        settings      times and limits of the consensus: `zab.Settings`
        limits        limits of the servers' queues and requests: `zab.Limits`
        store         settings of the store: `zab.StoreSettings`
        client_ports  limits and behaviour of the client ports: `zab.ClientPortSettings`

    The block begins when there is a leader and all servers serve. The end of the block stops the servers. If a server
    fails, the block is cancelled, and the server's error is raised.

    Raise `zab.LocalProtocolError` for fewer than 1 server or more than 30, outside of Trio, or under a
    `trio.testing.MockClock` that stands still although the election needs time.
    """
    check_names("open_memory_store", options, ["servers", "seed", *MemoryStoreOptions.__annotations__])
    for name, number in (("servers", servers), ("seed", seed)):
        check_kind(name, number, int, "a whole number")
    if servers < 1:
        raise LocalProtocolError(f"servers = {servers}: a store has 1 or more")
    if servers > SERVERS_MAX:
        raise LocalProtocolError(
            f"servers = {servers}: a store in memory has at most {SERVERS_MAX}: the work of an election grows with the "
            "square of them"
        )
    return _OpeningStore(servers, seed, options)


class OpenMemoryStore(Protocol):
    """The type of the fixtures `zab_store` and `zab_ensemble`: `open_memory_store` with other defaults.

    The default number of servers is 1 for `zab_store` and 3 for `zab_ensemble`. The default seed is that of the option
    `--zab-seed`; without the option, it follows from the name of the test.
    """

    def __call__(
        self, servers: int = ..., *, seed: int | None = None, **options: Unpack[MemoryStoreOptions]
    ) -> AbstractAsyncContextManager[MemoryStore]:
        """Open a store in memory: `async with zab_store() as store`. See `open_memory_store`."""
        ...
