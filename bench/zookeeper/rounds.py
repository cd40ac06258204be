"""The rounds: both sides warm, phase after phase, first the one and then the other, and the other way round."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.workers import Worker
from bench.zookeeper.ensembles import Ours, Served, Side, usage
from bench.zookeeper.phases import CONNECTIONS, PHASES, Phase

PHASE_S: Final = 300
"""A phase that takes longer than this has failed."""
HEARD_S: Final = PHASE_S + 120
WARM_UP: Final = 1 / 3

Answer: TypeAlias = dict[str, Any]
Measured: TypeAlias = dict[tuple[str, str], list[Answer]]
"""By phase and side."""


def opened(client: Worker, side: Served) -> None:
    client.ask("open", HEARD_S, label=side.label, hosts=side.hosts, connections=CONNECTIONS)


def perform(client: Worker, side: Served, phase: Phase, operations: int) -> Answer:
    before, began = usage(side), time.monotonic()
    answer = client.ask(
        "run", HEARD_S, label=side.label, phase=phase.do, operations=phase.operations(operations), size=phase.size,
        outstanding=phase.outstanding, patience_s=PHASE_S, **phase.more,
    )  # fmt: skip
    after = usage(side)
    answer["per_s"] = answer["operations"] / answer["seconds"]
    answer["cpu_s"] = after.cpu_s - before.cpu_s
    answer["cpu_ms_per_1000"] = answer["cpu_s"] * 1e6 / answer["operations"]
    answer["rss_mib"] = after.rss_mib
    answer["whole_s"] = time.monotonic() - began
    return answer


def warmed(client: Worker, sides: Sequence[Side], phases: Sequence[Phase], operations: int, rounds: int) -> None:
    """A cold JVM would flatter us. A share of the operations is enough for that."""
    operations = int(operations * WARM_UP)
    if phases:
        for side in sides:
            perform(client, side, PHASES["set"], operations)
    for number in range(rounds):
        for phase in phases:
            say(f"warming up, {number + 1} of {rounds}: {phase.name}")
            for side in sides:
                perform(client, side, phase, operations)


def alternate(
    client: Worker, sides: Sequence[Side], phases: Sequence[Phase], operations: int, runs: int, until: float | None
) -> Measured:
    """No round is begun that would, as the one before it, last beyond `until`; but one there is."""
    measured: Measured = {}
    lasted = 0.0
    for number in range(runs if phases else 0):
        began = time.monotonic()
        if number and until is not None and began + lasted > until:
            say(f"only {number} of {runs} rounds: there is no time for another")
            break
        for phase in phases:
            for side in sides if number % 2 else sides[::-1]:
                answer = perform(client, side, phase, operations)
                measured.setdefault((phase.name, side.label), []).append(answer)
                say(f"{number + 1}/{runs} {phase.name} {side.label}: {told(answer)}")
        lasted = time.monotonic() - began
    return measured


def told(answer: Answer) -> str:
    return (
        f"{answer['per_s']:,.0f}/s, p50 {answer['p50_ms']:.2f} ms, p99 {answer['p99_ms']:.2f} ms, "
        f"{answer['cpu_ms_per_1000']:.1f} ms of CPU per 1,000, {answer['rss_mib']:.0f} MiB"
    )


def profiled(client: Worker, side: Ours, phases: Sequence[Phase], operations: int, folder: Path) -> None:
    """Profile our servers, in a run that is not counted."""
    folder.mkdir(parents=True, exist_ok=True)
    for phase in phases:
        for worker in side.workers.values():
            worker.ask("profile")
        answer = perform(client, side, phase, operations)
        leader = side.leader()
        for sid, worker in side.workers.items():
            role = "leader" if sid == leader else "follower"
            worker.ask("profile", path=str((folder / f"{phase.name}-{role}-{sid}.txt").resolve()))
        say(f"profiled {phase.name}: {told(answer)}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
