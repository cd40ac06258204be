"""The kinds of sessions, for tests that must pass with every one.

`process`  a session in this process
`client`   our client, at our server
`rooted`   the same, with a chroot
`apache`   our client, at Apache ZooKeeper's server
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from attrs import frozen

import zab
from tests.integration import apache
from tests.integration.cluster import FAST
from tests.integration.stores import ALL_WORDS
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.store.store_settings import StoreSettings

PORTS = ClientPortSettings(tick_ms=200, timeout_ticks_max=100, containers_ms=100, words=ALL_WORDS)
TIMEOUT_MS: Final = 10_000
APACHE_SYSTEM: Final = ("znode.container.checkIntervalMs=100",)

_numbers = count(1)


@frozen
class Opened:
    """A store with a node of this test's own, `root`, under which it works; `""` where all of the store is its own."""

    via: str
    root: str
    open_session: Callable[..., AbstractAsyncContextManager[zab.Session]]
    hosts: str | None = None

    def session(self, **options: Any) -> AbstractAsyncContextManager[zab.Session]:
        return self.open_session(**options)


@frozen
class SessionKind:
    name: str
    open: Callable[[], AbstractAsyncContextManager[Opened]]

    @property
    def remote(self) -> bool:
        return self.name != "process"


@asynccontextmanager
async def opened_at(hosts: str, via: str) -> AsyncIterator[Opened]:
    """Every test has its own node at the server, which may be one for all of them."""

    @asynccontextmanager
    async def session(*, at: str = "", timeout_ms: int = TIMEOUT_MS, **options: Any) -> AsyncIterator[zab.Session]:
        async with zab.connect(at or hosts, timeout_ms=timeout_ms, **options) as found:
            yield found

    root = f"/test-{next(_numbers)}"
    if via == "rooted":
        hosts += root
        async with zab.connect(hosts, timeout_ms=TIMEOUT_MS) as found:
            await found.ensure_path("/")
        yield Opened(via, "", session, hosts)
        return
    async with zab.connect(hosts, timeout_ms=TIMEOUT_MS) as found:
        await found.create(root)
    yield Opened(via, root, session, hosts)


@asynccontextmanager
async def ours(path: Path, via: str) -> AsyncIterator[Opened]:
    options: dict[str, Any] = {
        "settings": FAST,
        "client_ports": PORTS,
        "store": StoreSettings(extended_types=True),
    }
    async with zab.open_store(path, client_port=0, **options) as store:
        if via == "process":

            def session(timeout_ms: int = TIMEOUT_MS) -> AbstractAsyncContextManager[zab.Session]:
                return store.session(timeout_ms)

            async with store.session() as made:
                await made.create("/test")
            yield Opened(via, "/test", session)
        else:
            async with opened_at(f"127.0.0.1:{store.client_port}", via) as opened:
                yield opened


@contextmanager
def one_apache(folder: Path) -> Iterator[apache.Server]:
    with apache.running(folder, APACHE_SYSTEM) as server:
        yield server


def session_kind_of(name: str, request: pytest.FixtureRequest) -> SessionKind:
    if name == "apache":
        server: apache.Server = request.getfixturevalue("apache_server")
        return SessionKind(name, lambda: opened_at(f"127.0.0.1:{server.port}", name))
    path: Path = request.getfixturevalue("tmp_path")
    return SessionKind(name, lambda: ours(path, name))


ALL = ["process", "client", "rooted", pytest.param("apache", marks=apache.needs_apache)]
REMOTE = ["client", "rooted", pytest.param("apache", marks=apache.needs_apache)]


# -- a proxy that can fail -----------------------------------------------------------------------------


class Proxy:
    """A proxy to another port, until the test cuts it."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.accepted = 0
        self.refusing = False
        """New connections are closed at once."""
        self.silent_up = self.silent_down = False
        """What is said towards the server, or by it, is lost."""
        self._target = target
        self._scopes: set[trio.CancelScope] = set()

    def cut(self) -> None:
        """Cut all connections."""
        for scope in self._scopes:
            scope.cancel()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        self.port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            task_status.started()
            await trio.serve_listeners(self._serve, [listener], handler_nursery=nursery)

    async def _serve(self, client: trio.SocketStream) -> None:
        if self.refusing:
            return
        self.accepted += 1
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                async with await trio.open_tcp_stream("127.0.0.1", self._target) as server, trio.open_nursery() as both:
                    both.start_soon(self._pump, client, server, True, both.cancel_scope)
                    both.start_soon(self._pump, server, client, False, both.cancel_scope)
            except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                pass
            finally:
                self._scopes.discard(scope)

    async def _pump(
        self, source: trio.SocketStream, target: trio.SocketStream, up: bool, scope: trio.CancelScope
    ) -> None:
        async for data in source:
            if not (self.silent_up if up else self.silent_down):
                await target.send_all(data)
        scope.cancel()


@asynccontextmanager
async def proxied(hosts: str) -> AsyncIterator[tuple[Proxy, str]]:
    """The proxy, and the connect string that leads through it."""
    where, slash, root = hosts.partition("/")
    proxy = Proxy(int(where.rpartition(":")[2]))
    async with trio.open_nursery() as nursery:
        await nursery.start(proxy.run)
        yield proxy, f"127.0.0.1:{proxy.port}{slash}{root}"
        nursery.cancel_scope.cancel()
