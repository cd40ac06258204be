"""What partitions that nobody uses cost: a producer to two others, and the brokers at rest, beside Apache Kafka."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.broker.clusters import Cluster, cluster, kafka_version, missing
from bench.report import Result, median, publish
from bench.workers import Worker, python, scheduled_s

BROKERS: Final = 3
BUSY: Final = 2
RECORD: Final = 100
REST_S: Final = 20.0
SETTLE_S: Final = 10.0
ASKED_S: Final = 240.0


def run(counts: tuple[int, ...], sides: tuple[str, ...], runs: int, seconds: float, data: Path) -> None:
    """Per side one cluster of three brokers; the idle partitions become more and more. All have three replicas."""
    why_not = missing()
    if why_not is not None and "apache" in sides:
        print(f"Apache Kafka is not measured: {why_not}", file=sys.stderr)
        sides = tuple(each for each in sides if each != "apache")
    rows: list[dict[str, object]] = []
    result: Result = {"runs": runs, "seconds": seconds, "kafka": kafka_version(), "measured": rows}
    for label in sides:
        with ExitStack() as stack:
            side = stack.enter_context(cluster(label, data / label, BROKERS))
            client = Worker(python("bench.broker.load"), data / f"load-{label}.log")
            stack.callback(client.stop)
            client.ask("topic", ASKED_S, hosts=side.hosts, name="busy", partitions=BUSY, replicas=BROKERS)
            made = 0
            for count in sorted(counts):
                if count > made:
                    more = {"name": f"idle-{count}", "partitions": count - made, "replicas": BROKERS}
                    client.ask("topic", ASKED_S, hosts=side.hosts, **more)
                    made = count
                rows.append(_measured(client, side, count, runs, seconds))
                print(rows[-1], file=sys.stderr, flush=True)
    publish("broker-partitions", result, rows)


def _measured(client: Worker, side: Cluster, count: int, runs: int, seconds: float) -> dict[str, object]:
    time.sleep(SETTLE_S)
    before, began = _cpu_s(side), time.monotonic()
    time.sleep(REST_S)
    idle = (_cpu_s(side) - before) / (time.monotonic() - began)
    rates, costs, waits = [], [], []
    for number in range(runs + 1):  # the first is not counted
        before = _cpu_s(side)
        answer = client.ask("rate", ASKED_S, hosts=side.hosts, name="busy", size=RECORD, seconds=seconds)
        if number:
            rates.append(answer["records"] / answer["seconds"])
            costs.append(1e6 * (_cpu_s(side) - before) / answer["records"])
            waits.append(answer["p50_ms"])
    return {
        "side": side.label, "idle partitions": count, "records/s": median(rates), "min": min(rates), "max": max(rates),
        "p50 ms": median(waits), "CPU us/record": median(costs), "idle CPU %": 100 * idle, "MiB": side.rss_mib(),
    }  # fmt: skip


def _cpu_s(side: Cluster) -> float:
    return sum(map(scheduled_s, side.pids))
