"""The store against Apache ZooKeeper: the same Java client, the same machine, alternating in one run; other peers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import frozen

from bench.report import Result, publish
from bench.zookeeper.ensembles import Side, apache, ours
from bench.zookeeper.faults import failed
from bench.zookeeper.load import Missing, check, load, zookeeper_version
from bench.zookeeper.memory import filled
from bench.zookeeper.peers import beside_peers
from bench.zookeeper.phases import CONNECTIONS, OUTSTANDING, PHASES, Kind, Phase, of_kind, planned
from bench.zookeeper.picture import drawn
from bench.zookeeper.rounds import Measured, alternate, opened, profiled, say, warmed
from bench.zookeeper.told import compare, from_document, header, missed, page, rows

__all__ = ["PHASES", "Options", "run", "tell"]


@frozen
class Options:
    """
    minutes  no further round is begun that would end later than this; None: all are
    profile  a folder for profiles of our servers, from one more round
    """

    phases: Sequence[str] | None
    runs: int
    operations: int
    warm_up: int
    minutes: float | None
    profile: Path | None
    picture: Path | None


def run(options: Options, data: Path) -> None:
    began = time.monotonic()
    phases = planned(options.phases)
    until = None if options.minutes is None else began + options.minutes * 60
    versions: dict[str, str] = {}
    measured: Measured = {}
    try:
        check()
        versions["Apache ZooKeeper"] = zookeeper_version()
    except Missing as missing:
        print(f"\n== zookeeper\nnot compared with Apache ZooKeeper: {missing}")
        phases = [phase for phase in of_kind(phases, Kind.PEER) if phase.name != "etcd"]  # which needs our Java client
    measured |= _together(phases, options, until, data)
    measured |= filled(of_kind(phases, Kind.MEMORY), options.operations, data)
    found, others = beside_peers(of_kind(phases, Kind.PEER), options.operations, options.runs, data)
    measured |= found
    versions |= others
    if not measured:
        return
    result: Result = {
        "runs": options.runs,
        "operations": options.operations,
        "warm_up": options.warm_up,
        "connections": CONNECTIONS,
        "outstanding": OUTSTANDING,
        "minutes": (time.monotonic() - began) / 60,
        "peers": versions,
        "ratios": {each.phase.name: each.ratio for each in compare(measured)},
        "measured": [{"phase": name, "side": label, "runs": each} for (name, label), each in measured.items()],
    }
    path = publish("zookeeper", result, rows(compare(measured), measured))
    tell(path, options.picture)


def _together(phases: Sequence[Phase], options: Options, until: float | None, data: Path) -> Measured:
    """Compare three servers of each side, all running all the time."""
    alternating, faults = of_kind(phases, Kind.ROUNDS), of_kind(phases, Kind.FAULT)
    if not alternating and not faults:
        return {}
    with ExitStack() as stack:
        say("starting three servers of each")
        mine = stack.enter_context(ours(data / "ours"))
        sides: list[Side] = [mine, stack.enter_context(apache(data / "apache"))]
        client = load(data)
        stack.callback(client.stop)
        for side in sides:
            opened(client, side)
        warmed(client, sides, alternating or [PHASES["set"]], options.operations, options.warm_up)
        measured = alternate(client, sides, alternating, options.operations, options.runs, until)
        if options.profile is not None:
            profiled(client, mine, alternating, options.operations, options.profile)
        return measured | failed(client, sides, faults, options.operations, options.runs)


def tell(path: Path, picture: Path | None) -> None:
    """Once more from the file: the tables for the documentation, and the picture."""
    document: dict[str, Any] = json.loads(path.read_text())
    compared = compare(from_document(document))
    print(f"\n{page(document)}")
    if lacking := missed(compared):
        print(f"goals missed: {'; '.join(lacking)}")
    if picture is not None:
        picture.write_text(drawn(compared, "The store beside its peers", header(document)))
        say(f"-> {picture}")
