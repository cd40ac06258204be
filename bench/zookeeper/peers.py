"""Peers that are spoken to in another way: etcd by its own client, PySyncObj in its processes, kazoo at our server.

What differs but for the server is said where it is told. Each is left out, with the reason, where it is not to be had.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench import clients, etcd, peers, throughput
from bench.workers import Worker
from bench.zookeeper.ensembles import Served, ours
from bench.zookeeper.load import Missing, load
from bench.zookeeper.phases import PHASES, ROWS, Phase
from bench.zookeeper.rounds import Measured, opened, perform, say, told

SECONDS: Final = 2.0
"""Of each depth of PySyncObj and ours."""
ETCD_RUNS_MAX: Final = 2
WRITES: Final = {throughput.PIPELINED: "pysyncobj-384", throughput.DEEP: "pysyncobj-6144"}
KAZOO: Final = {"get": "kazoo-get", "set": "kazoo-set", "one get": "kazoo-one-get"}


def beside_peers(phases: Sequence[Phase], operations: int, runs: int, data: Path) -> tuple[Measured, dict[str, str]]:
    """Measure the peers. Return the figures, and the version of each peer."""
    works: dict[str, Callable[[int, int, Path], tuple[Measured, str]]] = {
        "etcd": _etcd,
        "pysyncobj": _pysyncobj,
        "kazoo": _kazoo,
    }
    measured: Measured = {}
    versions = {}
    for phase in phases:
        say(f"beside {phase.name}")
        folder = data / phase.name
        folder.mkdir(parents=True)
        try:
            found, versions[phase.name] = works[phase.do](phase.operations(operations), runs, folder)
            measured |= found
        except Missing as missing:
            print(f"not compared with {phase.name}: {missing}")
    return measured, versions


def _etcd(operations: int, runs: int, data: Path) -> tuple[Measured, str]:
    """Ours under the stock Java client, etcd under its own in Go; the first round warms both, and is not counted."""
    etcd.programs()
    operations = round(operations / PHASES["etcd"].share)
    rows = [phase for name, phase in ROWS.items() if name.startswith("etcd-")]
    measured: Measured = {}
    with ExitStack() as stack:
        sides: list[tuple[Served, Worker]] = [
            (stack.enter_context(etcd.etcd(data / "etcd")), etcd.load(data)),
            (stack.enter_context(ours(data / "ours")), load(data)),
        ]
        for side, client in sides:
            stack.callback(client.stop)
            opened(client, side)
        for number in range(min(runs, ETCD_RUNS_MAX) + 1):
            for phase in rows:
                for side, client in sides if number % 2 else sides[::-1]:
                    answer = perform(client, side, phase, operations)
                    if number:
                        measured.setdefault((phase.name, side.label), []).append(answer)
                    say(f"{number} {phase.name} {side.label}: {told(answer)}")
    return measured, etcd.VERSION.removeprefix("v")


def _pysyncobj(operations: int, runs: int, data: Path) -> tuple[Measured, str]:
    """Its journal is never synced; ours is at every batch. One run, because each variant has servers of its own."""
    if importlib.util.find_spec("pysyncobj") is None:
        raise Missing("PySyncObj is not installed")
    found = throughput.measure(1, SECONDS, data)
    measured: Measured = {}
    for depth, name in WRITES.items():
        measured[name, "ours"] = found[throughput.OURS, depth]
        measured[name, "pysyncobj"] = found[throughput.REFERENCE, depth]
    return measured, f"{version('pysyncobj')} ({peers.JOURNAL.name})"


def _kazoo(operations: int, runs: int, data: Path) -> tuple[Measured, str]:
    if importlib.util.find_spec("kazoo") is None:
        raise Missing("kazoo is not installed")
    found = clients.measure(1, operations, data)
    measured: Measured = {}
    for phase, name in KAZOO.items():
        for client, side in (("zab.connect", "ours"), ("kazoo", "kazoo")):
            measured[name, side] = [{"per_s": each["per_s"]} for each in found[client, phase]]
    return measured, version("kazoo")
