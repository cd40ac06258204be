"""The clients of a memory store: the real client, with connections in memory that can be cut."""

from __future__ import annotations

import socket
import ssl
from random import Random

import trio

from zab.client.dialing import Address, Outside
from zab.net.memory_network import MemoryNetwork


class ClientHost:
    """The host of one client. Its `id` is negative: in the memory network, positive ids are servers."""

    dead = False

    def __init__(self, network: MemoryNetwork, number: int, seed: int) -> None:
        self.id = -number
        self.outside = Outside(_addresses, self._dial, Random(f"{seed}/client/{number}"))
        """The environment of the client."""
        self._network = network
        self._reachable = trio.Event()
        """Set unless the client is cut off."""
        self._reachable.set()

    @property
    def server(self) -> ClientHost:
        return self

    def cut_off(self) -> None:
        """Break the connection, and open no other one until `reconnect`."""
        if self._reachable.is_set():
            self._reachable = trio.Event()
            self._network.cut_off(self)

    def reconnect(self) -> None:
        self._reachable.set()

    @property
    def is_cut_off(self) -> bool:
        return not self._reachable.is_set()

    async def _dial(self, address: Address, tls: ssl.SSLContext | None, silence_ms: int) -> trio.abc.Stream:
        await self._reachable.wait()
        return await self._network.connect(self, address.host, address.port)


async def _addresses(host: str, port: int) -> list[Address]:
    await trio.lowlevel.checkpoint()
    return [Address(host, port, socket.AF_INET, (host, port))]
