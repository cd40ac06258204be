"""Pipelined writes of three members against three of PySyncObj, alternating in one run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.members import members
from bench.peers import JOURNAL, MEMORY, NO_BATCH, STATED, Variant, peers
from bench.report import Result, median, publish, quantile
from bench.workers import Answer, Worker, ask_all

PAYLOAD_BYTES: Final = 128
WARM_UP_S: Final = 1.0
PIPELINED: Final = 6 * 64
DEEP: Final = 6 * 1024
"""Deep enough to hide that PySyncObj moves only every 50 to 100 ms: the best that it can do."""

OURS: Final = "zab, through the leader"
REFERENCE: Final = "PySyncObj, journal"


Measured = dict[tuple[str, int], list[Answer]]
"""Results by system and number of outstanding writes."""


def measure(runs: int, seconds: float, data: Path) -> Measured:
    measured: Measured = {}

    def note(name: str, outstanding: int, answers: list[Answer]) -> None:
        measured.setdefault((name, outstanding), []).append(
            {
                "per_s": sum(answer["done"] / answer["seconds"] for answer in answers),
                "failed": sum(answer["failed"] for answer in answers),
                "p50_ms": 1000 * median([each for answer in answers for each in answer["latencies"]]),
                "p99_ms": 1000 * quantile([each for answer in answers for each in answer["latencies"]], 0.99),
            }
        )

    for number in range(runs):
        _ours(data / f"zab-{number}", seconds, note)
        for variant, depths in ((JOURNAL, (PIPELINED, DEEP)), (NO_BATCH, (PIPELINED,)), (MEMORY, (PIPELINED,))):
            _theirs(variant, depths, data / f"peer-{number}-{variant.name.replace(' ', '-')}", seconds, note)
    return measured


def run(runs: int, seconds: float, data: Path) -> None:
    measured = measure(runs, seconds, data)
    medians = {key: median([each["per_s"] for each in values]) for key, values in measured.items()}
    rows = [
        {
            "writes of 128 bytes": name,
            "outstanding": outstanding,
            "per second": medians[name, outstanding],
            "least": min(each["per_s"] for each in values),
            "most": max(each["per_s"] for each in values),
            "p50 ms": median([each["p50_ms"] for each in values]),
            "p99 ms": median([each["p99_ms"] for each in values]),
            "ratio to PySyncObj, journal": medians[name, outstanding]
            / medians[REFERENCE, outstanding if outstanding == DEEP else PIPELINED],
        }
        for (name, outstanding), values in measured.items()
    ]
    result: Result = {
        "runs": runs,
        "seconds": seconds,
        "peer": STATED,
        "measured": [{"name": name, "outstanding": depth, "runs": each} for (name, depth), each in measured.items()],
        "ratio_pipelined": medians[OURS, PIPELINED] / medians[REFERENCE, PIPELINED],
        "ratio_deep": medians[OURS, DEEP] / medians[REFERENCE, DEEP],
        "target_ratio_pipelined": 10,
    }
    publish("throughput", result, rows)


Note = Callable[[str, int, list[Answer]], None]


def _flood(workers: list[Worker], outstanding: int, seconds: float) -> list[Answer]:
    each = outstanding // len(workers)
    return ask_all(workers, "flood", seconds + 60, outstanding=each, payload=PAYLOAD_BYTES, seconds=seconds)


def _ours(directory: Path, seconds: float, note: Note) -> None:
    with members(directory) as ensemble:
        leader = ensemble.leader()
        everyone = list(ensemble.workers.values())
        follower = next(worker for sid, worker in ensemble.workers.items() if sid != leader)
        _flood(everyone, PIPELINED, WARM_UP_S)
        for depth in (PIPELINED, DEEP):
            note(OURS, depth, _flood([ensemble.workers[leader]], depth, seconds))
        note("zab, through one follower", PIPELINED, _flood([follower], PIPELINED, seconds))
        note("zab, spread over all", PIPELINED, _flood(everyone, PIPELINED, seconds))


def _theirs(variant: Variant, depths: tuple[int, ...], directory: Path, seconds: float, note: Note) -> None:
    with peers(variant, directory) as (leader, _):
        _flood([leader], PIPELINED, WARM_UP_S)
        for depth in depths:
            note(variant.name, depth, _flood([leader], depth, seconds))
