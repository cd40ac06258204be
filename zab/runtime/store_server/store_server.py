"""A running store, as the application that opened it uses it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from zab.core.argument_names import checks_methods
from zab.runtime.member import Member
from zab.runtime.store_server.in_process_session import InProcessSession
from zab.runtime.store_server.server_runtime import ServerRuntime


@checks_methods
class StoreServer:
    """A running server of the coordination store. `zab.open_store` returns it.

        async with zab.open_store("store", client_port=0) as store:
            print(store.client_port, store.mode)
            async with store.session() as session:
                await session.create("/app", b"data")

    The server ends with the block of `open_store`.
    """

    def __init__(self, server: ServerRuntime) -> None:
        self._server = server

    def __repr__(self) -> str:
        return repr(self._server)

    def session(self, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[InProcessSession]:
        """Open a session in this process. The end of the block closes the session, which deletes its ephemeral nodes.

        If this process dies, the session expires after `timeout_ms`. The settings of the client ports bound this time.
        The block begins when the session exists, so its start waits while there is no leader.
        """
        return self._server.session(timeout_ms)

    async def readable(self) -> None:
        """Wait until the server has a leader and its state may be read, or the store is closed."""
        await self._server.readiness.ready()

    @property
    def client_port(self) -> int | None:
        """The number of the port for ZooKeeper clients, which the system may have chosen; None without such a port."""
        return self._server.ports.client

    @property
    def secure_client_port(self) -> int | None:
        """The number of the port for ZooKeeper clients over TLS, or None."""
        return self._server.ports.secure_client

    @property
    def admin_port(self) -> int | None:
        """The number of the port with the status page, the metrics and the commands for operators, or None."""
        return self._server.ports.admin

    @property
    def mode(self) -> str:
        """The role of this server: "leader", "follower", "observer", "standalone", "looking" or "read-only"."""
        return self._server.mode

    @property
    def member(self) -> Member:
        """The member of the ensemble under the store: its status, roles and snapshots, and the membership."""
        return self._server.member
