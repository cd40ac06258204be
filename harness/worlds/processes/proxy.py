"""A TCP proxy for every direction of every link, which makes partitions, delays and cuts.

A blocked direction loses nothing, as TCP loses nothing. Data waits in the proxy and in socket buffers, and arrives when
the direction opens again, unless one end has closed the connection meanwhile. So does the close of the other end. A new
connection needs both directions.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random
from struct import Struct
from typing import Final

import trio

Address = tuple[str, int]

_PIECE_BYTES: Final = 64 << 10
_LINGER: Final = Struct("ii")
_BROKEN: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class Fabric:
    """The blocked directions, the delays, and the connections of all proxies. Ends are numbers."""

    def __init__(self, random: Random) -> None:
        self.delay_s = 0.0
        self.loss = 0.0
        """The probability that a piece of data breaks a lossy connection: TCP cannot lose a piece and continue."""
        self._random = random
        self._blocked: dict[tuple[int, int], int] = {}
        self._delays: dict[tuple[int, int], float] = {}
        self._changed = trio.Event()
        self._connections: dict[Connection, None] = {}

    # -- directions --------------------------------------------------------------------------------

    def block(self, pairs: Iterable[tuple[int, int]]) -> None:
        for pair in pairs:
            self._blocked[pair] = self._blocked.get(pair, 0) + 1

    def unblock(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Undo one block of each direction. Faults overlap, so a direction may stay blocked."""
        for pair in pairs:
            left = self._blocked.get(pair, 0) - 1
            if left > 0:
                self._blocked[pair] = left
            else:
                self._blocked.pop(pair, None)
        self._notify()

    def heal(self) -> None:
        self._blocked.clear()
        self._delays.clear()
        self.delay_s = self.loss = 0.0
        self._notify()

    def slow(self, source: int, target: int, more_s: float) -> None:
        self._delays[source, target] = self._delays.get((source, target), 0.0) + more_s

    def delay(self, source: int, target: int) -> float:
        return max(0.0, self.delay_s + self._delays.get((source, target), 0.0))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def is_open(self, source: int, target: int) -> bool:
        return (source, target) not in self._blocked

    @property
    def blocked(self) -> list[tuple[int, int]]:
        return list(self._blocked)

    async def open(self, source: int, target: int) -> None:
        while not self.is_open(source, target):
            await self._changed.wait()

    # -- connections -------------------------------------------------------------------------------

    def cut(self, end: int) -> int:
        """Break every connection of this end, at both ends at once. Return their number."""
        found = [each for each in self._connections if end in (each.source, each.target)]
        for connection in found:
            connection.cut()
        return len(found)

    def loses(self) -> bool:
        return self.loss > 0 and self._random.random() < self.loss

    def add(self, connection: Connection) -> None:
        self._connections[connection] = None

    def remove(self, connection: Connection) -> None:
        self._connections.pop(connection, None)


class Connection:
    """A pair of streams, with a task for each direction that carries data from one to the other."""

    def __init__(self, fabric: Fabric, source: int, target: int, *, lossy: bool) -> None:
        self.source = source
        self.target = target
        self._fabric = fabric
        self._lossy = lossy
        self._scope = trio.CancelScope()
        self._streams: list[trio.SocketStream] = []

    def cut(self) -> None:
        for stream in self._streams:
            with suppress(OSError):  # send a reset
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER.pack(1, 0))
        self._scope.cancel()

    async def run(self, dialled: trio.SocketStream, address: Address) -> None:
        fabric = self._fabric
        self._streams.append(dialled)
        fabric.add(self)
        try:
            with self._scope:
                await self._reachable()
                if _has_closed(dialled):
                    return
                with suppress(*_BROKEN):
                    reached = await trio.open_tcp_stream(*address)
                    self._streams.append(reached)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._carry, dialled, reached, self.source, self.target, nursery)
                        nursery.start_soon(self._carry, reached, dialled, self.target, self.source, nursery)
        finally:
            fabric.remove(self)
            for stream in self._streams:
                stream.socket.close()  # close all of them, also if this task is cancelled

    async def _reachable(self) -> None:
        fabric = self._fabric
        while not (fabric.is_open(self.source, self.target) and fabric.is_open(self.target, self.source)):
            await fabric.open(self.source, self.target)
            await fabric.open(self.target, self.source)

    async def _carry(
        self, one: trio.SocketStream, other: trio.SocketStream, source: int, target: int, nursery: trio.Nursery
    ) -> None:
        fabric = self._fabric
        with suppress(*_BROKEN):
            while True:
                data = await one.receive_some(_PIECE_BYTES)
                if delay_s := fabric.delay(source, target):
                    await trio.sleep(delay_s)
                await fabric.open(source, target)
                if not data:
                    break
                if self._lossy and fabric.loses():
                    break
                await other.send_all(data)
        await fabric.open(source, target)
        nursery.cancel_scope.cancel()


class Proxy:
    """Listens for one end, and connects to `address` of the other end. Without an address it refuses connections."""

    def __init__(
        self, fabric: Fabric, source: int, target: int, address: Address | None, *, lossy: bool = False
    ) -> None:
        self.source = source
        self.target = target
        self.address = address
        self._fabric = fabric
        self._lossy = lossy
        self._listeners: Sequence[trio.SocketListener] = ()

    def set_target(self, target: int, address: Address | None) -> None:
        """Connect to another address from now on. Open connections break."""
        self.target, self.address = target, address
        self._fabric.cut(self.source)

    async def listen(self, host: str, port: int = 0) -> Address:
        self._listeners = await trio.open_tcp_listeners(port, host=host)
        found: Address = self._listeners[0].socket.getsockname()[:2]
        return found

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for listener in self._listeners:
                nursery.start_soon(self._accept, listener, nursery)

    async def _accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        async with listener:
            while True:
                stream = await listener.accept()
                if self.address is None:
                    await trio.aclose_forcefully(stream)
                    continue
                connection = Connection(self._fabric, self.source, self.target, lossy=self._lossy)
                nursery.start_soon(connection.run, stream, self.address)


def _has_closed(stream: trio.SocketStream) -> bool:
    """Return whether the client has closed its stream already."""
    if not hasattr(select, "POLLRDHUP"):
        return False
    look = select.poll()
    look.register(stream.socket.fileno(), select.POLLRDHUP)
    return bool(look.poll(0))
