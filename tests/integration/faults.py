"""The real network, with a hand on it: one member's streams can be cut, made deaf, or kept from being opened."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from zab.net.network import TcpNetwork


class FaultyNetwork(TcpNetwork):
    """`open`: whether connections can be made. `hearing`: while it is not set, nothing that arrives is delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.open = True
        self.hearing = trio.Event()
        self.hearing.set()
        self.streams: list[FaultyStream] = []

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        if not self.open:
            raise OSError("no route to host, says the test")
        return self._kept(await super().connect(host, port))

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        return [FaultyListener(listener, self) for listener in await super().listen(host, port)]

    def deafen(self) -> None:
        self.hearing = trio.Event()

    async def cut(self) -> None:
        """Every connection breaks, and none can be made."""
        self.open = False
        for stream in self.streams:
            await trio.aclose_forcefully(stream.inner)
        self.streams.clear()

    def heal(self) -> None:
        self.open = True
        self.hearing.set()

    def _kept(self, stream: trio.abc.Stream) -> FaultyStream:
        kept = FaultyStream(stream, self)
        self.streams.append(kept)
        return kept


class FaultyListener(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self, inner: trio.abc.Listener[trio.abc.Stream], network: FaultyNetwork) -> None:
        self._inner = inner
        self._network = network

    async def accept(self) -> trio.abc.Stream:
        while True:
            stream = await self._inner.accept()
            if self._network.open:
                return self._network._kept(stream)
            await trio.aclose_forcefully(stream)

    async def aclose(self) -> None:
        await self._inner.aclose()


class FaultyStream(trio.abc.Stream):
    def __init__(self, inner: trio.abc.Stream, network: FaultyNetwork) -> None:
        self.inner = inner
        self._network = network

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        await self._network.hearing.wait()
        data = await self.inner.receive_some(max_bytes)
        await self._network.hearing.wait()
        if self not in self._network.streams:
            raise trio.BrokenResourceError("cut while it was deaf")
        return data

    async def aclose(self) -> None:
        await self.inner.aclose()
