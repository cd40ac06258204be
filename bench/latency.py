"""Measure one write at a time, beside a small fsync on the same disk in the same minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.fsync import fsync_s
from bench.members import members
from bench.peers import JOURNAL, NO_BATCH, STATED, Variant, peers
from bench.report import Result, median, publish, quantile
from bench.workers import Worker

PAYLOAD_BYTES: Final = 128
WARM_UP: Final = 200
FSYNCS_ALLOWED: Final = 2.5
TARGET_MS: Final = 0.5


def run(runs: int, count: int, data: Path) -> None:
    taken: dict[str, list[list[float]]] = {}

    def note(name: str, seconds: list[float]) -> None:
        taken.setdefault(name, []).append([1000 * each for each in seconds])

    data.mkdir(parents=True, exist_ok=True)
    for number in range(runs):
        note("fsync", fsync_s(data))
        with members(data / f"zab-{number}") as ensemble:
            leader = ensemble.leader()
            follower = next(sid for sid in ensemble.sids if sid != leader)
            for name, sid in (("zab, at the leader", leader), ("zab, at a follower", follower)):
                _single(ensemble.workers[sid], WARM_UP)
                note(name, _single(ensemble.workers[sid], count))
        note("fsync", fsync_s(data))
        for variant, writes in ((JOURNAL, 20), (NO_BATCH, count)):
            note(variant.name, _theirs(variant, writes, data / f"peer-{number}-{writes}"))

    fsync_ms = median([median(each) for each in taken["fsync"]])
    p50 = {name: median([median(each) for each in values]) for name, values in taken.items()}
    rows = [
        {
            "one write at a time": name,
            "p50 ms": p50[name],
            "p99 ms": median([quantile(each, 0.99) for each in values]),
            "p50 - 2.5 fsync": p50[name] - FSYNCS_ALLOWED * fsync_ms,
            "PySyncObj / this": p50[JOURNAL.name] / p50[name],
        }
        for name, values in taken.items()
    ]
    result: Result = {
        "runs": runs,
        "writes": count,
        "peer": STATED,
        "fsync_ms": fsync_ms,
        "p50_ms": p50,
        "p50_ms_of_runs": {name: [median(each) for each in values] for name, values in taken.items()},
        "p99_ms_of_runs": {name: [quantile(each, 0.99) for each in values] for name, values in taken.items()},
        "beyond_fsyncs_ms": p50["zab, at the leader"] - FSYNCS_ALLOWED * fsync_ms,
        "target_beyond_fsyncs_ms": TARGET_MS,
        "ratio": p50[JOURNAL.name] / p50["zab, at the leader"],
        "target_ratio": 100,
    }
    publish("latency", result, rows)


def _single(worker: Worker, count: int) -> list[float]:
    latencies: list[float] = worker.ask("single", 120, count=count, payload=PAYLOAD_BYTES)["latencies"]
    return latencies


def _theirs(variant: Variant, count: int, directory: Path) -> list[float]:
    with peers(variant, directory) as (leader, _):
        _single(leader, 5)
        return _single(leader, count)
