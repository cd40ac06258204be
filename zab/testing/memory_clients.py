"""The clients of a memory store: the real client, with connections in memory that can be cut."""

from __future__ import annotations

import socket
import ssl
from random import Random
from typing import Any

import trio

from zab.client.calls import Call, Done
from zab.client.client_protocol import ClientProtocol
from zab.client.dialing import Address, Outside
from zab.net.memory_network import MemoryNetwork
from zab.testing.misuse import check_loop


class OneLoopProtocol(ClientProtocol):
    """The protocol of a session, which reports requests from another `trio.run` than its own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._token = trio.lowlevel.current_trio_token()

    def submit(self, call: Call) -> None:
        check_loop("this session", self._token)
        super().submit(call)

    def add_auth(self, scheme: str, credentials: bytes, done: Done) -> None:
        check_loop("this session", self._token)
        super().add_auth(scheme, credentials, done)


class ClientHost:
    """The host of one client. Its `id` is negative: in the memory network, positive ids are servers."""

    dead = False

    def __init__(self, network: MemoryNetwork, number: int, seed: int) -> None:
        self.id = -number
        self.outside = Outside(_addresses, self._dial, Random(f"{seed}/client/{number}"), OneLoopProtocol)
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
