"""Run one server of the store in its own process, and measure the turns of its event loop."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import time
from pathlib import Path
from typing import Final

import trio
from attrs import evolve

from bench.commanded import Answer, answer_commands
from zab.runtime.store_server.open_store import open_store
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.service.limits import Limits

LONG_MS: Final = 20
KEPT_MAX: Final = 10


class Turns(trio.abc.Instrument):
    """How long the loop did not look for what is new: by the clock; how much of it was work of this process, threads
    that hold the interpreter included; and how much was the loop's own. The rest is what other processes took.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._began_cpu = self._step = time.thread_time()
        self._began_process = time.process_time()
        self.clear()

    def clear(self) -> None:
        self.count = 0
        self.wall_ms = self.process_ms = self.own_ms = 0.0
        self.long: list[tuple[int, int, int]] = []
        """(by the clock, of this process, of the loop) of turns that took long, in milliseconds."""
        self.tasks: dict[str, int] = {}
        """The longest step of each task that took long."""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        own_ms = round((time.thread_time() - self._step) * 1000)
        if own_ms >= LONG_MS:
            self.tasks[task.name] = max(self.tasks.get(task.name, 0), own_ms)

    def after_io_wait(self, timeout: float) -> None:
        self._began, self._began_cpu, self._began_process = time.perf_counter(), time.thread_time(), time.process_time()

    def before_io_wait(self, timeout: float) -> None:
        wall_ms = (time.perf_counter() - self._began) * 1000
        own_ms = (time.thread_time() - self._began_cpu) * 1000
        process_ms = (time.process_time() - self._began_process) * 1000
        self.count += 1
        self.process_ms = max(self.process_ms, min(process_ms, wall_ms))
        self.wall_ms = max(self.wall_ms, wall_ms)
        self.own_ms = max(self.own_ms, own_ms)
        if wall_ms >= LONG_MS:
            self.long = sorted([*self.long, (round(wall_ms), round(process_ms), round(own_ms))], reverse=True)[
                :KEPT_MAX
            ]


class Collections:
    """Measure the cost of the cyclic collector."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._began = 0.0
        gc.callbacks.append(self)

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.longest_ms = max(self.longest_ms, (time.thread_time() - self._began) * 1000)


class Bench:
    def __init__(self, server: ServerRuntime, turns: Turns, collections: Collections) -> None:
        self._server = server
        self._turns = turns
        self._collections = collections

    async def status(self) -> Answer:
        return {
            "port": self._server.ports.client,
            "nodes": len(self._server.machine.tree),
            "snapshots": self._server.member.status().counters.snapshots,
            "rss": _rss(),
        }

    async def pauses(self) -> Answer:
        """Since this was asked the last time."""
        turns, collections = self._turns, self._collections
        answer = {
            "turns": turns.count,
            "pause_ms": turns.wall_ms,
            "process_ms": turns.process_ms,
            "own_ms": turns.own_ms,
            "collector_ms": collections.longest_ms,
            "long": turns.long,
            "tasks": turns.tasks,
        }
        turns.clear()
        collections.longest_ms = 0.0
        return answer


def _rss() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
    raise RuntimeError("this is not Linux")


async def serve(arguments: argparse.Namespace, turns: Turns) -> None:
    collections = Collections()
    limits = evolve(Limits(), snap_entries=arguments.snap_entries)
    empty_rss = _rss()
    began = time.perf_counter()
    async with open_store(arguments.data, client_port=0, limits=limits) as server:
        await server.readable()
        bench = Bench(server._server, turns, collections)
        ready = {"ready_s": time.perf_counter() - began, "empty_rss": empty_rss, **await bench.status()}
        print(json.dumps(ready), flush=True)
        await answer_commands(bench)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--snap-entries", type=int, default=100_000)
    arguments = parser.parse_args()
    logging.basicConfig(level=os.environ.get("ZAB_LOG", "INFO"), format="%(asctime)s.%(msecs)03d %(message)s")
    turns = Turns()
    trio.run(serve, arguments, turns, instruments=[turns])


if __name__ == "__main__":
    main()
