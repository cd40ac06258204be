"""Measure the time without writes after `kill -9` under load, with a member's default settings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from bench.members import Members, members
from bench.report import Result, median, publish, spread
from bench.workers import Answer, ask_all

WRITERS: Final = 8
LOAD_S: Final = 1.0
AGAIN_S: Final = 30.0
TARGET_S: Final = 1.0


def run(rounds: int, data: Path) -> None:
    rows = []
    result: Result = {"rounds": rounds, "target_s": TARGET_S}
    with members(data / "failover") as ensemble:
        for victim in ("leader", "follower"):
            told = [_kill(ensemble, victim, f"{victim}-{number}") for number in range(rounds)]
            first = [each["first_s"] for each in told]
            gaps = [each["gap_s"] for each in told]
            result[victim] = {"first_s": first, "gap_s": gaps, "median_s": median(first)}
            for name, values in (("kill to the next write's answer", first), ("longest silence", gaps)):
                seconds = {f"{key} s": value for key, value in spread(values).items() if key != "p99"}
                rows.append({"killed": victim, "seconds": name, **seconds})
    publish("failover", result, rows)


def _kill(ensemble: Members, victim: str, name: str) -> Answer:
    leader = ensemble.leader()
    sid = leader if victim == "leader" else next(each for each in ensemble.sids if each != leader)
    survivors = [worker for each, worker in ensemble.workers.items() if each != sid]
    for each, worker in ensemble.workers.items():
        path = str(ensemble.directory / "acknowledged")
        worker.ask("clients", name=f"{name}-{each}", path=path, writers=WRITERS)
    time.sleep(LOAD_S)
    killed_at = time.monotonic()
    ensemble.workers[sid].kill()
    told = ask_all(survivors, "gap", AGAIN_S + 10, since=killed_at, within_s=AGAIN_S)
    if any(each["first_s"] is None for each in told):
        raise RuntimeError(f"nothing was acknowledged for {AGAIN_S:g} s after server {sid} was killed: {told}")
    ask_all(survivors, "stop_clients")
    ensemble.start(sid)
    ensemble.serving()
    return min(told, key=lambda each: float(each["first_s"]))
