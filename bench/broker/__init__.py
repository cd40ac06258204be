"""The broker against Apache Kafka: the same client, the same machine, alternating in one run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from bench.broker.clusters import Cluster, cluster, kafka_version, missing
from bench.report import Result, median, publish
from bench.workers import Worker, python

PHASE_S: Final = 180.0
MB: Final = 1_000_000
IDLE_S: Final = 8.0
IDLE_PARTITIONS: Final = 1_000
SETTLE_S: Final = 3.0
BROKERS: Final = (1, 3)

Answer = dict[str, Any]


@frozen
class Phase:
    """share   of the megabytes of the run that go through it; `latency` counts records"""

    name: str
    do: str
    size: int = 1024
    acks: str = "1"
    share: float = 1.0


PHASES: Final = (
    Phase("produce 1 KiB", "produce"),
    Phase("consume 1 KiB", "consume"),
    Phase("produce 100 B", "produce", size=100, share=0.25),
    Phase("consume 100 B", "consume", size=100, share=0.25),
    Phase("end to end, acks=1", "latency"),
    Phase("end to end, acks=all", "latency", acks="all"),
)
REPLICATED: Final = (
    Phase("produce 1 KiB, acks=all", "produce", acks="all", share=0.5),
    Phase("consume 1 KiB", "consume", share=0.5),
    Phase("end to end, acks=all", "latency", acks="all"),
)


def run(
    brokers: tuple[int, ...], runs: int, megabytes: int, data: Path, profile: Path | None, picture: Path | None
) -> None:
    why_not = missing()
    if why_not is not None:
        _say(f"Apache Kafka is not measured: {why_not}")
    labels = ["ours"] if why_not else ["ours", "apache"]
    rows: list[dict[str, object]] = []
    result: Result = {"runs": runs, "megabytes": megabytes, "kafka": kafka_version(), "measured": []}
    for count in brokers:
        rows += _compare(labels, count, runs, megabytes, data / str(count), profile, result)
    publish("broker", result, rows)
    if picture is not None:
        from bench.broker.picture import draw  # matplotlib is needed only here

        draw(rows, picture)


def _compare(
    labels: list[str], count: int, runs: int, megabytes: int, data: Path, profile: Path | None, result: Result
) -> list[dict[str, object]]:
    phases = PHASES if count == 1 else REPLICATED
    measured: dict[tuple[str, str], list[Answer]] = {}
    with ExitStack() as stack:
        _say(f"starting {count} broker{'s' * (count > 1)} of each side")
        sides = [stack.enter_context(cluster(label, data / label, count)) for label in labels]
        client = Worker(python("bench.broker.load"), data / "load.log")
        stack.callback(client.stop)
        for number in range(runs + 1):  # the first is not counted: a cold JVM would flatter us
            for side in sides if number % 2 else sides[::-1]:
                _topics(client, side, count, number, phases)
            for phase in phases:
                for side in sides if number % 2 else sides[::-1]:
                    answer = _perform(client, side, phase, number, megabytes if number else max(8, megabytes // 4))
                    if number:
                        measured.setdefault((phase.name, side.label), []).append(answer)
                    _say(f"{number}/{runs} {count} x {side.label}, {phase.name}: {_told(answer)}")
        if profile is not None:
            _profile(client, sides[0], phases, runs, megabytes, profile / str(count))
        if count == 1:
            for name, work in (("idle", _idle), ("start after kill -9", _start)):
                for side in sides:
                    answer = work(client, side)
                    measured[f"{name}, {IDLE_PARTITIONS:,} partitions", side.label] = [answer]
                    _say(f"{side.label}, {name}: {_told(answer)}")
    result["measured"] += [
        {"brokers": count, "phase": name, "side": label, "runs": each} for (name, label), each in measured.items()
    ]
    names = list(dict.fromkeys(name for name, _ in measured))
    return [_row(count, name, {label: measured[name, label] for label in labels}) for name in names]


# -- one phase ---------------------------------------------------------------------------------------------


def _topics(client: Worker, side: Cluster, count: int, number: int, phases: tuple[Phase, ...]) -> None:
    for name in sorted({_topic(phase, number) for phase in phases}):
        client.ask("topic", PHASE_S, hosts=side.hosts, name=name, partitions=1, replicas=count)


def _topic(phase: Phase, number: int) -> str:
    """What is produced in a round is consumed in it."""
    return f"latency-{number}" if phase.do == "latency" else f"records-{phase.size}-{number}"


def _perform(client: Worker, side: Cluster, phase: Phase, number: int, megabytes: int) -> Answer:
    records = max(1, int(megabytes * phase.share * MB / phase.size))
    asked: Answer = {"hosts": side.hosts, "name": _topic(phase, number)}
    match phase.do:
        case "produce":
            asked |= {"size": phase.size, "records": records, "acks": phase.acks}
        case "consume":
            asked |= {"size": phase.size, "records": records, "partitions": 1}
        case _:
            asked |= {"acks": phase.acks, "count": 300}
    cpu = side.cpu_s()
    answer = client.ask(phase.do, PHASE_S, **asked)
    answer["cpu_s"] = side.cpu_s() - cpu
    answer["rss_mib"] = side.rss_mib()
    if "megabytes" in answer:
        answer["mb_per_s"] = answer["megabytes"] / answer["seconds"]
        answer["cpu_ms_per_mb"] = 1000 * answer["cpu_s"] / answer["megabytes"]
    return answer


def _idle(client: Worker, side: Cluster) -> Answer:
    """What a thousand partitions cost that nobody uses."""
    client.ask("topic", PHASE_S, hosts=side.hosts, name="idle", partitions=IDLE_PARTITIONS, replicas=1)
    time.sleep(SETTLE_S)
    cpu, began = side.cpu_s(), time.monotonic()
    time.sleep(IDLE_S)
    return {"cpu_share": (side.cpu_s() - cpu) / (time.monotonic() - began), "rss_mib": side.rss_mib()}


def _start(client: Worker, side: Cluster) -> Answer:
    """After `kill -9`: from the next start until every partition has its leader again, for all that a client sees.

    When the session of its former life is over, or it would be that which is measured.
    """
    side.kill(1)
    client.ask("gone", PHASE_S, store=side.store, broker=1)
    began = time.monotonic()
    side.start(1)
    side.wait()
    heard = time.monotonic() - began
    client.ask("led", PHASE_S, hosts=side.hosts, name="idle", partitions=IDLE_PARTITIONS)
    return {
        "seconds": time.monotonic() - began, "listens_s": heard, "cpu_s": side.cpu_s(), "rss_mib": side.rss_mib()
    }  # fmt: skip


def _profile(client: Worker, side: Cluster, phases: tuple[Phase, ...], runs: int, megabytes: int, folder: Path) -> None:
    """Where the time of our brokers goes, in a round that is not counted."""
    folder.mkdir(parents=True, exist_ok=True)
    workers = {number: each for number, each in side.brokers.items() if isinstance(each, Worker)}
    _topics(client, side, len(workers), runs + 1, phases)
    for phase in phases:
        for worker in workers.values():
            worker.ask("profile")
        answer = _perform(client, side, phase, runs + 1, megabytes)
        for number, worker in workers.items():
            path = folder / f"{phase.name.replace(' ', '-').replace(',', '')}-{number}.txt"
            worker.ask("profile", path=str(path.resolve()))
        _say(f"profiled {phase.name}: {_told(answer)}")


# -- what is told ------------------------------------------------------------------------------------------

_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("MB/s", "mb_per_s"),
    ("CPU ms/MB", "cpu_ms_per_mb"),
    ("p50 ms", "p50_ms"),
    ("p99 ms", "p99_ms"),
    ("CPU %", "cpu_share"),
    ("s", "seconds"),
    ("MiB", "rss_mib"),
)
_SCALE: Final = {"cpu_share": 100.0}
_RATIO: Final = ("mb_per_s", "p50_ms", "cpu_share", "seconds")
"""The first of these that a phase has is what is compared."""


def _row(count: int, name: str, sides: dict[str, list[Answer]]) -> dict[str, object]:
    row: dict[str, object] = {"brokers": count, "phase": name}
    some = sides["ours"][0]
    timed = "mb_per_s" in some or "p50_ms" in some
    for column, key in _COLUMNS:
        for label, answers in sides.items():
            there = key in some and not (key == "seconds" and timed)
            value = median([each[key] for each in answers]) * _SCALE.get(key, 1.0) if there else ""
            row[f"{label} {column}"] = value
    compared = next(key for key in _RATIO if key in some)
    if "apache" in sides:
        pairs = zip(sides["ours"], sides["apache"], strict=True)
        row["ratio"] = median(
            [ours[compared] / theirs[compared] if theirs[compared] else 0.0 for ours, theirs in pairs]
        )
        row["of"] = {"mb_per_s": "speed", "p50_ms": "p50", "cpu_share": "CPU", "seconds": "time"}[compared]
    return row


_WORDS: Final[tuple[tuple[str, Callable[[float], str]], ...]] = (
    ("mb_per_s", lambda value: f"{value:.1f} MB/s"),
    ("cpu_ms_per_mb", lambda value: f"{value:.2f} ms of CPU per MB"),
    ("p50_ms", lambda value: f"p50 {value:.2f} ms"),
    ("p99_ms", lambda value: f"p99 {value:.2f} ms"),
    ("cpu_share", lambda value: f"{value:.1%} of a core"),
    ("rss_mib", lambda value: f"{value:.0f} MiB"),
)


def _told(answer: Answer) -> str:
    said = [form(answer[key]) for key, form in _WORDS if key in answer]
    return ", ".join(said if "mb_per_s" in answer or "seconds" not in answer else [f"{answer['seconds']:.2f} s", *said])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
