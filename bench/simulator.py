"""Measure the simulated seconds per second of one core: five servers, under write load and faults."""

from __future__ import annotations

import time
from typing import Final

from bench.report import Result, publish
from harness.draw import script_from_seed
from harness.worlds.cores.world import run as simulate

SERVERS: Final = 5
TARGET: Final = 100
HISTORIES: Final = 1_000
"""To be simulated and checked within a minute of one core, with two hundred operations."""
LOADS: Final = {
    "the fuzzer's": (100, 1),
    "twice its writes": (200, 1),
    "twice, four at once": (200, 4),
    "twice, sixteen at once": (200, 16),
    "ten times its writes": (1_000, 1),
}
"""Operations in a history of three seconds, and how many transactions are asked for at one moment."""


def run(runs: int) -> None:
    rows = []
    result: Result = {"servers": SERVERS, "target": TARGET, "histories_target": HISTORIES}
    for name, (operations, together) in LOADS.items():
        scripts = [
            script_from_seed(seed, voters=SERVERS, observers=0, ops=operations, together=together)
            for seed in range(1, runs + 1)
        ]
        began = time.process_time()
        outcomes = [simulate(script) for script in scripts]
        took = time.process_time() - began
        simulated = sum(outcome.simulated_ms for outcome in outcomes) / 1000
        row = {
            "load": name,
            "histories": runs,
            "histories per cpu min": 60 * runs / took,
            "simulated s": simulated,
            "cpu s": took,
            "simulated s per cpu s": simulated / took,
            "transactions": sum(outcome.committed for outcome in outcomes),
            "elections": sum(outcome.elections for outcome in outcomes),
            "events per cpu s": sum(outcome.events for outcome in outcomes) / took,
            "violations": sum(not outcome.valid for outcome in outcomes),
        }
        rows.append(row)
        result[name] = row
    publish("simulator", result, rows)
