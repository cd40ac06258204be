"""Compare one connection of our Trio client with one of kazoo's, at one server of ours in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trio

import zab
from bench.report import Result, median, publish

PAYLOAD: Final = bytes(128)
OUTSTANDING: Final = 64
WARM_UP: Final = 0.2
"""Share of a phase's operations that warm up and do not count."""
PATH: Final = "/bench"
CLIENTS: Final = ("zab.connect", "kazoo")
PHASES: Final = ("get", "set", "one get")


Measured = dict[tuple[str, str], list[dict[str, float]]]
"""Results by client and phase."""


def measure(runs: int, operations: int, data: Path) -> Measured:
    taken: Measured = {}
    with _server(data) as hosts:
        for _ in range(runs):
            for client in CLIENTS:
                for phase, measured in _asked(client, hosts, operations).items():
                    taken.setdefault((client, phase), []).append(measured)
    return taken


def run(runs: int, operations: int, data: Path) -> None:
    taken = measure(runs, operations, data)
    rows = [
        {
            "client": client,
            "operation": phase,
            "outstanding": 1 if phase == "one get" else OUTSTANDING,
            "per second": _middle(taken[client, phase], "per_s"),
            "client's CPU us each": _middle(taken[client, phase], "cpu_us"),
            "ratio": _middle(taken[client, phase], "per_s") / _middle(taken["kazoo", phase], "per_s"),
        }
        for phase in PHASES
        for client in CLIENTS
    ]
    result: Result = {
        "runs": runs,
        "operations": operations,
        "outstanding": OUTSTANDING,
        "payload_bytes": len(PAYLOAD),
        "measured": {f"{client}, {phase}": values for (client, phase), values in taken.items()},
    }
    publish("clients", result, rows)


def _middle(values: list[dict[str, float]], key: str) -> float:
    return median([each[key] for each in values])


@contextmanager
def _server(data: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.clients", "server", str(data)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


def _asked(client: str, hosts: str, operations: int) -> dict[str, dict[str, float]]:
    command = [sys.executable, "-m", "bench.clients", client, hosts, str(operations)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


# -- in processes of their own -----------------------------------------------------------------------------


async def _serve(data: str) -> None:
    async with zab.open_store(data, client_port=0) as store:
        print(store.client_port, flush=True)
        await trio.sleep_forever()


class _Clock:
    def __init__(self, operations: int) -> None:
        self._operations = operations
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"per_s": self._operations / wall, "cpu_us": cpu / self._operations * 1e6}


async def _ours(hosts: str, operations: int) -> dict[str, Any]:
    found = {}
    async with zab.connect(hosts) as session:
        with suppress(zab.NodeExists):
            await session.create(PATH, PAYLOAD)

        async def work(call: Callable[[], Awaitable[object]], left: Iterator[int]) -> None:
            for _ in left:
                await call()

        calls: dict[str, tuple[int, Callable[[], Awaitable[object]]]] = {
            "get": (OUTSTANDING, lambda: session.get(PATH)),
            "set": (OUTSTANDING, lambda: session.set(PATH, PAYLOAD)),
            "one get": (1, lambda: session.get(PATH)),
        }
        for phase, (outstanding, call) in calls.items():
            count = operations if outstanding > 1 else operations // 10
            for number in (int(count * WARM_UP), count):
                clock, left = _Clock(number), iter(range(number))
                async with trio.open_nursery() as nursery:
                    for _ in range(outstanding):
                        nursery.start_soon(work, call, left)
                found[phase] = clock.read()
    return found


def _kazoo(hosts: str, operations: int) -> dict[str, Any]:
    from kazoo.client import KazooClient

    found = {}
    client = KazooClient(hosts)
    client.start()
    client.ensure_path(PATH)
    calls: dict[str, tuple[int, Callable[[], Any]]] = {
        "get": (OUTSTANDING, lambda: client.get_async(PATH)),
        "set": (OUTSTANDING, lambda: client.set_async(PATH, PAYLOAD)),
        "one get": (1, lambda: client.get_async(PATH)),
    }
    for phase, (outstanding, call) in calls.items():
        count = operations if outstanding > 1 else operations // 10
        for number in (int(count * WARM_UP), count):
            room, clock = threading.Semaphore(outstanding), _Clock(number)
            for _ in range(number):
                room.acquire()
                call().rawlink(lambda result, room=room: room.release())
            for _ in range(outstanding):
                room.acquire()
            found[phase] = clock.read()
    client.stop()
    client.close()
    return found


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server", folder]:
            with suppress(KeyboardInterrupt):
                trio.run(_serve, folder)
        case ["kazoo", hosts, operations]:
            print(json.dumps(_kazoo(hosts, int(operations))))
        case [_, hosts, operations]:
            print(json.dumps(trio.run(_ours, hosts, int(operations))))
        case _:
            sys.exit(f"usage: python -m bench.clients server DATA | {' | '.join(CLIENTS)} HOSTS OPERATIONS")
