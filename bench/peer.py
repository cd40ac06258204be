"""A member of a PySyncObj ensemble, commanded through stdin: the other side of the comparison.

Its own defaults, except where the command line says otherwise. With `--journal` its log is written to a
memory-mapped file: that survives the death of the process, not the loss of power, because PySyncObj 0.3
never syncs that file. `--msync` makes it sync once per tick, the cheapest place where it could.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import deque
from functools import partial
from typing import Any, Final

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated

ELECTION_S: Final = 20.0


class Tape(SyncObj):  # type: ignore[misc]
    """Counts transactions, like the machine on our side of the comparison."""

    def __init__(self, own: str, others: list[str], conf: Any) -> None:
        super().__init__(own, others, conf)
        self.count = 0

    @replicated  # type: ignore[untyped-decorator]
    def put(self, payload: bytes) -> int:
        self.count += 1
        return self.count


class Flood:
    """`outstanding` writes at a time until `until`. The callbacks run in PySyncObj's own thread and ask again."""

    def __init__(self, tape: Tape, outstanding: int, payload: bytes, seconds: float) -> None:
        self._tape = tape
        self._payload = payload
        self._until = time.perf_counter() + seconds
        self._open = outstanding
        self.done = 0
        self.failed = 0
        self.latencies: deque[float] = deque(maxlen=100_000)
        self.finished = threading.Event()
        for _ in range(outstanding):
            self._ask()

    def _ask(self) -> None:
        began = time.perf_counter()

        def answered(result: object, error: int) -> None:
            now = time.perf_counter()
            if error == FAIL_REASON.SUCCESS:
                self.done += 1
                self.latencies.append(now - began)
            else:
                self.failed += 1
            if now < self._until:
                self._ask()
                return
            self._open -= 1
            if not self._open:
                self.finished.set()

        self._tape.put(self._payload, callback=answered)


def single(tape: Tape, count: int, payload: bytes) -> list[float]:
    """Write one value at a time."""
    taken = []
    for _ in range(count):
        answered = threading.Event()
        began = time.perf_counter()
        tape.put(payload, callback=partial(_set, answered))
        answered.wait()
        taken.append(time.perf_counter() - began)
    return taken


def _set(answered: threading.Event, result: object, error: int) -> None:
    answered.set()


def leader_of(tape: Tape) -> str | None:
    leader = tape._getLeader()
    return None if leader is None else str(leader)


def serve(tape: Tape, own: str) -> None:
    for line in sys.stdin:
        command = json.loads(line)
        answer: dict[str, Any] = {}
        match command["do"]:
            case "status":
                deadline = time.perf_counter() + ELECTION_S
                while not (leader_of(tape) and tape.isReady()) and time.perf_counter() < deadline:
                    time.sleep(0.05)
                answer = {"leader": leader_of(tape) == own, "ready": tape.isReady(), "applied": tape.count}
            case "flood":
                cpu = time.process_time()
                began = time.perf_counter()
                flood = Flood(tape, command["outstanding"], bytes(command["payload"]), command["seconds"])
                flood.finished.wait(command["seconds"] + 20)
                answer = {
                    "done": flood.done,
                    "failed": flood.failed,
                    "seconds": time.perf_counter() - began,
                    "cpu_s": time.process_time() - cpu,
                    "latencies": sorted(flood.latencies)[:: max(1, len(flood.latencies) // 1000)],
                }
            case "single":
                answer = {"latencies": single(tape, command["count"], bytes(command["payload"]))}
            case other:
                answer = {"error": f"unknown command {other}"}
        print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--own", required=True)
    parser.add_argument("--others", nargs="+", required=True)
    parser.add_argument("--journal")
    parser.add_argument("--msync", action="store_true")
    parser.add_argument("--no-batch", action="store_true", help="appendEntriesUseBatch=False: for quick single writes")
    arguments = parser.parse_args()
    conf = SyncObjConf(journalFile=arguments.journal, appendEntriesUseBatch=not arguments.no_batch)
    tape = Tape(arguments.own, arguments.others, conf)
    if arguments.msync:
        journal = tape._SyncObj__raftLog
        tape.addOnTickCallback(journal.flush)
    serve(tape, arguments.own)
    tape.destroy()


if __name__ == "__main__":
    main()
