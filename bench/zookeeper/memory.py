"""The memory of a node: servers of each side, first empty, then with so many nodes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.report import median
from bench.workers import Worker, rss_mib
from bench.zookeeper.ensembles import HEAP_MIB, Side, apache, ours
from bench.zookeeper.load import load
from bench.zookeeper.phases import CONNECTIONS, Phase
from bench.zookeeper.rounds import HEARD_S, PHASE_S, Answer, Measured, say

LARGE_HEAP_MIB: Final = 2048
MANY_NODES: Final = 300_000
"""More than these do not fit into the heap of the other phases."""
JCMD_S: Final = 60
MIB: Final = 1 << 20


def filled(phases: Sequence[Phase], operations: int, data: Path) -> Measured:
    """One side after the other, so that they do not share the memory."""
    measured: Measured = {}
    for phase in phases:
        nodes = phase.operations(operations)
        heap_mib = LARGE_HEAP_MIB if nodes > MANY_NODES else HEAP_MIB
        for label in ("ours", "apache"):
            folder = data / f"{phase.name}-{label}"
            folder.mkdir(parents=True)
            with ExitStack() as stack:
                side: Side
                if label == "ours":
                    side = stack.enter_context(ours(folder))
                else:
                    side = stack.enter_context(apache(folder, heap_mib))
                client = load(folder)
                stack.callback(client.stop)
                answer = _filled(client, side, phase, nodes)
            measured[phase.name, label] = [answer]
            say(f"{phase.name} {label}: {answer}")
    return measured


def _filled(client: Worker, side: Side, phase: Phase, nodes: int) -> Answer:
    client.ask("open", HEARD_S, label=side.label, hosts=side.hosts, connections=CONNECTIONS)
    before, live_before = _resident(side), _live(side)
    client.ask(
        "run", HEARD_S, label=side.label, phase="create", operations=nodes, size=phase.size,
        outstanding=phase.outstanding, patience_s=PHASE_S,
    )  # fmt: skip
    after, live = _resident(side), _live(side)
    answer: Answer = {
        "nodes": nodes,
        "server_mib": median(after),
        "empty_mib": median(before),
        "bytes_per_node": (median(after) - median(before)) * MIB / nodes,
    }
    if live and live_before:
        answer["live_bytes_per_node"] = (median(live) - median(live_before)) * MIB / nodes
    return answer


def _resident(side: Side) -> list[float]:
    return [rss_mib(pid) for pid in side.pids.values()]


def _live(side: Side) -> list[float]:
    """Return the heap of a JVM after a garbage collection. Its resident memory would show its largest heap."""
    if side.label != "apache" or shutil.which("jcmd") is None:
        return []
    return [heap_used_mib(_jcmd(pid, "GC.run") + _jcmd(pid, "GC.heap_info")) for pid in side.pids.values()]


def _jcmd(pid: int, command: str) -> str:
    asked = ["jcmd", str(pid), command]
    return subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True, timeout=JCMD_S).stdout


def heap_used_mib(info: str) -> float:
    """All generations. The space of classes is no heap."""
    heap = re.split(r"^\s*Metaspace", info, maxsplit=1, flags=re.MULTILINE)[0]
    found = [int(kib) for kib in re.findall(r"total \d+K, used (\d+)K", heap)]
    if not found:
        raise ValueError(f"GC.heap_info says nothing of its use: {info!r}")
    return sum(found) / 1024
