"""Count the work of the three servers for a set, unaffected by a busy machine. `python -m bench.one_set`

The client sends one set at a time, or with `--window` that many together.

Calls, passes of the loop and turns in one run, system calls in another under strace, instructions in a third under
valgrind, where these are at hand. Figures are for one set.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing as closed_at_end
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from attrs import frozen

from bench.report import table
from bench.workers import Worker, ask_all, closing, cpu_s
from bench.zookeeper.ensembles import Ours
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.wire.client.connect import ConnectRequest, encode_connect_request
from zab.wire.client.requests import encode_request

WARM_UP: Final = 100
SIZE: Final = 128
TICK_MS: Final = 20_000
"""Nobody pings while it is counted."""
SLOW_S: Final = 600.0
NAMES: Final = ("leader", "asked", "other")

Counts: TypeAlias = dict[str, float]


@frozen
class Load:
    """at        the server that the client asks: "leader" or "follower"
    embedded  True: servers that wait by public Trio
    window    the number of sets that the client sends together
    """

    at: str
    embedded: bool
    window: int


class Client:
    """A client with one session."""

    def __init__(self, port: int, window: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SLOW_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._xid = 0
        self._window = window
        self._socket.sendall(encode_connect_request(ConnectRequest(0, 600_000)))
        self._reply()

    def ask(self, op: Op, *fields: object, times: int = 1) -> None:
        """Send a request so many times together, and await the replies."""
        frames = []
        for _ in range(times):
            self._xid += 1
            frames.append(encode_request(op, self._xid, fields))
        self._socket.sendall(b"".join(frames))
        for _ in range(times):
            error = int.from_bytes(self._reply()[12:16], "big", signed=True)
            assert error in (0, -110), f"{op.name}: error {error}"

    def _reply(self) -> bytes:
        return self._received(int.from_bytes(self._received(4), "big"))

    def _received(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self._socket.recv(length - len(data))
            assert more, "the server has closed the connection"
            data += more
        return data

    def sets(self, count: int) -> None:
        for start in range(0, count, self._window):
            self.ask(Op.SET_DATA, "/counted", bytes(SIZE), -1, times=min(self._window, count - start))

    def close(self) -> None:
        self._socket.close()


class Counted(Ours):
    """Start the servers with a command prefix."""

    def __init__(self, directory: Path, before: Callable[[int], list[str]], embedded: bool) -> None:
        super().__init__(directory)
        self._before = before
        self._embedded = embedded

    def start(self, sid: int) -> Worker:
        command = [sys.executable, "-m", "bench.zookeeper.server", "--id", str(sid), "--ensemble", str(self.ensemble)]
        command += ["--data", str(self.data(sid)), "--tick-ms", str(TICK_MS), *self.arguments(sid)]
        command += ["--embedded"] if self._embedded else []
        worker = self.workers[sid] = Worker([*self._before(sid), *command], self.directory / f"member-{sid}.log")
        return worker


@contextmanager
def ensemble(
    directory: Path, load: Load, before: Callable[[int], list[str]]
) -> Iterator[tuple[Counted, Client, list[int]]]:
    """The servers are in the order of `NAMES`; the client asks the leader, or a follower."""
    side = Counted(directory, before, load.embedded)
    with closing(side.workers):
        side.start_all()
        leader = side.leader()
        first, second = (sid for sid in side.sids if sid != leader)
        with closed_at_end(Client(side.ports[leader if load.at == "leader" else first], load.window)) as client:
            client.ask(Op.CREATE, "/counted", b"", OPEN, 0)
            client.sets(WARM_UP)
            yield side, client, [leader, first, second]


def turns(directory: Path, load: Load, count: int) -> dict[str, Counts]:
    found: dict[str, Counts] = {}
    with ensemble(directory, load, lambda sid: []) as (side, client, sids):
        for calls in (False, True):
            workers = [side.workers[sid] for sid in sids]
            ask_all(workers, "count", calls=calls)
            before, began = [cpu_s(each.pid) for each in workers], time.monotonic()
            client.sets(count)
            took, after = time.monotonic() - began, [cpu_s(each.pid) for each in workers]
            for index, (name, answer) in enumerate(zip(NAMES, ask_all(workers, "counted"), strict=True)):
                counts = {what: value / count for what, value in answer.items()}
                if not calls:
                    counts["CPU ms"] = (after[index] - before[index]) * 1000 / count
                    counts["ms"] = took * 1000 / count
                    found[name] = counts
                else:
                    found[name] |= {what: value for what, value in counts.items() if what.startswith("calls")}
    return found


def system_calls(directory: Path, load: Load, count: int) -> dict[str, Counts]:
    """Count system calls of the main thread; a writing thread would show as `futex`."""
    found: dict[str, Counts] = {}
    with ensemble(directory, load, lambda sid: []) as (side, client, sids):
        tracers = []
        for name, sid in zip(NAMES, sids, strict=True):
            command = ["strace", "-c", "-f", "-o", str(directory / f"strace-{name}"), "-p", str(side.workers[sid].pid)]
            tracers.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        time.sleep(2)
        client.sets(count)
        for tracer in tracers:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
    for name in NAMES:
        counts: Counts = {}
        for line in (directory / f"strace-{name}").read_text().splitlines()[2:]:
            words = line.split()
            if len(words) >= 5 and words[3].isdigit():
                counts["all system calls" if words[-1] == "total" else words[-1]] = int(words[3]) / count
        found[name] = {what: value for what, value in counts.items() if value >= 0.05}
    return found


def instructions(directory: Path, load: Load, count: int) -> dict[str, Counts]:
    directory.mkdir(parents=True, exist_ok=True)

    def before(sid: int) -> list[str]:
        out = directory / f"callgrind-{sid}"
        return ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]

    with ensemble(directory, load, before) as (side, client, sids):
        for sid in sids:
            _instrument(side.workers[sid].pid, "on")
        client.sets(count)
        for sid in sids:
            _instrument(side.workers[sid].pid, "off")
    found = {}
    for name, sid in zip(NAMES, sids, strict=True):
        total = re.search(r"^totals: (\d+)", (directory / f"callgrind-{sid}").read_text(), re.MULTILINE)
        assert total is not None
        found[name] = {"thousand instructions": int(total[1]) / count / 1000}
    return found


def _instrument(pid: int, state: str) -> None:
    subprocess.run(["callgrind_control", "-i", state, str(pid)], check=True, capture_output=True, timeout=SLOW_S)


MEASURES: Final = {"turns": turns, "strace": system_calls, "valgrind": instructions}


def run(loads: list[Load], measures: list[str], count: int, data: Path) -> None:
    for load in loads:
        found: dict[str, Counts] = {name: {} for name in NAMES}
        for measure in measures:
            if measure != "turns" and shutil.which(measure) is None:
                continue
            with TemporaryDirectory(prefix="one-set-", dir=data) as directory:
                for name, counts in MEASURES[measure](Path(directory), load, count).items():
                    found[name] |= counts
        print(f"\n== a set, {load.window} at a time, asked of {'the leader' if load.at == 'leader' else 'a follower'}")
        whats = list(dict.fromkeys(what for counts in found.values() for what in counts))
        rows = []
        for what in whats:
            row: dict[str, object] = {"": what}
            row |= {name: round(found[name].get(what, 0.0), 2) for name in NAMES}
            row["all"] = round(sum(found[name].get(what, 0.0) for name in NAMES), 2)
            rows.append(row)
        print(table(rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--at", nargs="+", choices=["leader", "follower"], default=["leader", "follower"])
    parser.add_argument("--measures", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument(
        "--embedded", action="store_true", help="servers that wait by public Trio, as embedded stores do"
    )
    parser.add_argument("--window", type=int, default=1, help="sets that are sent together")
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--data", type=Path, default=Path("data/bench"))
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    loads = [Load(at, arguments.embedded, arguments.window) for at in arguments.at]
    run(loads, arguments.measures, arguments.sets, arguments.data)


if __name__ == "__main__":
    main()
