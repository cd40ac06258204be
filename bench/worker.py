"""Run one member in its own process with a load inside it, commanded through stdin.

The load uses the public interface of the library and nothing else, and no client protocol lies between:
what is measured is the library.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

import trio
from attrs import asdict

import zab
from bench.commanded import Answer, Profiled, answer_commands, log_to_stderr
from bench.machines import Counter


class Clients:
    """Writers of unique values, one write at a time each, which record each outcome before the next write.

    A line `value place` stands in the file when the write was acknowledged, a line `value ?` when its outcome is
    unknown. The file survives the death of this process, so also what a killed server acknowledged counts.
    """

    def __init__(self, member: zab.Member, name: str, path: Path, pause_s: float) -> None:
        self._member = member
        self._name = name
        self._pause_s = pause_s
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._scope = trio.CancelScope()
        self._stopping = False
        self._writers = 0
        self.acknowledged = 0
        self.unknown = 0
        self.errors: list[str] = []
        self.timeline: list[tuple[float, float]] = []
        """The times at which each acknowledged write was submitted and acknowledged, on a clock shared by all."""

    async def run(self, writers: int) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                for number in range(writers):
                    nursery.start_soon(self._write, f"{self._name}.{number}")

    async def _write(self, name: str) -> None:
        self._writers += 1
        sequence = 0
        while not self._stopping:
            sequence += 1
            value = f"{name}.{sequence}"
            began = time.monotonic()
            try:
                place = await self._member.submit(value.encode())
            except zab.OutcomeUnknown:
                self.unknown += 1
                os.write(self._file, f"{value} ?\n".encode())
                continue
            except zab.ZabError as error:
                self.errors.append(repr(error)[:200])
                os.write(self._file, f"{value} ?\n".encode())
                await trio.sleep(0.05)
                continue
            os.write(self._file, f"{value} {place}\n".encode())
            self.acknowledged += 1
            self.timeline.append((began, time.monotonic()))
            if self._pause_s:
                await trio.sleep(self._pause_s)
        self._writers -= 1

    async def stop(self, patience_s: float) -> int:
        """Let every writer finish its write. How many could not in time."""
        self._stopping = True
        with trio.move_on_after(patience_s):
            while self._writers:
                await trio.sleep(0.01)
        left = self._writers
        self._scope.cancel()
        return left

    def longest_gap(self, since: float) -> Answer:
        """Around `since`: the longest time without an acknowledgement, and the first write begun after it."""
        times = [acknowledged for _, acknowledged in self.timeline]
        before = max((each for each in times if each <= since), default=since)
        gap = 0.0
        for acknowledged in sorted(each for each in times if each > since):
            gap = max(gap, acknowledged - before)
            before = acknowledged
        later = [acknowledged for began, acknowledged in self.timeline if began >= since]
        return {"gap_s": gap, "first_s": min(later) - since if later else None}

    def forget(self) -> None:
        self.timeline.clear()


class Bench(Profiled):
    """The commands of a worker."""

    def __init__(self, member: zab.Member, machine: Counter, nursery: trio.Nursery) -> None:
        super().__init__()
        self._member = member
        self._machine = machine
        self._nursery = nursery
        self._clients: Clients | None = None

    async def status(self, serving_within_s: float = 0.0) -> Answer:
        with trio.move_on_after(serving_within_s):
            while not self._member.status().role.serving:
                await trio.sleep(0.005)
        status = self._member.status()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "state": status.role.state.name,
            "leader": status.role.leader,
            "serving": status.role.serving,
            "epoch": status.role.epoch,
            "applied": status.applied,
            "count": self._machine.count,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "counters": asdict(status.counters),
        }

    async def flood(
        self, outstanding: int, payload: int, seconds: float = 1e9, count: int = 1 << 62, samples: int = 200_000
    ) -> Answer:
        """`outstanding` writes at a time, until the time is up or so many are done. What is answered later, is lost."""
        submit, data = self._member.submit, bytes(payload)
        latencies: list[float] = []
        asked = done = 0
        clock = time.perf_counter
        began = clock()
        until = began + seconds
        cpu = time.process_time()

        async def write() -> None:
            nonlocal asked, done
            started = clock()
            while started < until and asked < count:
                asked += 1
                await submit(data)
                ended = clock()
                if ended <= until:
                    done += 1
                    if len(latencies) < samples:
                        latencies.append(ended - started)
                started = ended

        async with trio.open_nursery() as nursery:
            for _ in range(outstanding):
                nursery.start_soon(write)
        return {
            "done": done,
            "failed": 0,
            "seconds": min(seconds, clock() - began),
            "cpu_s": time.process_time() - cpu,
            "latencies": sorted(latencies)[:: max(1, len(latencies) // 1000)],
        }

    async def single(self, count: int, payload: int) -> Answer:
        """One write at a time."""
        submit, data = self._member.submit, bytes(payload)
        taken = []
        for _ in range(count):
            began = time.perf_counter()
            await submit(data)
            taken.append(time.perf_counter() - began)
        return {"latencies": taken}

    async def clients(self, name: str, path: str, writers: int, pause_s: float = 0.0) -> Answer:
        self._clients = Clients(self._member, name, Path(path), pause_s)
        self._nursery.start_soon(self._clients.run, writers)
        return {}

    async def gap(self, since: float, within_s: float) -> Answer:
        """Wait until a write that began after `since` was acknowledged; then tell how long there was nothing."""
        clients = self._clients
        assert clients is not None
        with trio.move_on_after(within_s):
            while not (clients.timeline and clients.timeline[-1][0] >= since):
                await trio.sleep(0.005)
        found = clients.longest_gap(since)
        clients.forget()
        return {**found, "acknowledged": clients.acknowledged, "unknown": clients.unknown, "errors": clients.errors}

    async def stop_clients(self, patience_s: float = 30.0) -> Answer:
        clients, self._clients = self._clients, None
        if clients is None:
            return {"left": 0, "acknowledged": 0, "unknown": 0, "errors": []}
        left = await clients.stop(patience_s)
        told = {"acknowledged": clients.acknowledged, "unknown": clients.unknown, "errors": clients.errors}
        return {"left": left, **told}


async def serve(arguments: argparse.Namespace) -> None:
    machine = Counter()
    ensemble = zab.Ensemble.parse(Path(arguments.ensemble).read_text())
    opened = zab.open_member(machine, arguments.data, server_id=zab.ServerId(arguments.id), ensemble=ensemble)
    async with opened as member, trio.open_nursery() as nursery:
        bench = Bench(member, machine, nursery)
        await answer_commands(bench)
        nursery.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", type=int, required=True)
    parser.add_argument("--ensemble", required=True, help="a file of server.N lines")
    parser.add_argument("--data", required=True)
    arguments = parser.parse_args()
    log_to_stderr()
    trio.run(serve, arguments)


if __name__ == "__main__":
    main()
