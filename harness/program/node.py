"""What a simulated program sees of its environment."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from types import SimpleNamespace
from typing import Any, Protocol

import trio

from zab.client.remote_session import RemoteSession
from zab.client.remote_session import connect as connect_client
from zab.core.argument_names import with_arguments_of


class NodePort(Protocol):
    """The parts of a node's process that `Node` uses."""

    @property
    def hosts(self) -> str: ...
    @property
    def disk(self) -> dict[str, Any]: ...
    @property
    def shared(self) -> dict[str, Any]: ...

    def connect(self, hosts: str, options: dict[str, Any]) -> AbstractAsyncContextManager[RemoteSession]: ...
    async def listen(self, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]: ...
    async def dial(self, node: int, port: int) -> trio.abc.Stream: ...
    def acts(self, what: str, values: tuple[Any, ...]) -> None: ...
    def wall_ms(self) -> int: ...


class Node:
    """One instance of a simulated program, from one start to its end. `main` receives it.

    Time is Trio's: `trio.sleep` and `trio.current_time`. Several nodes share the modules of the program, so keep the
    state of a node in local variables or in objects of its own, not in global variables.
    """

    def __init__(self, port: NodePort, number: int, start: int, nodes: int, random: Random) -> None:
        self._port = port
        self.number = number
        """1, 2, ..., up to `nodes`."""
        self.start = start
        """Which start of this node it is: 1, 2, ..."""
        self.nodes = nodes
        """The number of nodes of the program."""
        self.random = random
        """A generator of random numbers; its seed follows from the run's, the node and its start."""
        self.state = SimpleNamespace()
        """Memory of the node that invariants read, as `node.state` of `Fleet.nodes`. Each start has a new one."""
        self.disk = port.disk
        """What the node keeps across its starts, as in files that it has synced."""
        self.shared = port.shared
        """What is outside of all nodes, such as a database that they use. Each run has a new one: `Fleet.shared`."""

    def __repr__(self) -> str:
        return f"<node {self.number}, start {self.start}>"

    @property
    def hosts(self) -> str:
        """The addresses of all servers, as `zab.connect` takes them."""
        return self._port.hosts

    def session(self, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[RemoteSession]:
        """Open a session with the simulated servers for as long as the block lasts, as `zab.connect` does."""
        return self.connect(self.hosts, timeout_ms=timeout_ms)

    @with_arguments_of(connect_client)
    def connect(self, hosts: str, **options: Any) -> AbstractAsyncContextManager[RemoteSession]:
        """Open a session as `zab.connect` does, with the same arguments. `hosts` are some of `Node.hosts`."""
        return self._port.connect(hosts, options)

    async def listen(self, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        """Listen for connections of other nodes, for `trio.serve_listeners`."""
        return await self._port.listen(port)

    async def dial(self, node: int, port: int) -> trio.abc.Stream:
        """Connect to another node. Raise `OSError` if it does not listen at this port."""
        return await self._port.dial(node, port)

    def acts(self, what: str, *values: Any) -> None:
        """Report an act that has an effect outside of the store, such as a payment. Invariants read it in `Fleet.acts`.

        All invariants are checked at once. An act of a killed process is not recorded.
        """
        self._port.acts(what, values)

    def wall_time(self) -> float:
        """Return the date as this node's wall clock shows it, in seconds since 1970. Faults let this clock jump."""
        return self._port.wall_ms() / 1000
