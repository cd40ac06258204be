"""A running store, as its user sees it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from zab.runtime.member import Member
from zab.runtime.store_server.in_process_session import InProcessSession
from zab.runtime.store_server.server_runtime import ServerRuntime


class StoreServer:
    """A server of the coordination store, from `zab.open_store`. `async with store.session() as session` opens a
    session in this process."""

    def __init__(self, server: ServerRuntime) -> None:
        self._server = server

    def __repr__(self) -> str:
        return repr(self._server)

    def session(self, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[InProcessSession]:
        """Open a session in this process, for as long as the block lasts. Its ephemeral nodes live as long."""
        return self._server.session(timeout_ms)

    async def readable(self) -> None:
        """Wait until the state may be read, or the store is closed."""
        await self._server.readable()

    @property
    def client_port(self) -> int | None:
        """The port at which ZooKeeper clients are served, or None."""
        return self._server.client_port

    @property
    def secure_client_port(self) -> int | None:
        """The port at which ZooKeeper clients are served over TLS, or None."""
        return self._server.secure_client_port

    @property
    def admin_port(self) -> int | None:
        """The port for operators, or None."""
        return self._server.admin_port

    @property
    def mode(self) -> str:
        """The role of this server in the words of ZooKeeper's tools, such as "leader" or "standalone"."""
        return self._server.mode

    @property
    def member(self) -> Member:
        """The member of the ensemble under the store: its status and roles, its snapshots, the membership."""
        return self._server.member
