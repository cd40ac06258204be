"""The process of a node: its lives, its connections, and the faults that it can suffer.

A kill is an instant: the streams of the process break, and its tasks are frozen until the run is over. They never
unwind during the run, as after SIGKILL, so neither the store nor any object sees what they would do. A pause freezes
the tasks until its end, while time and the servers go on.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from random import Random
from typing import Any, Final

import trio
from attrs import define

import zab
from harness.exceptions import first_of
from harness.faults import StrikeNode
from harness.program.fleet import NodeAct
from harness.program.forbidden import ForbiddenCall
from harness.program.node import Node
from harness.worlds.cores.clock import BEGINS_MS
from harness.worlds.stack.controller.session import ProgramProtocol
from harness.worlds.stack.scheduler import OWNER
from harness.worlds.stack.store.client import ClientPlace
from harness.worlds.stack.store.server import CLIENT_PORT
from zab.client.client_protocol import ClientProtocol
from zab.client.dialing import Address, Outside
from zab.client.hosts import parse_hosts, shown
from zab.client.remote_session import RemoteSession, connect
from zab.core.errors import ConfigError
from zab.net.memory_network import MemoryStream, ProcessNetwork

RESTART_MS: Final = 1_000
"""The time after which a node starts again whose `main` ended with an expected error."""
NOTE: Final = "node"
"""The verb of a node's events in the trace."""


CONTROL: Final = (KeyboardInterrupt, GeneratorExit, trio.Cancelled)


def reraise_control(error: BaseException) -> None:
    """Raise the part of an exception that ends the caller, too; return if there is none."""
    if isinstance(error, BaseExceptionGroup):
        part = error.subgroup(CONTROL)
        if part is not None:
            raise part
    elif isinstance(error, CONTROL):
        raise error


class StepWatch(trio.abc.Instrument):
    """Strikes a node right before a task of its program continues. Tasks of the client library do not count."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self._watches = False

    def update(self) -> None:
        wanted = any(aim.fault.point == "before step" for aim in self._process.aims)
        if wanted is not self._watches:
            self._watches = wanted
            (trio.lowlevel.add_instrument if wanted else trio.lowlevel.remove_instrument)(self)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        life = self._process.now
        if life is not None and task.context.get(OWNER) is life and not life.paused and _is_of_program(task):
            life.suffer("before step")


def _is_of_program(task: trio.lowlevel.Task) -> bool:
    code = getattr(task.coro, "cr_code", None)
    return code is None or not code.co_filename.startswith(_LIBRARIES)


_LIBRARIES: Final = tuple(os.path.dirname(str(module.__file__)) + os.sep for module in (zab, trio))


@define
class Aim:
    """A strike that waits for its moment."""

    fault: StrikeNode
    left: int


class StruckStream(trio.abc.Stream):
    """A node's end of a connection to a server, at which strikes of the node have their moments."""

    def __init__(self, end: MemoryStream, life: NodeLife) -> None:
        self._end = end
        self._life = life

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._life.reach("before request")
        await self._end.send_all(data)
        await self._life.reach("after request")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = await self._end.receive_some(max_bytes)
        await self._life.reach("before reply")
        if self._end.broken:
            raise trio.BrokenResourceError("the connection broke")
        return data

    async def wait_send_all_might_not_block(self) -> None:
        await self._end.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._end.aclose()


class NodeLife:
    """One process of a node, from its start to its end."""

    def __init__(self, process: NodeProcess, start: int) -> None:
        world = process.world
        seed = f"{world.script.seed}/node/{process.number}/{start}"
        self.process = process
        self.world = world
        self.start = start
        self.place = ClientPlace(process.number)
        self.scope = trio.CancelScope()
        self.dead = self.paused = self.ending = False
        self.entropy = Random(f"{seed}/entropy")
        self.node = Node(self, process.number, start, world.script.nodes, Random(seed))
        self.server = 0
        """The server that its last connection leads to."""
        self._client_random = Random(f"{seed}/client")
        self._ports = ProcessNetwork(world.network, self.place)

    async def run(self) -> None:
        OWNER.set(self)
        process = self.process
        self.note("starts")
        try:
            with self.scope:
                await self.world.program.main(self.node)
        except BaseException as error:
            reraise_control(error)
            if self.dead or self.world.over:
                return
            if self.world.node_failed(self.node, error):
                self.note(f"ends with {type(first_of(error)).__name__}")
                process.ended(self)
                process.start_later(RESTART_MS)
            return
        if not self.dead and not self.world.over:
            self.note("has ended" if self.ending else "returns from main")
            process.returned = not self.ending
            process.ended(self)

    # -- for the node --------------------------------------------------------------------------------

    @property
    def hosts(self) -> str:
        return str(self.world.hosts)

    @property
    def disk(self) -> dict[str, Any]:
        return self.process.disk

    @property
    def shared(self) -> dict[str, Any]:
        shared: dict[str, Any] = self.world.fleet.shared
        return shared

    def connect(self, hosts: str, options: dict[str, Any]) -> AbstractAsyncContextManager[RemoteSession]:
        known = parse_hosts(self.hosts).hosts
        for host in parse_hosts(hosts).hosts:
            if host not in known:
                raise ConfigError(f"{hosts!r}: {shown(host)} is no simulated server: use node.hosts, {self.hosts!r}")
        protocol: Any = partial(ProgramProtocol, self) if self.world.trace is not None else ClientProtocol
        outside = Outside(_addresses, self._dial, self._client_random, protocol)
        return connect(hosts, **{**options, "tls": None, "outside": outside})

    async def _dial(self, address: Address, tls: ssl.SSLContext | None, silence_ms: int) -> trio.abc.Stream:
        await self.process.reachable.wait()
        end = await self.world.network.connect(self.place, address.host, address.port)
        self.server = int(address.host[1:])
        return StruckStream(end, self)

    async def listen(self, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        return await self._ports.listen(host_of(self.process.number), port)

    async def dial(self, node: int, port: int) -> trio.abc.Stream:
        return await self._ports.connect(host_of(node), port)

    def acts(self, what: str, values: tuple[Any, ...]) -> None:
        if not self.dead and not self.world.over:
            self.world.acted(NodeAct(self.world.now / 1e6, self.process.number, self.start, what, values))
            self.suffer("after act")

    def wall_ms(self) -> int:
        return BEGINS_MS + int(self.world.now) // 1_000 + self.process.clock_wrong_ms

    def forbid(self, error: ForbiddenCall) -> None:
        if not self.dead and not self.world.over:
            self.world.node_forbidden(self.node, error)

    # -- for the recording protocol ------------------------------------------------------------------

    @property
    def id(self) -> int:
        return self.process.number

    @property
    def recorder(self) -> Any:
        return self.world.call_recorder

    # -- faults --------------------------------------------------------------------------------------

    async def reach(self, point: str) -> None:
        """Suffer the strike that is aimed at this moment, if any."""
        self.suffer(point)
        if self.dead or self.paused:
            await trio.lowlevel.cancel_shielded_checkpoint()  # this task, too, stops here

    def suffer(self, point: str) -> None:
        process = self.process
        if self.world.over:
            return  # a frozen task would never end
        for aim in process.aims:
            if aim.fault.point == point:
                aim.left -= 1
                if not aim.left:
                    process.aims.remove(aim)
                    process.steps.update()
                    self.world.struck(aim.fault, process)
                    return

    def pause(self) -> bool:
        if self.dead or self.paused or self.world.over:
            return False
        self.paused = True
        self.note("is paused")
        self.world.network.pause(self.place.id)
        self.world.freezer.freeze(self)
        return True

    def resume(self) -> None:
        if self.paused and not self.dead:
            self.paused = False
            self.note("continues")
            self.world.network.resume(self.place.id)
            self.world.freezer.thaw(self)

    def kill(self) -> None:
        if self.dead or self.world.over:
            return
        self.note("is killed")
        self.dead = True
        self.world.network.crashed(self.place)
        if not self.paused:
            self.world.freezer.freeze(self)

    def note(self, words: str) -> None:
        self.world.record(0, NOTE, self.process.number, words)


class NodeProcess:
    """A node with its disk and its clock, which outlive its lives."""

    def __init__(self, world: Any, number: int) -> None:
        self.world = world
        self.number = number
        self.now: NodeLife | None = None
        """The present life; None while the node is down, and after the end of `main`."""
        self.returned = False
        """True if `main` has returned: the node has done its work, and is not started again."""
        self.disk: dict[str, Any] = {}
        self.clock_wrong_ms = 0
        self.aims: list[Aim] = []
        self.steps = StepWatch(self)
        self.reachable = trio.Event()
        """Set unless a strike has cut the node off."""
        self.reachable.set()
        self._starts = 0
        self._random = Random(f"{world.script.seed}/process/{number}")
        world.network.places[host_of(number)] = -number

    @property
    def up(self) -> bool:
        return self.now is not None

    def start(self, _: object = None, __: object = None) -> None:
        if self.now is None and not self.returned and not self.world.over:
            self._starts += 1
            self.now = NodeLife(self, self._starts)
            self.world.spawn(self.now.run)

    def start_later(self, wait_ms: int) -> None:
        wait_us = wait_ms * 1_000 + int(self._random.random() * 1_000)
        self.world.push(self.world.now + wait_us, self.start, None, None)

    def ended(self, life: NodeLife) -> None:
        """Clean up after a life that has ended by itself, or was cancelled."""
        self.world.network.crashed(life.place)
        self.now = None

    # -- faults --------------------------------------------------------------------------------------

    def kill(self, down_ms: int) -> bool:
        life, self.now = self.now, None
        if life is None:
            return False
        life.kill()
        self.start_later(down_ms)
        return True

    def restart(self, down_ms: int) -> bool:
        life = self.now
        if life is None or life.ending:
            return False
        life.ending = True
        life.resume()
        life.note("is stopped")
        life.scope.cancel()
        self.world.push(self.world.now + down_ms * 1_000, self._start_after, life, down_ms)
        return True

    def _start_after(self, life: NodeLife, down_ms: int) -> None:
        """Start the node again, or look again later while it still cleans up."""
        if self.now is life:
            self.world.push(self.world.now + 100_000, self._start_after, life, down_ms)
        else:
            self.start()

    def cut_off(self) -> None:
        """Break the connections, and open no other one until `reconnect`."""
        if self.reachable.is_set():
            self.reachable = trio.Event()
            if self.now is not None:
                self.world.network.cut_off(self.now.place)

    def reconnect(self) -> None:
        self.reachable.set()

    def aim(self, fault: StrikeNode) -> None:
        """Let a strike wait for its moment."""
        self.aims.append(Aim(fault, fault.nth))
        self.steps.update()

    def heal(self) -> None:
        """End all faults of the node."""
        self.aims.clear()
        self.steps.update()
        self.clock_wrong_ms = 0
        self.reconnect()
        if self.now is not None:
            self.now.resume()
        self.start()


def host_of(node: int) -> str:
    return f"n{node}"


async def _addresses(host: str, port: int) -> list[Address]:
    await trio.lowlevel.checkpoint()
    return [Address(host, port, socket.AF_INET, (host, CLIENT_PORT))]
