"""Programs for the tests of `harness.application`."""

from __future__ import annotations

import datetime as dt
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import date
from random import randint
from time import monotonic as real_seconds
from typing import Any

import trio

import harness
import zab
from zab.recipes import Lock

SESSION_MS = 6_000


async def worker(node: harness.Node) -> None:
    """Elect a leader, which works. It checks its leadership, prepares its work, and then works: a mistake."""
    while True:
        try:
            async with node.session(timeout_ms=SESSION_MS) as session:
                await _lead(node, session)
        except zab.ZabError:
            await trio.sleep(1)


async def _lead(node: harness.Node, session: zab.Session) -> None:
    while True:
        try:
            await session.create("/leader", b"%d" % node.number, ephemeral=True)
        except zab.NodeExists:
            pass
        try:
            _, stat = await session.get("/leader")
        except zab.NoNode:
            continue
        if stat.ephemeral_owner == session.id:
            await trio.sleep(0.2)
            node.acts("job", stat.czxid)
        await trio.sleep(1)


def in_order(fleet: harness.Fleet) -> None:
    jobs = [act.values[0] for act in fleet.of("job")]
    assert jobs == sorted(jobs), "a deposed leader worked"


async def ticker(node: harness.Node) -> None:
    """Report each second. Report the end in a `finally`, which a kill must not run."""
    node.state.seen = node.disk.setdefault("starts", 0)
    node.disk["starts"] += 1
    node.acts("start", node.start, node.disk["starts"])
    try:
        async with node.session(timeout_ms=SESSION_MS) as session:
            await session.create(f"/tick-{node.number}-{node.start}", ephemeral=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_report_states, node, session)
                while True:
                    node.acts("tick")
                    node.acts("wall", node.wall_time() - trio.current_time())
                    await trio.sleep(1)
    finally:
        node.acts("end")


async def _report_states(node: harness.Node, session: zab.Session) -> None:
    async for state in session.states():
        node.acts("state", state.value)


async def writer(node: harness.Node) -> None:
    """Count up in the store, and report each request and each reply."""
    async with node.session(timeout_ms=SESSION_MS) as session:
        await session.ensure_path("/n")
        for number in range(1, 1_000):
            node.acts("asks", number)
            try:
                await session.set("/n", b"%d" % number)
            except zab.OutcomeUnknown:
                node.acts("unknown", number)
            else:
                node.acts("done", number)
            await trio.sleep(1)


async def holder(node: harness.Node) -> None:
    """Work while a lock of `zab.recipes` is held."""
    async with node.session(timeout_ms=SESSION_MS) as session:
        while True:
            async with Lock(session, "/lock").hold() as held:
                while True:
                    node.acts("job", held.token)
                    await trio.sleep(0.5)


async def fails(node: harness.Node) -> None:
    await trio.sleep(2)
    assert node.number != 2, "two is wrong"


async def exits(node: harness.Node) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        await trio.sleep(2)
        sys.exit(3)


async def gives_up(node: harness.Node) -> None:
    """Report the start, and end by an error that a supervisor expects."""
    node.acts("start", node.start)
    await trio.sleep(3)
    raise ExceptionGroup("both", [zab.Unreachable("no server"), zab.OutcomeUnknown("no reply")])


async def returns(node: harness.Node) -> None:
    node.acts("start", node.start)
    await trio.sleep(1)


async def talks(node: harness.Node) -> None:
    """Node 1 listens; the others dial it, and report what it answers."""
    if node.number == 1:

        async def answer(stream: trio.abc.Stream) -> None:
            await stream.send_all(b"hello " + await stream.receive_some())

        await trio.serve_listeners(answer, list(await node.listen(80)))
    await trio.sleep(1)
    stream = await node.dial(1, 80)
    await stream.send_all(b"%d" % node.number)
    node.acts("heard", await stream.receive_some())


RUNS = 0


async def counts_runs(node: harness.Node) -> None:
    global RUNS
    if node.number == 1:
        RUNS += 1
        node.acts("run", RUNS)
    await trio.sleep(1)


async def spins(node: harness.Node) -> None:
    await trio.sleep(0.1)
    while node.number == 2:
        await trio.lowlevel.checkpoint()


async def spins_below(node: harness.Node) -> None:
    """Start tasks that have only code of Trio on their stacks."""
    while node.number == 2:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.checkpoint)


async def loops(node: harness.Node) -> None:
    await trio.sleep(0.1)
    while True:
        pass


async def names(node: harness.Node) -> None:
    """Report random names that the library makes deterministic."""
    node.acts("names", uuid.uuid4().hex, secrets.token_hex(4), os.urandom(2), node.random.random())
    await trio.sleep(1)


# -- forbidden calls -------------------------------------------------------------------------------------


async def _in_thread() -> None:
    await trio.to_thread.run_sync(len, ())


async def _resolve() -> None:
    await trio.open_tcp_stream("localhost", 1)


async def _process() -> None:
    await trio.run_process(["true"])


async def _path() -> None:
    await trio.Path("/").exists()


async def _file() -> None:
    await trio.open_file("/dev/null")


async def _background() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.socket.getaddrinfo, "localhost", 1)


async def _enter(block: Any) -> None:
    async with block:
        pass


FORBIDDEN: dict[str, Callable[[], Any]] = {
    "time.time()": lambda: time.time(),
    "time.monotonic()": lambda: real_seconds(),
    "time.perf_counter()": lambda: time.perf_counter(),
    "time.sleep()": lambda: time.sleep(0),
    "time.localtime()": lambda: time.localtime(),
    "time.strftime() without a time": lambda: time.strftime("%s"),
    "time.clock_gettime()": lambda: time.clock_gettime(0),
    "datetime.datetime.now()": lambda: dt.datetime.now(),
    "datetime.date.today()": lambda: date.today(),
    "random.random()": lambda: random.random(),
    "random.randint()": lambda: randint(1, 6),
    "random.shuffle()": lambda: random.shuffle([1, 2]),
    "random.Random() without a seed": lambda: random.Random(),
    "threading.Thread.start()": lambda: threading.Thread(target=len, args=((),)).start(),
    "socket.socket()": lambda: socket.socket(),
    "subprocess.Popen()": lambda: subprocess.run(["true"], check=True),
    "os.system()": lambda: os.system("true"),
    "trio.to_thread.run_sync()": _in_thread,
    "a method of trio.Path": _path,
    "trio.open_file()": _file,
    "socket.getaddrinfo()": _background,
    "zab.connect()": lambda: _enter(zab.connect("127.0.0.1:1")),
    "zab.open_store()": lambda: _enter(zab.open_store("/dev/null")),
}


def forbidden(call: str) -> Callable[[harness.Node], Awaitable[None]]:
    async def main(node: harness.Node) -> None:
        await trio.sleep(1)
        try:
            made = FORBIDDEN[call]()
            if made is not None:
                await made
        except Exception:  # a program may catch the error: it is reported all the same
            await trio.sleep_forever()

    return main
