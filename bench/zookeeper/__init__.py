"""The store against Apache ZooKeeper: the same Java client, the same machine, alternating in one run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from bench.report import Result, median, publish
from bench.workers import Worker
from bench.zookeeper.ensembles import Ours, Side, apache, ours, usage
from bench.zookeeper.load import Missing, check, load, zookeeper_version

CONNECTIONS: Final = 6
OUTSTANDING: Final = 64
SMALL: Final = 128
LARGE: Final = 1024
PHASE_S: Final = 180
"""A phase that takes longer than this has failed."""


@frozen
class Phase:
    """`share` of the operations are run: those that take longer each are fewer."""

    name: str
    do: str
    size: int = SMALL
    outstanding: int = OUTSTANDING
    share: float = 1.0

    def operations(self, operations: int) -> int:
        return max(CONNECTIONS * 10, int(operations * self.share))


PHASES: Final = {
    phase.name: phase
    for phase in (
        Phase("connect", "connect", share=0.02),
        Phase("set", "set"),
        Phase("create", "create"),
        Phase("delete", "delete"),
        Phase("get", "get", share=2.0),
        Phase("exists", "exists", share=2.0),
        Phase("mixed", "mixed", share=2.0),
        Phase("set-1k", "set", LARGE),
        Phase("create-1k", "create", LARGE),
        Phase("delete-1k", "delete", LARGE),
        Phase("get-1k", "get", LARGE, share=2.0),
        Phase("multi", "multi", share=0.2),
        Phase("one-set", "set", outstanding=1, share=0.05),
        Phase("one-get", "get", outstanding=1, share=0.2),
    )
}
"""In this order. What `create` made, `delete` takes away; so `get` finds data of the size that `set` left."""

_PAIRS: Final = {"create": "delete", "create-1k": "delete-1k"}

Answer = dict[str, Any]


def planned(names: Sequence[str] | None) -> list[Phase]:
    """With its other half where a phase cannot be run without it, and data of the right size to read."""
    wanted = set(names or PHASES)
    for create, delete in _PAIRS.items():
        if wanted & {create, delete}:
            wanted |= {create, delete}
    if "get-1k" in wanted:
        wanted.add("set-1k")
    return [phase for name, phase in PHASES.items() if name in wanted]


def run(
    names: Sequence[str] | None, runs: int, operations: int, warm_up: int, data: Path, profile: Path | None
) -> None:
    try:
        check()
    except Missing as missing:
        print(f"\n== zookeeper\nnot compared with Apache ZooKeeper: {missing}")
        return
    phases = planned(names)
    measured: dict[tuple[str, str], list[Answer]] = {}
    with ExitStack() as stack:
        _say("starting three servers of each")
        sides: list[Side] = [stack.enter_context(ours(data / "ours")), stack.enter_context(apache(data / "apache"))]
        client = load(data)
        stack.callback(client.stop)
        for side in sides:
            client.ask("open", label=side.label, hosts=side.hosts, connections=CONNECTIONS)
            _perform(client, side, PHASES["set"], operations)
        for number in range(warm_up):
            for phase in phases:
                _say(f"warming up, {number + 1} of {warm_up}: {phase.name}")
                for side in sides:
                    _perform(client, side, phase, operations)
        for number in range(runs):
            for phase in phases:
                for side in sides if number % 2 else sides[::-1]:
                    answer = _perform(client, side, phase, operations)
                    measured.setdefault((phase.name, side.label), []).append(answer)
                    speed, cost = answer["per_s"], answer["cpu_ms_per_1000"]
                    _say(
                        f"{number + 1}/{runs} {phase.name} {side.label}: {speed:,.0f}/s, {cost:.1f} ms of CPU per 1,000"
                    )
        if profile is not None:
            _profile(client, sides[0], phases, operations, profile)
    _publish(phases, runs, operations, warm_up, measured)


def _perform(client: Worker, side: Side, phase: Phase, operations: int) -> Answer:
    before = usage(side)
    count = phase.operations(operations)
    answer = client.ask(
        "run", PHASE_S + 20, label=side.label, phase=phase.do, operations=count, size=phase.size,
        outstanding=phase.outstanding, connections=CONNECTIONS, patience_s=PHASE_S,
    )  # fmt: skip
    after = usage(side)
    answer["per_s"] = answer["operations"] / answer["seconds"]
    answer["cpu_ms_per_1000"] = (after.cpu_s - before.cpu_s) * 1e6 / answer["operations"]
    answer["rss_mib"] = after.rss_mib
    return answer


def _profile(client: Worker, side: Side, phases: Sequence[Phase], operations: int, folder: Path) -> None:
    """Where the time of our servers goes, in a run that is not counted."""
    assert isinstance(side, Ours)
    folder.mkdir(parents=True, exist_ok=True)
    for phase in phases:
        for worker in side.members.workers.values():
            worker.ask("profile")
        answer = _perform(client, side, phase, operations)
        leader = side.members.leader()
        for sid, worker in side.members.workers.items():
            role = "leader" if sid == leader else "follower"
            worker.ask("profile", path=str(folder / f"{phase.name}-{role}-{sid}.txt"))
        _say(f"profiled {phase.name}: {answer['per_s']:,.0f}/s")


def _publish(
    phases: Sequence[Phase], runs: int, operations: int, warm_up: int, measured: dict[tuple[str, str], list[Answer]]
) -> None:
    def middle(phase: Phase, label: str, what: str) -> float:
        return median([answer[what] for answer in measured[phase.name, label]])

    rows = []
    for phase in phases:
        one = phase.outstanding == 1
        ratios = [
            ours["p50_ms"] / theirs["p50_ms"] if one else ours["per_s"] / theirs["per_s"]
            for ours, theirs in zip(measured[phase.name, "ours"], measured[phase.name, "apache"], strict=True)
        ]
        rows.append(
            {
                "phase": phase.name,
                "ours/s": middle(phase, "ours", "per_s"),
                "apache/s": middle(phase, "apache", "per_s"),
                "ratio": median(ratios),
                "of": "p50" if one else "speed",
                "ours p50 ms": middle(phase, "ours", "p50_ms"),
                "apache p50 ms": middle(phase, "apache", "p50_ms"),
                "ours p99 ms": middle(phase, "ours", "p99_ms"),
                "apache p99 ms": middle(phase, "apache", "p99_ms"),
                "ours CPU ms/1000": middle(phase, "ours", "cpu_ms_per_1000"),
                "apache CPU ms/1000": middle(phase, "apache", "cpu_ms_per_1000"),
                "ours MiB": middle(phase, "ours", "rss_mib"),
                "apache MiB": middle(phase, "apache", "rss_mib"),
            }
        )
    result: Result = {
        "runs": runs,
        "operations": operations,
        "warm_up": warm_up,
        "connections": CONNECTIONS,
        "outstanding": OUTSTANDING,
        "zookeeper": zookeeper_version(),
        "ratios": {row["phase"]: row["ratio"] for row in rows},
        "measured": [{"phase": name, "side": label, "runs": each} for (name, label), each in measured.items()],
    }
    publish("zookeeper", result, rows)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
