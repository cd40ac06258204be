"""Tell the waiting calls and the sessions of this process whether the state of the store may be read."""

from __future__ import annotations

from typing import Protocol

import trio

from zab.service.client_service import ClientService


class ReadinessListener(Protocol):
    """A session in this process."""

    def ready_changed(self, ready: bool) -> None: ...
    def store_closed(self, why: str) -> None: ...


class Readiness:
    """Notifies in-process sessions of readiness; `ClientService` notifies connections."""

    def __init__(self, clients: ClientService) -> None:
        self.sessions: dict[ReadinessListener, None] = {}
        """Sessions in this process."""
        self.over: str | None = None
        """The reason why the store is closed; None while it is open."""
        self._clients = clients
        self._unready = trio.lowlevel.ParkingLot()
        """The tasks that wait until the state may be read again, or the store is closed."""

    def changed(self) -> None:
        """Notify all sessions of the present readiness, and wake the waiting tasks if the state may be read."""
        ready = self._clients.ready
        if ready:
            self._unready.unpark_all()
        for session in self.sessions:
            session.ready_changed(ready)

    def close(self, why: str) -> None:
        """End the sessions in this process and the waits of `ready`: the store is closed, for the reason `why`."""
        self.over = why
        self._clients.ready = False
        for session in self.sessions:
            session.store_closed(why)
        self._unready.unpark_all()

    async def ready(self) -> None:
        """Wait until the state may be read, or the store is closed."""
        if self._clients.ready:
            await trio.lowlevel.checkpoint()
        while not self._clients.ready and self.over is None:
            await self._unready.park()

    async def ready_or_read_only(self) -> bool:
        """Wait until clients may read the state. Return True if there is no leader: then only read-only clients may."""
        while wait_ms := self._clients.leader.unreadable_ms:
            with trio.move_on_after(wait_ms / 1000):
                await self._unready.park()
        return not self._clients.ready
