"""A million writes: memory and disk must not grow with the history."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from bench.members import members
from bench.report import Result, publish
from bench.workers import ask_all, disk_mib, rss_mib

PAYLOAD_BYTES: Final = 128
OUTSTANDING: Final = 128
SLICES: Final = 20
WARM_UP_SHARE: Final = 0.3


def run(writes: int, data: Path) -> None:
    rows: list[dict[str, object]] = []
    samples: list[dict[str, Any]] = []
    with members(data / "memory") as ensemble:
        leader = ensemble.leader()
        began = time.perf_counter()
        each = writes // SLICES // len(ensemble.sids)
        for number in range(SLICES + 1):
            if number:
                ask_all(
                    ensemble.workers.values(),
                    "flood",
                    300,
                    outstanding=OUTSTANDING,
                    payload=PAYLOAD_BYTES,
                    count=each,
                    samples=1000,
                )
            sample: dict[str, Any] = {
                "writes": number * each * len(ensemble.sids),
                "seconds": time.perf_counter() - began,
                "rss_mib": {sid: rss_mib(worker.pid) for sid, worker in ensemble.workers.items()},
                "disk_mib": {sid: disk_mib(ensemble.data(sid)) for sid in ensemble.sids},
            }
            samples.append(sample)
            rows.append(
                {
                    "writes": sample["writes"],
                    **{f"{_role(sid, leader)} {sid} MiB": sample["rss_mib"][sid] for sid in ensemble.sids},
                    "disk MiB, most": max(sample["disk_mib"].values()),
                }
            )
        counters = {sid: answer["counters"] for sid, answer in ensemble.serving().items()}
    warm = samples[int(WARM_UP_SHARE * SLICES)]
    growth = {sid: samples[-1]["rss_mib"][sid] - warm["rss_mib"][sid] for sid in warm["rss_mib"]}
    result: Result = {
        "writes": samples[-1]["writes"],
        "warm_up": warm["writes"],
        "growth_after_warm_up_mib": growth,
        "samples": samples,
        "snapshots": {sid: each["snapshots"] for sid, each in counters.items()},
        "leader": leader,
    }
    publish("memory", result, rows[::2])
    said = ", ".join(f"server {sid} {change:+.1f} MiB" for sid, change in growth.items())
    print(
        f"growth from {warm['writes']:,} to {samples[-1]['writes']:,} writes: {said}; snapshots {result['snapshots']}"
    )


def _role(sid: int, leader: int) -> str:
    return "leader" if sid == leader else "follower"
